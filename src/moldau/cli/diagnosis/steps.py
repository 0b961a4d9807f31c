"""The steps of `doctor` from a client to a cluster: name, port, protocol, advertised addresses.

A client connects twice: to the bootstrap address, then to the addresses that the brokers advertise. Most clusters that
"do not work" answer at the bootstrap address and advertise addresses that the client cannot reach.
"""

from __future__ import annotations

import ipaddress
import shlex
import socket
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from moldau.cli.diagnosis.refusals import Refusal, denied, is_denial, missing_right, principal_of_client, refusal_at
from moldau.client.blocking.connection import ClientConnection
from moldau.client.protocol.access import ClusterAccess, join_addresses
from moldau.client.protocol.sasl import LOGIN_REFUSED
from moldau.client.protocol.security import AnyLogin, ClientLogin
from moldau.core.clocks import CLOCK_SKEW_MS, clock_skew_ms
from moldau.core.config.listeners import Endpoint, parse_endpoints
from moldau.errors import ERROR_NAMES, KafkaError, MoldauError
from moldau.products.features import features_not_served
from moldau.transport.access import open_connection
from moldau.transport.librdkafka import librdkafka_settings
from moldau.types import counted
from moldau.wire.protocol.acl_words import operation_word
from moldau.wire.protocol.acls import OPERATIONS_OF, AclOperation, AclResourceType
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseBroker

if TYPE_CHECKING:
    from confluent_kafka import KafkaError as ConfluentError
    from confluent_kafka import Producer

Level = Literal["ok", "warning", "failed"]
BROKER_RESOURCE = 4
REPLICAS = 3
TOPIC_PREFIX = "moldau-doctor-"
ROUND_TRIP_OPERATIONS = ("create", "write", "read", "delete")
_LISTENER_SETTINGS = ("listeners", "advertised.listeners", "controller.listener.names")


class Finding(msgspec.Struct, frozen=True):
    """One line of the report; `advice` is a sentence with the remedy."""

    step: str
    level: Level
    text: str
    advice: str = ""


class Diagnosis:
    """Asks one cluster, and collects what it finds."""

    def __init__(
        self, access: ClusterAccess, host: str, port: int, *, timeout_ms: int, tell: Callable[[Finding], None]
    ) -> None:
        """`host`, `port`: one of the access's bootstrap servers."""
        own = msgspec.structs.replace(access, bootstrap_servers=join_addresses([(host, port)]))
        self._librdkafka = {**librdkafka_settings(own), "log_level": 0}
        self._access = msgspec.structs.replace(own, connect_timeout_ms=timeout_ms, request_timeout_ms=timeout_ms)
        self._host = host
        self._port = port
        self._timeout_ms = timeout_ms
        self._tell = tell
        self._cluster_id: str | None = None
        self._own_id = -1
        self._listeners: tuple[Endpoint, ...] = ()
        """The advertised endpoints, or else the listeners, of the broker that answered; () if it does not report
        them."""
        self.findings: list[Finding] = []

    @property
    def has_failed(self) -> bool:
        return any(finding.level == "failed" for finding in self.findings)

    def _find(self, step: str, level: Level, text: str, advice: str = "") -> None:
        finding = Finding(step, level, text, advice)
        self.findings.append(finding)
        self._tell(finding)

    def run(self, *, round_trip: bool, topics: Sequence[str] = ()) -> None:
        """Runs all steps that the earlier ones allow. `topics`: checks the client's rights on them."""
        where = f"{self._host}:{self._port}"
        if not self._resolves(self._host, self._port, "name", where) or not self._connects():
            return
        connection = self._speaks_kafka(where)
        if connection is None:
            return
        with connection:
            if not self._tells_versions(connection):
                return
            brokers = self._tells_metadata(connection)
            own = _own_listeners(connection, brokers)
            for topic in topics if brokers else ():
                self._may(connection, topic)
        self._own_id, self._listeners = own
        reachable = [self._reaches(broker) for broker in brokers]
        if round_trip and brokers and all(reachable):
            self._round_trip([broker.node_id for broker in brokers])
        elif not round_trip and not self.has_failed:
            self._find("clock", "ok", "not compared, and nothing was written: --round-trip does both")

    # -- name and port

    def _resolves(
        self, host: str, port: int, step: str, whose: str, broker: MetadataResponseBroker | None = None
    ) -> bool:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            advice = (
                f"Use a name that this machine knows, or add {host} to its DNS or /etc/hosts."
                if broker is None
                else self._advertise_advice(broker)
            )
            self._find(step, "failed", f"{whose}: the name {host} is not known here ({reason})", advice)
            return False
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        if step == "name":
            self._find(step, "ok", f"{host} is {', '.join(addresses)}")
        return True

    def _connects(self) -> bool:
        problem = connect_problem(self._host, self._port, self._timeout_ms)
        if problem is None:
            self._find("port", "ok", f"{self._host}:{self._port} accepts connections")
            return True
        advice = (
            f"Start the broker, or look at its listeners: something must listen on port {self._port} of an address that"
            " this machine reaches. In a container listen on 0.0.0.0 and publish the port."
            if "refused" in problem
            else "A firewall, or a network that this machine is not in, swallows the packets: open the port."
        )
        self._find("port", "failed", f"{self._host}:{self._port}: {problem}", advice)
        return False

    # -- protocol

    def _speaks_kafka(self, where: str) -> ClientConnection | None:
        started = time.monotonic()
        try:
            connection = open_connection(self._access, self._host, self._port)
        except MoldauError as error:
            refusal = refusal_at(self._access, self._host, self._port, error)
            if refusal is not None:
                step = "tls" if self._access.security.has_tls else "protocol"
                if isinstance(error, KafkaError) and error.name in LOGIN_REFUSED:
                    step = "login"
                self._find(step, "failed", refusal.text, refusal.advice)
            else:
                advice = "Something else than a Kafka broker listens there."
                self._find("protocol", "failed", f"{where} does not answer ApiVersions: {error}", advice)
            return None
        self._find("protocol", "ok", f"answers ApiVersions in {(time.monotonic() - started) * 1000:.0f} ms")
        login = self._access.security.login
        if login is not None:
            self._find("login", "ok", f"{_who(login)} is logged in by {login.mechanism}")
        return connection

    def _tells_versions(self, connection: ClientConnection) -> bool:
        response = connection.request(ApiVersionsRequest("moldau", "1"))
        ranges = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
        features = {feature.name: feature.max_version_level for feature in response.finalized_features}
        level = f", metadata.version {features['metadata.version']}" if "metadata.version" in features else ""
        self._find("versions", "ok", f"{len(ranges)} APIs{level}; {_ranges(ranges)}")
        not_served = features_not_served(response)
        if not_served:
            self._find("features", "ok", f"not served, and refused at once: {', '.join(not_served)}")
        if int(ApiKey.PRODUCE) not in ranges or int(ApiKey.METADATA) not in ranges:
            self._find(
                "versions",
                "failed",
                "this listener takes no records",
                "It is a controller's: clients need the address of a broker's listener (listeners, without the names of"
                " controller.listener.names).",
            )
            return False
        lacking = [API_VERSIONS[key].name for key in _CLIENT_APIS if not _overlaps(key, ranges)]
        if lacking:
            advice = "Clients that need them refuse this broker: it is older than Kafka 2.1, or newer than this moldau."
            self._find("versions", "warning", f"no common version of {', '.join(lacking)}", advice)
        return True

    # -- advertised addresses

    def _tells_metadata(self, connection: ClientConnection) -> tuple[MetadataResponseBroker, ...]:
        try:
            answer = connection.request(MetadataRequest(topics=()))
        except MoldauError as error:
            refusal = refusal_at(self._access, self._host, self._port, error)
            if refusal is not None:
                self._find("login", "failed", refusal.text, refusal.advice)
            else:
                advice = "The broker is starting or in trouble: see its log."
                self._find("metadata", "failed", f"no answer to Metadata: {error}", advice)
            return ()
        if not answer.brokers:
            self._find("metadata", "failed", "the cluster names no broker", "Wait until it has started; see its log.")
            return ()
        self._cluster_id = answer.cluster_id
        count = counted(len(answer.brokers), "broker")
        self._find("metadata", "ok", f"cluster {answer.cluster_id}, {count}, controller {answer.controller_id}")
        return answer.brokers

    def _may(self, connection: ClientConnection, topic: str) -> None:
        """Reports whether the broker allows this client to read and to write the topic."""
        who = principal_of_client(self._access.security)
        request = MetadataRequest((MetadataRequestTopic(name=topic),), False, False, True)
        answer = next(iter(connection.request(request).topics), None)
        if answer is None or (answer.error_code and not is_denial(answer.error_code)):
            reason = "no answer" if answer is None else ERROR_NAMES.get(answer.error_code, str(answer.error_code))
            self._find("rights", "failed", f"topic {topic}: {reason}", "Look for its name by moldau topics list.")
            return
        bits = 0 if answer.error_code else answer.topic_authorized_operations
        allowed = [each for each in OPERATIONS_OF[AclResourceType.TOPIC] if bits >> int(each) & 1]
        if allowed:
            words = ", ".join(map(operation_word, allowed))
            self._find("rights", "ok", f"this client may do to topic {topic}: {words}")
        for operation in (AclOperation.READ, AclOperation.WRITE):
            if operation not in allowed:
                refusal = missing_right(who, operation, AclResourceType.TOPIC, topic)
                self._find("rights", "failed" if not allowed else "warning", refusal.text, refusal.advice)

    def _reaches(self, broker: MetadataResponseBroker) -> bool:
        host, port = broker.host, broker.port
        whose = f"broker {broker.node_id} advertises {host}:{port}"
        if not self._resolves(host, port, "advertised", whose, broker):
            return False
        problem = connect_problem(host, port, self._timeout_ms)
        advice = self._advertise_advice(broker)
        if problem is not None:
            self._find("advertised", "failed", f"{whose}: {problem}", advice)
            return False
        other = self._other_cluster(host, port)
        if isinstance(other, Refusal):
            self._find("advertised", "failed", f"{whose}: {other.text}", other.advice)
            return False
        if other is not None:
            self._find("advertised", "failed", f"{whose}: {other}", advice)
            return False
        if is_loopback(host) and not is_loopback(self._host):
            text = f"{whose}, which is each client's own machine; clients on other machines will not find it"
            self._find("advertised", "warning", text, advice)
        else:
            self._find("advertised", "ok", f"{whose}, which is reached from here")
        return True

    def _advertise_advice(self, broker: MetadataResponseBroker) -> str:
        """Advises to change the listener that was used, and keeps the advertised addresses of the broker's other
        listeners."""
        if broker.node_id != self._own_id:
            return (
                f"Set advertised.listeners on broker {broker.node_id}: of the listener for these clients, the address "
                "by which they reach it."
            )
        asked = _asked_listener(self._listeners, broker, self._port)
        if asked is None:
            return (
                f"Set advertised.listeners on broker {broker.node_id}: of the listener for these clients, "
                f"{self._host}:{self._port}, the address by which they reach it."
            )
        wanted = ",".join(
            str(Endpoint(each.name, self._host, self._port) if each is asked else each) for each in self._listeners
        )
        several = (
            ""
            if len(self._listeners) > 1
            else (" Clients inside and outside of a container network need a listener each.")
        )
        return (
            f"Set advertised.listeners={wanted} on the broker: the address by which its clients reach it"
            f" (moldau up --set advertised.listeners={wanted}).{several}"
        )

    def _other_cluster(self, host: str, port: int) -> str | Refusal | None:
        """Why the server at an advertised address does not belong to the cluster that advertised it; None if it
        does."""
        try:
            with open_connection(self._access, host, port) as there:
                answer = there.request(MetadataRequest(topics=()))
        except MoldauError as error:
            refusal = refusal_at(self._access, host, port, error)
            return f"no Kafka broker answers there ({error})" if refusal is None else refusal
        if answer.cluster_id != self._cluster_id:
            return f"another cluster answers there ({answer.cluster_id})"
        return None

    # -- round trip

    def _round_trip(self, brokers: list[int]) -> None:
        """Writes a record to each partition of a temporary topic, one partition for each broker; reads one, then
        deletes the topic. The brokers set the times of the records."""
        from confluent_kafka import Consumer, KafkaException, TopicPartition
        from confluent_kafka.admin import AdminClient, NewTopic

        topic = f"{TOPIC_PREFIX}{time.time_ns()}"
        timeout_s = self._timeout_ms / 1000
        settings = self._librdkafka
        admin = AdminClient(settings)
        config = {"message.timestamp.type": "LogAppendTime"}
        try:
            places = _places(brokers)
            new = NewTopic(topic, len(places), replica_assignment=places, config=config)
            admin.create_topics([new])[topic].result(timeout_s + 5)
        except KafkaException as error:
            if not self._is_denied(error.args[0], "create"):
                advice = "Creating topics is refused: see the broker's log and its quorum."
                self._find("round trip", "failed", f"no topic could be created: {error.args[0].str()}", advice)
            return
        try:
            from confluent_kafka import Producer

            producer = Producer({**settings, "linger.ms": 0, "message.timeout.ms": self._timeout_ms})
            if not self._writes(producer, topic, timeout_s):
                return
            self._compare_clocks(producer, topic, brokers)
            # a commit would leave a group of this name in the cluster
            reading = {"group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False}
            consumer = Consumer({**settings, **reading})
            started = time.monotonic()
            try:
                consumer.assign([TopicPartition(topic, 0, 0)])
                message = consumer.poll(timeout_s)
            finally:
                consumer.close()
            if message is not None and message.error() and self._is_denied(message.error(), "read"):
                return
            if message is None or message.error():
                reason = "nothing came" if message is None else message.error().str()
                self._find("round trip", "failed", f"the record cannot be read: {reason}", "See the broker's log.")
            else:
                self._find("round trip", "ok", f"read it in {(time.monotonic() - started) * 1000:.0f} ms")
        finally:
            left = admin.delete_topics([topic])[topic].exception(timeout_s + 5)
            if isinstance(left, KafkaException) and not self._is_denied(left.args[0], "delete"):
                self._find("round trip", "warning", f"{topic} is left: {left.args[0].str()}", f"Delete {topic}.")

    def _is_denied(self, error: ConfluentError, operation: str) -> bool:
        """Reports the missing right to the round trip's topic, if the error means one."""
        if not is_denial(error.code()):
            return False
        refusal = denied(self._access, error.code(), {"topic": operation}, lambda _: f"{TOPIC_PREFIX}...")
        operations = " ".join(f"--operation {each}" for each in ROUND_TRIP_OPERATIONS)
        who = shlex.quote(principal_of_client(self._access.security))
        line = f"moldau acls add {who} {operations} --topic {TOPIC_PREFIX} --prefixed"
        self._find("round trip", "failed", refusal.text, f"An administrator allows the whole round trip: {line}")
        return True

    def _writes(self, producer: Producer, topic: str, timeout_s: float) -> bool:
        written = _write(producer, topic, 0, timeout_s)
        if written.refused is not None and self._is_denied(written.refused, "write"):
            return False
        if written.error is not None:
            self._find("round trip", "failed", f"a record cannot be written: {written.error}", "See the broker's log.")
            return False
        self._find("round trip", "ok", f"wrote a record to {topic} in {written.took_ms:.0f} ms")
        return True

    def _compare_clocks(self, producer: Producer, topic: str, brokers: list[int]) -> None:
        """Compares the clock of each broker by the time that it gave to a record."""
        advice = "Run NTP on all machines: retention, timestamps and searches by time go by these clocks."
        agreeing: list[int] = []
        for partition, broker in enumerate(brokers):
            written = _write(producer, topic, partition, self._timeout_ms / 1000)
            whose = "the broker" if len(brokers) == 1 else f"broker {broker}"
            if written.error is not None:
                text = f"{whose}'s clock is not known: it takes no record ({written.error})"
                self._find("clock", "warning", text, "See the broker's log.")
                continue
            skew_ms = clock_skew_ms(written.broker_ms, written.before_ms, written.took_ms)
            if abs(skew_ms) < CLOCK_SKEW_MS:
                agreeing.append(abs(skew_ms) + 1)
                continue
            side = "ahead of" if skew_ms > 0 else "behind"
            self._find(
                "clock", "warning", f"{whose}'s clock is {abs(skew_ms) / 1000:.1f} s {side} this machine's", advice
            )
        if agreeing:
            whose = "the broker's clock agrees" if len(brokers) == 1 else f"the clocks of {len(agreeing)} brokers agree"
            self._find("clock", "ok", f"{whose} with this machine's (within {max(agreeing)} ms)")


_CLIENT_APIS = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
)
_SHOWN_APIS = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.JOIN_GROUP)


def _overlaps(key: ApiKey, ranges: dict[int, tuple[int, int]]) -> bool:
    ours = API_VERSIONS[key]
    lowest, highest = ranges.get(int(key), (0, -1))
    return max(lowest, ours.min_version) <= min(highest, ours.max_version)


def _who(login: AnyLogin) -> str:
    return login.username if isinstance(login, ClientLogin) else login.who


def _ranges(ranges: dict[int, tuple[int, int]]) -> str:
    shown = [f"{API_VERSIONS[key].name} {ranges[key][0]}-{ranges[key][1]}" for key in _SHOWN_APIS if key in ranges]
    return ", ".join(shown)


def _own_listeners(
    connection: ClientConnection, brokers: tuple[MetadataResponseBroker, ...]
) -> tuple[int, tuple[Endpoint, ...]]:
    """The id and the client endpoints of the broker that answers here. A broker reports only its own settings. (-1, ())
    if it does not report them."""
    for broker in brokers:
        resource = DescribeConfigsResource(BROKER_RESOURCE, str(broker.node_id), _LISTENER_SETTINGS)
        try:
            (result,) = connection.request(DescribeConfigsRequest((resource,))).results
            if result.error_code:
                continue
            values = {row.name: row.value or "" for row in result.configs}
            listeners, advertised = (
                parse_endpoints(name, tuple(filter(None, values.get(name, "").split(","))))
                for name in _LISTENER_SETTINGS[:2]
            )
        except (MoldauError, ValueError):
            continue
        controllers = values.get(_LISTENER_SETTINGS[2], "").upper().split(",")
        told = {each.name: each for each in (*listeners, *advertised) if each.name not in controllers}
        return broker.node_id, tuple(told.values())
    return -1, ()


def _asked_listener(listeners: tuple[Endpoint, ...], broker: MetadataResponseBroker, port: int) -> Endpoint | None:
    """The listener whose address the broker names, else the one with the port that was asked; None if neither is
    known."""
    named = [each for each in listeners if (each.host, each.port) == (broker.host, broker.port)]
    at_port = [each for each in listeners if each.port in (broker.port, port)]
    return next((found[0] for found in (named, at_port, listeners) if len(found) == 1), None)


def _places(brokers: list[int]) -> list[list[int]]:
    """Replicas of one partition for each broker, led by it, with as many replicas as topics usually have."""
    count = min(REPLICAS, len(brokers))
    return [[brokers[(first + next_) % len(brokers)] for next_ in range(count)] for first in range(len(brokers))]


class _Written(msgspec.Struct, frozen=True):
    """`broker_ms`: the time that the broker gave to the record."""

    error: str | None
    refused: ConfluentError | None
    broker_ms: int
    before_ms: float
    took_ms: float


def _write(producer: Producer, topic: str, partition: int, timeout_s: float) -> _Written:
    delivered: list[tuple[ConfluentError | None, int]] = []
    producer.produce(
        topic,
        b"is anybody there?",
        partition=partition,
        on_delivery=lambda error, message: delivered.append((error, message.timestamp()[1])),
    )
    before_ms = time.time() * 1000
    started = time.monotonic()
    producer.flush(timeout_s + 5)
    took_ms = (time.monotonic() - started) * 1000
    if not delivered:
        return _Written("no answer", None, -1, before_ms, took_ms)
    refused, broker_ms = delivered[0]
    return _Written(None if refused is None else refused.str(), refused, broker_ms, before_ms, took_ms)


def connect_problem(host: str, port: int, timeout_ms: int) -> str | None:
    """Why a connection fails, in words; None if one opens."""
    try:
        socket.create_connection((host, port), timeout=timeout_ms / 1000).close()
    except ConnectionRefusedError:
        return "the connection is refused: nothing listens there"
    except TimeoutError:
        return f"no answer within {timeout_ms} ms"
    except OSError as error:
        return error.strerror or str(error)
    return None


def is_loopback(host: str) -> bool:
    """Whether the host is this machine: localhost, 127.x.y.z, ::1."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
