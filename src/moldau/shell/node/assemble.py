"""Builds a running node from settings and ports: quorum, logs, broker, listeners, in the order of their dependencies;
and takes it apart at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.config.listeners import Endpoint, is_wildcard
from moldau.core.config.topic_settings import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from moldau.core.metadata.image import BrokerListener
from moldau.errors import InvariantError, MoldauError, StorageFailedError
from moldau.shell.network.bounds import RequestMemory, ResponseMemory
from moldau.shell.network.connection_group import ConnectionGroup
from moldau.shell.network.event_log import EventLog
from moldau.shell.network.node_parts import NodeFailures, NodeParts
from moldau.shell.network.pauses import Pauses
from moldau.shell.node.admission import (
    connection_limits,
    follow_client_quotas,
    follow_quotas,
    new_admission,
    shares_of_connections,
)
from moldau.shell.node.audit import AuditWriter, new_audit, start_audit
from moldau.shell.node.authentication import NodeAuthentication
from moldau.shell.node.authorization import new_authorizer
from moldau.shell.node.controller_listener import ControllerListener
from moldau.shell.node.cordoned import when_cordoned
from moldau.shell.node.kept import tell_groups, tell_metadata
from moldau.shell.node.open_listeners import warn_of_open_listeners
from moldau.shell.node.ports import NodePorts
from moldau.shell.node.registered import RegisteredAddresses, voters_at
from moldau.shell.node.tls import NodeTls
from moldau.shell.peers.logins import with_logins
from moldau.telemetry import Telemetry
from moldau.transport.network import Listener, Network, TcpListener
from moldau.types import BrokerId, counted

if TYPE_CHECKING:
    from moldau.core.authorization.authorizer import StandardAuthorizer
    from moldau.core.log.directories.directories import LogDirectories
    from moldau.shell.broker.cluster.controller_channel import ControllerChannel
    from moldau.shell.broker.cluster.heartbeats import Heartbeats
    from moldau.shell.broker.logs.housekeeping import Housekeeping
    from moldau.shell.broker.role import Broker
    from moldau.shell.network.background import BackgroundTasks
    from moldau.shell.network.dispatch import Dispatcher
    from moldau.shell.node.directories import NodeDirectories
    from moldau.shell.node.operations import Operations
    from moldau.shell.node.storage_format import MetaProperties
    from moldau.shell.quorum.role import QuorumRole
    from moldau.wire.protocol.messages.broker_lifecycle import BrokerRegistrationRequest

CONTROLLER_PORT = 9093
CONTROLLER_TIMEOUT_MS = 30_000
"""How long a client's request waits for an active controller."""


class Node:
    """A broker, a controller or both in one process, as `process.roles` says. Used from one loop. A listener with port
    0 gets a free port."""

    def __init__(self, settings: BrokerSettings, ports: NodePorts) -> None:
        self.settings = settings
        self.ports = ports
        self.telemetry = Telemetry(settings.moldau_metric_series)
        self.log = EventLog(ports.clock, settings.node_id, new_audit(settings, ports.clock, self.telemetry))
        self.node_id = BrokerId(settings.node_id)
        self.failure: InvariantError | StorageFailedError | None = None
        """Why the node stopped by itself, if it did."""
        self.stopped: asyncio.Event = asyncio.Event()
        """Set once the node no longer serves, for any reason."""
        self._network: Network = ports.network
        self._tls: NodeTls | None = None
        self._listeners: list[Listener] = []
        self._directories: NodeDirectories | None = None
        self._group: ConnectionGroup | None = None
        self._controller_listener: ControllerListener | None = None
        names = settings.controller_listener_names
        first = BrokerListener(names[0].upper() if names else "CONTROLLER", "localhost", CONTROLLER_PORT)
        self._controller_addresses: tuple[BrokerListener, ...] = (first,)
        """The controller's addresses in the voters record. A controller that is alone needs no socket."""
        is_for_others = bool(settings.controller_endpoints) or not settings.is_alone
        self._addresses = RegisteredAddresses(settings, ports, self.log, is_for_others=is_for_others)
        self._authentication = NodeAuthentication(settings, ports, self.log, self.telemetry)
        self._dispatcher: Dispatcher | None = None
        self._authorizer: StandardAuthorizer | None = None
        self._quorum: QuorumRole | None = None
        self._logs: LogDirectories | None = None
        self._broker: Broker | None = None
        self._channels: list[ControllerChannel] = []
        self._tasks: BackgroundTasks | None = None
        self._audit: AuditWriter | None = None
        self._heartbeats: Heartbeats | None = None
        self.housekeeping: Housekeeping | None = None  # before the start and after the end
        self.operations: Operations | None = None
        """The operators' HTTP endpoint, if `moldau.http.listener` asks for it."""

    # -- addresses and parts

    @property
    def host(self) -> str:
        """The host that the first listener is bound to. Raises MoldauError before `start`."""
        return self._first_listener().host

    @property
    def port(self) -> int:
        """The actual port of the first listener, even for port 0 in the settings. Raises MoldauError before `start`."""
        return self._first_listener().port

    @property
    def bootstrap_servers(self) -> str:
        """`HOST:PORT` of the first client listener; of a controller alone, its controller listener. Raises MoldauError
        before `start`."""
        listener = self._first_listener() if self.settings.is_broker else self._controller_addresses[0]
        host = listener.host
        if is_wildcard(host) and not self.settings.is_alone:
            host = self._addresses.name or host
        host = host or "localhost"
        return f"[{host}]:{listener.port}" if ":" in host else f"{host}:{listener.port}"

    @property
    def broker(self) -> Broker:
        """The broker, for tests and the simulator. Raises MoldauError before `start`."""
        if self._broker is None:
            raise MoldauError("the node is not running")
        return self._broker

    @property
    def quorum(self) -> QuorumRole:
        """The quorum role, for the test kit and the simulator. Raises MoldauError before `start`."""
        if self._quorum is None:
            raise MoldauError("the node is not running")
        return self._quorum

    @property
    def dispatcher(self) -> Dispatcher:
        """The dispatcher, for tests: its counts and its authorizer. Raises MoldauError before `start`."""
        if self._dispatcher is None:
            raise MoldauError("the node is not running")
        return self._dispatcher

    @property
    def connections(self) -> ConnectionGroup:
        """The connections that carry the clients' frames, for tests. Raises MoldauError before `start`."""
        if self._group is None:
            raise MoldauError("the node is not running")
        return self._group

    def _first_listener(self) -> Listener:
        if not self._listeners:
            raise MoldauError("the node is not running")
        return self._listeners[0]

    # -- starting

    async def start(self) -> None:
        """Returns once clients are served and the broker is registered. On an error it undoes everything.

        Raises MoldauError if the directory is in use, belongs to another cluster or cannot be read; OSError if a port
        is taken.
        """
        from moldau.shell.node.directories import NodeDirectories

        directories = self._directories = NodeDirectories(self.ports, self.log)
        try:
            directories.lock()
        except BaseException:
            directories.unlock()
            raise
        try:
            group = await self._listen()
            await self._open_operations(group)
            await self._assemble(directories, group)
        except BaseException:
            self.abort()
            raise

    async def _listen(self) -> ConnectionGroup:
        """Binds the ports first, because a port in use must be an error before any file is touched. Clients wait until
        `_open`."""
        settings = self.settings
        memory_bytes = settings.queued_max_request_bytes
        if memory_bytes <= 0:
            memory_bytes = min(settings.moldau_request_memory_bytes, self.ports.physical_memory_bytes // 4)
        for_clients, for_controllers = shares_of_connections(settings, self.ports.max_open_connections)
        group = self._group = ConnectionGroup(
            asyncio.get_running_loop(),
            connection_limits(settings),
            RequestMemory(memory_bytes, self.telemetry),
            ResponseMemory(settings.moldau_response_memory_bytes, self.telemetry),
            self.log,
            self.telemetry,
            new_admission(settings, self.ports, self.log, self.telemetry, max_open=for_clients),
        )
        group.show_memory()
        tls = self._tls = NodeTls(settings, self.log, self.ports.clock.now_ms, self.telemetry)
        self._network = with_logins(tls.secured(self.ports.network), settings, self.ports.random, self.ports.workers)
        warn_of_open_listeners(settings, self.log)
        self._audit = start_audit(settings, self.ports.workers, self.log, self._background)
        if tls.is_used:
            self._background().spawn(tls.watch(self.ports.workers))
        await self._authentication.load_keys(self._background().spawn)
        for endpoint in settings.listeners:
            asked, certified = self._authentication.of_listener(endpoint.name, group), tls.principal_of(endpoint.name)
            factory = partial(group.new_connection, endpoint.name, asked, certified)
            server = tls.server(endpoint.name)
            self._listeners.append(await self._network.listen(endpoint.host, endpoint.port, factory, server))
        if settings.controller_endpoints:
            await self._listen_for_controllers(settings.controller_endpoints, tls, for_controllers)
        return group

    async def _listen_for_controllers(self, endpoints: Sequence[Endpoint], tls: NodeTls, max_open: int | None) -> None:
        admission = new_admission(self.settings, self.ports, self.log, self.telemetry, max_open=max_open)
        listener = self._controller_listener = ControllerListener(
            connection_limits(self.settings), admission, self.log, self.telemetry, self._authentication
        )
        ports = {
            name: await listener.open(self._network, endpoint, tls.server(name), tls.principal_of(name))
            for name, endpoint in ((each.name, each) for each in endpoints)
        }
        self._controller_addresses = tuple(
            self._addresses.for_controllers(each, ports[each.name]) for each in endpoints
        )

    async def _open_operations(self, group: ConnectionGroup) -> None:
        """From here on `/live` answers, and `/ready` says why the node is not ready yet."""
        if not self.settings.moldau_http_listener:
            return
        import time

        from moldau.shell.node.operations import Operations

        operations = Operations(asyncio.get_running_loop(), self.ports.clock, self.telemetry, time.perf_counter, group)
        self.operations = operations
        await operations.listen(self.ports.network, self.settings, self._tls, self.log)

    async def _assemble(self, directories: NodeDirectories, group: ConnectionGroup) -> None:
        """Formats new directories, then starts quorum, logs and broker, and registers."""
        first = self._controller_addresses[0]
        properties, logs = directories.open(self.node_id, first, is_alone=self.settings.is_alone)
        self._logs = logs
        pauses = Pauses(asyncio.get_running_loop(), self.ports.timer_ns)
        quorum = await self._start_quorum(properties, logs, pauses)
        channel = self._new_channel(quorum, CONTROLLER_TIMEOUT_MS)
        if self.settings.is_controller:
            self._make_controller_known(channel)
        if self.settings.is_broker:
            broker = await self._start_broker(quorum, channel, logs, pauses, group.response_memory)
            self._open(group, quorum, broker)
        else:
            if self.operations is not None:
                self.operations.status.serving(quorum)
            self.log.info(
                "node started",
                f"node {self.node_id} of cluster {quorum.image.cluster_id} is a controller at {self.bootstrap_servers}",
            )

    @property
    def _failures(self) -> NodeFailures:
        return NodeFailures(self._invariant_broken, self._directory_failed)

    def _parts(self, pauses: Pauses) -> NodeParts:
        ports, loop = self.ports, asyncio.get_running_loop()
        own = ports.clock, ports.random, ports.disk, ports.workers, self._network
        return NodeParts(*own, loop, pauses, self.telemetry, self.log)

    async def _start_quorum(self, properties: MetaProperties, logs: LogDirectories, pauses: Pauses) -> QuorumRole:
        """Reads the metadata; a controller also becomes a voter."""
        from moldau.shell.quorum.role import QuorumRole, VoterIdentity

        points = self._controller_addresses
        identity = VoterIdentity(self.node_id, properties.cluster_id, properties.directory_id, points)
        quorum = self._quorum = QuorumRole(
            identity=identity,
            settings=self.settings,
            node=self._parts(pauses),
            failures=self._failures,
            health=logs.first.health,
            configured=voters_at(points[0].name, self.settings),
        )
        self._authorizer = new_authorizer(self.settings, quorum, self.log)
        if self._controller_listener is not None:
            self._serve_controllers(self._controller_listener, quorum, pauses)
        self._authentication.follow(quorum)
        await quorum.start()
        tell_metadata(self.log, quorum, self.settings)
        return quorum

    def _make_controller_known(self, channel: ControllerChannel) -> None:
        from moldau.core.metadata.random_uuid import random_uuid
        from moldau.shell.quorum.controller_registration import register_controller, registration_of

        registration = registration_of(self.node_id, random_uuid(self.ports.random), self._controller_addresses)
        self._background().spawn(register_controller(registration, channel.submit, self.log))

    async def _start_broker(
        self,
        quorum: QuorumRole,
        channel: ControllerChannel,
        logs: LogDirectories,
        pauses: Pauses,
        response_memory: ResponseMemory,
    ) -> Broker:
        """Starts the broker, with its registration confirmed."""
        from moldau.shell.broker.logs.housekeeping import Housekeeping
        from moldau.shell.broker.role import Broker, BrokerMemory
        from moldau.shell.node.stored_logs import StoredLogs

        ports, settings = self.ports, self.settings
        if self.operations is not None:
            self.operations.status.recovering()
        stored = StoredLogs(self.node_id, settings, ports, self.log, logs)
        stored.settle_strays(quorum)
        await stored.open(quorum.image, pauses.pause_long)
        broker = self._broker = Broker(
            settings=settings,
            node_id=self.node_id,
            node=self._parts(pauses),
            logs=logs,
            controller=channel,
            memory=BrokerMemory(response_memory, ports.physical_memory_bytes),
            failures=self._failures,
        )
        if self._is_whole(quorum):
            await _take_part(quorum, broker)
        await self._register(quorum, broker, logs)
        await broker.partitions.wait_flushed()
        self.housekeeping = Housekeeping(broker.own_node, broker.partitions, broker.moves)
        self.housekeeping.start()
        return broker

    def _serve_controllers(self, listener: ControllerListener, quorum: QuorumRole, pauses: Pauses) -> None:
        from moldau.shell.administration.table import controller_specs
        from moldau.shell.network.dispatch import Dispatcher
        from moldau.shell.quorum.administered import AdministeredController
        from moldau.shell.quorum.handlers.table import handler_specs

        dispatcher = Dispatcher(
            quorum,
            handler_specs(),
            self._parts(pauses),
            listener.request_memory,
            authorizer=self._authorizer,
            on_invariant_broken=self._invariant_broken,
        )
        dispatcher.serve(AdministeredController(quorum, self.settings), controller_specs())
        follow_client_quotas(dispatcher, quorum, self.settings, self.ports.clock)
        listener.serve(dispatcher)

    async def _register(self, quorum: QuorumRole, broker: Broker, logs: LogDirectories) -> None:
        """Registers our listeners with the controller, which then makes us the leader of our partitions, with one
        flush."""
        from moldau.core.metadata.features import REGISTERED_FEATURES
        from moldau.shell.broker.cluster.clock_watch import watch_clock
        from moldau.shell.broker.cluster.life_cycle import LifeCycle
        from moldau.wire.protocol.messages.broker_lifecycle import BrokerRegistrationRequest

        names = (endpoint.name for endpoint in self.settings.listeners)
        bound = dict(zip(names, (listener.port for listener in self._listeners), strict=True))
        registration = BrokerRegistrationRequest(
            broker_id=self.node_id,
            cluster_id=quorum.image.cluster_id,
            incarnation_id=broker.incarnation_id,
            listeners=self._addresses.for_brokers(bound),
            features=REGISTERED_FEATURES,
            rack=self.settings.broker_rack,
            log_dirs=tuple(sorted(logs.online_ids)),
            previous_broker_epoch=logs.previous_broker_epoch,
        )
        if self._is_whole(quorum):
            life = LifeCycle(self.node_id, quorum)
            broker.registered(await life.start(registration, logs.cordoned_ids))
            when_cordoned(broker, logs, lambda: broker.spawn(life.serve(broker.broker_epoch, logs.cordoned_ids)))
            return
        heartbeats = self._heartbeats = self._new_heartbeats(quorum, broker, logs, registration)
        when_cordoned(broker, logs, heartbeats.beat_now)
        await heartbeats.start()
        broker.spawn_lasting(heartbeats.go_on())
        broker.spawn_lasting(watch_clock(broker.own_node, broker.controller.describe_quorum))

    def _is_whole(self, quorum: QuorumRole) -> bool:
        """Whether no other node can ever join. A single voter is not enough: other brokers may know it."""
        return quorum.is_alone and self._controller_listener is None

    def _new_heartbeats(
        self, quorum: QuorumRole, broker: Broker, logs: LogDirectories, registration: BrokerRegistrationRequest
    ) -> Heartbeats:
        """Heartbeats with a separate connection to the controller, so slow requests do not delay them."""
        from moldau.core.controller.sessions import PATIENCE_SHARE
        from moldau.core.metadata.features import can_cordon
        from moldau.shell.broker.cluster.heartbeats import BrokerReport, Heartbeats

        settings = self.settings
        channel = self._new_channel(quorum, settings.broker_session_timeout_ms // PATIENCE_SHARE)
        heartbeats = Heartbeats(
            registration,
            channel.submit,
            self.log,
            BrokerReport(
                lambda: quorum.high_watermark - 1,
                lambda: tuple(sorted(each.directory_id for each in logs if each.health.is_offline)),
                lambda: logs.cordoned_ids if can_cordon(quorum.image.features) else None,
            ),
            take_part=partial(_take_part, quorum, broker),
            registered=broker.registered,
            interval_ms=settings.broker_heartbeat_interval_ms,
            registration_timeout_ms=settings.initial_broker_registration_timeout_ms,
        )
        channel.when_lost(heartbeats.beat_now)
        return heartbeats

    def _new_channel(self, quorum: QuorumRole, timeout_ms: int) -> ControllerChannel:
        from moldau.shell.broker.cluster.controller_channel import ControllerChannel

        channel = ControllerChannel(quorum, self._network, timeout_ms)
        self._channels.append(channel)
        return channel

    def _open(self, group: ConnectionGroup, quorum: QuorumRole, broker: Broker) -> None:
        from moldau.shell.broker.handlers.table import handler_specs
        from moldau.shell.network.dispatch import Dispatcher

        dispatcher = self._dispatcher = Dispatcher(
            broker,
            handler_specs(),
            broker.own_node,
            group.request_memory,
            authorizer=self._authorizer,
            timer=None if self.operations is None else self.operations.timer,
            quota_timer_ns=self.ports.timer_ns,
            on_invariant_broken=self._invariant_broken,
        )
        follow_quotas(dispatcher, group.admission, broker)
        if self._tls is not None:
            broker.own_node.settings.on_change.append(self._tls.settings_changed)
            self._tls.settings_changed(broker.settings)
        broker.own_node.settings.on_change.append(self._authentication.settings_changed)
        group.open(dispatcher)
        if self.operations is not None:
            self.operations.status.serving(quorum, broker, dispatcher)
        self.log.info(
            "node started",
            f"node {self.node_id} of cluster {broker.image.cluster_id} listens at {self.bootstrap_servers}, "
            f"broker epoch {broker.broker_epoch}, {counted(sum(1 for _ in broker.partitions), 'partition')}",
            epoch=broker.broker_epoch,
        )
        if OFFSETS_TOPIC in broker.image.topics_by_name:
            broker.spawn(tell_groups(self.log, broker))
        if TRANSACTION_STATE_TOPIC in broker.image.topics_by_name:
            broker.coordination.transactions.load()

    def _background(self) -> BackgroundTasks:
        from moldau.shell.network.background import BackgroundTasks

        if self._tasks is None:
            self._tasks = BackgroundTasks(asyncio.get_running_loop(), self.log, self._invariant_broken)
        return self._tasks

    # -- stopping

    async def stop(self) -> None:
        """Stops cleanly: serves nobody any more and flushes everything, so the next start needs no recovery."""
        from moldau.shell.broker.cluster.life_cycle import LifeCycle, in_time

        if self.operations is not None:
            self.operations.status.stopping()
        if self._heartbeats is not None:
            await in_time(self._heartbeats.shut_down())  # served until others lead its partitions
            if self._quorum is not None:
                await self._quorum.wait_for_others()
        self._close_network()
        broker, quorum = self._broker, self._quorum
        if self.housekeeping is not None:
            self.housekeeping.stop()
        if broker is not None:
            broker.stop()
        if broker is not None and quorum is not None and not quorum.is_offline:
            broker.partitions.settle()
            if self._heartbeats is None:
                await in_time(LifeCycle(self.node_id, quorum).shut_down(broker.broker_epoch))
        if broker is not None:
            await broker.wait_ended()
        if quorum is not None:
            await quorum.settle()
        if self.failure is not None:
            self.abort()  # a clean-stop mark would declare whole the logs that were released unflushed
            return
        if self._controller_listener is not None:
            self._controller_listener.close()
        if broker is not None:
            await broker.partitions.close_logs(broker.broker_epoch)
        if quorum is not None:
            self._close_quorum(quorum)
        if self.operations is not None:
            self.operations.close()
        if self._audit is not None:
            await self._audit.finish()
        self._unlock()
        self.stopped.set()
        self.log.write_left_out(is_ending=True)
        self.log.info("node stopped", f"node {self.node_id} stopped")

    def _close_quorum(self, quorum: QuorumRole) -> None:
        """Without disk space the next start reads the metadata log again; the rest of the stop continues."""
        try:
            quorum.close()
        except MoldauError as error:
            self.log.error("clean stop", f"the metadata log is not closed cleanly, the next start checks it: {error}")

    def abort(self) -> None:
        """Ends everything like a crash: flushes and writes nothing more. May be called at any time."""
        self._close_channels()
        for group in (self._group, self._controller_listener):
            if group is not None:
                group.abort()
        for listener in self._listeners:
            listener.close()
        if self._dispatcher is not None:
            self._dispatcher.close()
        if self.housekeeping is not None:
            self.housekeeping.stop()
        if self._broker is not None:
            self._broker.stop()
        if self._logs is not None:
            for directory in self._logs:
                directory.release()
        if self._quorum is not None:
            self._quorum.abort()
        if self.operations is not None:
            self.operations.close()
        self._unlock()
        self.stopped.set()

    def close_sockets_in_child(self) -> None:
        """After a fork, in the child: closes its duplicates of the sockets without touching the loop."""
        for listener in self._listeners:
            if isinstance(listener, TcpListener):
                listener.close_in_child()

    def _close_network(self) -> None:
        self._close_channels()
        for listener in self._listeners:
            listener.close()
        if self._dispatcher is not None:
            self._dispatcher.close()
        if self._group is not None:
            self._group.close()

    def _close_channels(self) -> None:
        for channel in self._channels:
            channel.close()
        if self._tasks is not None:
            self._tasks.cancel()

    def _unlock(self) -> None:
        if self._directories is not None:
            self._directories.unlock()

    def _invariant_broken(self, error: InvariantError) -> None:
        """A bug of ours: the node stops rather than continue from an impossible state."""
        if self.failure is None:
            self.failure = error
            self.log.unforeseen("broken invariant", f"node {self.node_id} stops", error)
            self.abort()

    def _directory_failed(self) -> None:
        """Without the metadata log, or without any log directory, the node halts as Apache Kafka does, with its words,
        so others soon lead its partitions. Answers of this turn of the loop are still sent."""
        if self._logs is None or self.failure is not None:
            return
        reason = self._logs.fatal_failure
        if reason is not None:
            self.failure = StorageFailedError(reason)
            causes = "; ".join(self._logs.failures)
            self.log.error("log directories failed", f"node {self.node_id} halts: {reason}: {causes}")
            asyncio.get_running_loop().call_soon(self.abort)


async def _take_part(quorum: QuorumRole, broker: Broker) -> None:
    """Returns when the broker has applied all of the metadata."""
    quorum.subscribe(broker.metadata_changed)
    await broker.partitions.wait_settled()
