"""The addresses at which others reach a node: the listeners that it registers."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.config.listeners import Endpoint, is_wildcard
from moldau.core.metadata.image import BrokerListener
from moldau.core.raft.voters import VoterSet, configured_voters
from moldau.shell.io.host_name import is_loopback_name
from moldau.shell.network.event_log import EventLog
from moldau.shell.node.ports import NodePorts
from moldau.wire.protocol.messages.broker_lifecycle import RegisteredListener
from moldau.wire.protocol.messages.raft_records import Endpoint as VoterEndpoint


def voters_at(listener_name: str, settings: BrokerSettings) -> VoterSet | None:
    """The voters of `controller.quorum.voters`, each at the controller's listener of that address; None: the setting is
    empty."""
    voters = settings.controller_quorum_voters
    if not voters:
        return None
    endpoints = {voter.node_id: VoterEndpoint(listener_name, voter.host, voter.port) for voter in voters}
    return configured_voters(endpoints, endpoints)


class RegisteredAddresses:
    """The addresses of one node. `is_for_others`: whether other nodes reach it; if not, it needs no host name."""

    def __init__(self, settings: BrokerSettings, ports: NodePorts, log: EventLog, *, is_for_others: bool) -> None:
        self._settings = settings
        self._ports = ports
        self._log = log
        self._is_for_others = is_for_others
        self.name: str | None = None
        """This machine's host name, once a listener was registered with it."""

    def for_controllers(self, endpoint: Endpoint, port: int) -> BrokerListener:
        """The controller's listener as the voters know it: the advertised one, or the bound one at `port`. Without a
        host it takes the one of its entry in `controller.quorum.voters`, as Apache Kafka does, because the other voters
        use that."""
        settings = self._settings
        advertised = next(
            (one for one in settings.advertised_controller_endpoints if one.name == endpoint.name), endpoint
        )
        named = [each.host for each in settings.controller_quorum_voters if each.node_id == settings.node_id]
        if named and is_wildcard(advertised.host) and not is_wildcard(named[0]):
            host = named[0]
        else:
            host = self._host(advertised)
        protocol = settings.protocol_code_of(endpoint.name)
        return BrokerListener(endpoint.name, host, advertised.port or port, protocol)

    def for_brokers(self, bound: Mapping[str, int]) -> tuple[RegisteredListener, ...]:
        """The listeners for clients and brokers. `bound`: each listener's port, by name."""
        return tuple(
            RegisteredListener(
                endpoint.name,
                self._host(endpoint),
                endpoint.port or bound[endpoint.name],
                self._settings.protocol_code_of(endpoint.name),
            )
            for endpoint in self._settings.registered_listeners
        )

    def _host(self, endpoint: Endpoint) -> str:
        if not is_wildcard(endpoint.host):
            return endpoint.host
        if not self._is_for_others:
            return "localhost"
        if self.name is None:
            self.name = self._ports.host_name()
        if is_loopback_name(self.name) and not self._settings.is_alone:
            self._log.warn(
                "own address",
                f"the listener {endpoint} names no host, and this machine is called {self.name}: other machines do "
                "not reach it by that name; set advertised.listeners to an address that they reach",
                about=endpoint.name,
            )
        return self.name
