"""Applies the quotas and limits of metadata and settings to connections and requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.config.listeners import LISTENER_LIMITS
from moldau.core.quotas.connections import UNLIMITED, ConnectionQuotas, ListenerLimits, parse_overrides
from moldau.core.quotas.connections import ConnectionLimits as ConnectionCounts
from moldau.core.quotas.rates import Windows
from moldau.ports import Clock
from moldau.shell.network.admission import ConnectionAdmission
from moldau.shell.network.bounds import NEVER_MS, ConnectionLimits
from moldau.shell.network.event_log import EventLog
from moldau.shell.node.ports import NodePorts
from moldau.telemetry import Telemetry

if TYPE_CHECKING:
    from moldau.shell.broker.quotas import BrokerQuotas
    from moldau.shell.broker.role import Broker
    from moldau.shell.network.dispatch import Dispatcher
    from moldau.shell.quorum.role import QuorumRole


CONTROLLER_SHARE = 4
"""If clients also connect to this node, the controller's listener gets one in this many connection descriptors."""


def shares_of_connections(settings: BrokerSettings, max_open: int | None) -> tuple[int | None, int | None]:
    """How many of `max_open` connections may be open at once on the client listeners and on the controller's. A flood
    on one leaves the other its share, and both together leave descriptors for log files."""
    if max_open is None or not settings.controller_endpoints:
        return max_open, max_open
    for_controllers = max(1, max_open // CONTROLLER_SHARE) if settings.listeners else max_open
    return max_open - for_controllers, for_controllers


def new_admission(
    settings: BrokerSettings, ports: NodePorts, log: EventLog, telemetry: Telemetry, *, max_open: int | None = None
) -> ConnectionAdmission:
    """The connection limits of a starting node: from the settings file alone until the metadata is read. As in Kafka,
    the inter-broker listener is protected if clients have another one."""
    windows = Windows(settings.quota_window_num, settings.quota_window_size_seconds * 1_000)
    quotas = ConnectionQuotas(limits_of(settings), windows)
    return ConnectionAdmission(
        quotas,
        asyncio.get_running_loop(),
        ports.clock,
        log,
        telemetry,
        max_open=max_open,
        protected_listener=settings.inter_broker_listener if len(settings.listeners) > 1 else None,
    )


def limits_of(settings: BrokerSettings) -> ConnectionCounts:
    """The limits of the number and the rate of connections."""
    return ConnectionCounts(
        max_connections=settings.max_connections,
        max_connections_per_ip=settings.max_connections_per_ip,
        overrides=parse_overrides(settings.max_connections_per_ip_overrides),
        creation_rate=settings.max_connection_creation_rate,
        listeners=_limits_of_listeners(settings),
    )


def _limits_of_listeners(settings: BrokerSettings) -> dict[str, ListenerLimits]:
    """As in Kafka, the prefix has the listener's name in lower case."""
    found: dict[str, ListenerLimits] = {}
    for endpoint in (*settings.listeners, *settings.controller_endpoints):
        limits = [settings.limit_of_listener(endpoint.name, name) for name in LISTENER_LIMITS]
        if limits != [None, None]:
            found[endpoint.name] = ListenerLimits(*(UNLIMITED if limit is None else limit for limit in limits))
    return found


def connection_limits(settings: BrokerSettings) -> ConnectionLimits:
    """The bounds of each connection from the settings. As in Kafka, a negative idle time means no limit."""
    idle_ms = settings.connections_max_idle_ms
    return ConnectionLimits(
        max_request_bytes=settings.socket_request_max_bytes,
        max_unauthenticated_bytes=settings.sasl_server_max_receive_size,
        max_idle_ms=NEVER_MS if idle_ms < 0 else idle_ms,
        handshake_timeout_ms=settings.moldau_handshake_timeout_ms,
        frame_timeout_ms=settings.moldau_frame_timeout_ms,
        frame_progress_bytes=settings.moldau_frame_progress_bytes,
        max_pending_responses=settings.moldau_connection_pending_responses,
        max_pending_response_bytes=settings.moldau_connection_pending_response_bytes,
        write_high_water_bytes=settings.moldau_connection_high_water_bytes,
    )


def follow_client_quotas(dispatcher: Dispatcher, quorum: QuorumRole, settings: BrokerSettings, clock: Clock) -> None:
    """Applies client quota changes to the controller's listener at once, from now on. Nobody is charged for request
    time there, and there is no produce or fetch, so only the quota of topic changes applies (KIP-599). Requests that
    brokers forward for clients are held to the same quotas, through the envelope."""
    from moldau.shell.broker.quotas import BrokerQuotas

    quotas = BrokerQuotas(settings, clock)
    quotas.on_change.append(dispatcher.quotas_changed)
    quorum.subscribe(quotas.metadata_changed)


def follow_quotas(dispatcher: Dispatcher, admission: ConnectionAdmission, broker: Broker) -> None:
    """Applies changed quotas of clients and addresses, and changed connection limits, at once, from now on."""

    def quotas_changed(quotas: BrokerQuotas) -> None:
        dispatcher.quotas_changed(quotas)
        admission.quotas.quotas_changed(quotas.addresses)

    def settings_changed(settings: BrokerSettings) -> None:
        admission.quotas.limits_changed(limits_of(settings))
        admission.let_in()

    broker.quotas.on_change.append(quotas_changed)
    quotas_changed(broker.quotas)
    broker.own_node.settings.on_change.append(settings_changed)
    settings_changed(broker.settings)
