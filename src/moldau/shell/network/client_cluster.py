"""A blocking client of a whole cluster: metadata, leaders, connections by broker, bounded retries.

`ClusterClient` keeps one connection per broker and asks for metadata when it must: a topic not seen yet, or an answer
that says the leader has moved. Not thread-safe: one client per thread.

Retries wait 50 ms, doubling to 1 s. How long they go on depends on what is known: `first_contact_timeout_ms` while no
broker of the cluster has ever answered (an unknown host ends them at once: the name is probably misspelt), 15 s for a
topic that is not there, and `retry_timeout_ms` for everything else, such as a broker that was lost. The logger
`moldau.client` gets one line every 10 s of that.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TypeVar

import msgspec

from moldau.errors import ERROR_CODES, KafkaError, kafka_error
from moldau.shell.network.client_connection import (
    CONNECT_TIMEOUT_MS,
    REQUEST_TIMEOUT_MS,
    ClientConnection,
    UnknownHostError,
)
from moldau.types import ZERO_UUID, TopicPartition, Uuid
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

FIRST_CONTACT_TIMEOUT_MS = 10_000
RETRY_TIMEOUT_MS = 300_000
ABSENT_TOPIC_TIMEOUT_MS = 15_000
"""How long a topic that was just made may be unknown to some broker of a large cluster."""

_LINE_EVERY_MS = 10_000
_MAX_REACHED = 10_000
_FIRST_BACKOFF_MS = 50
_MAX_BACKOFF_MS = 1_000
_AUTO_CREATE_TIMEOUT_MS = 5_000
DEFAULT_PORT = 9092
MAX_PORT = 65_535
_NO_SUCH_TOPIC = (ERROR_CODES["UNKNOWN_TOPIC_OR_PARTITION"], ERROR_CODES["UNKNOWN_TOPIC_ID"])

Result = TypeVar("Result")

logger = logging.getLogger("moldau.client")


class PartitionLeader(msgspec.Struct, frozen=True):
    """Who leads a partition; `leader_id` is -1 while nobody does."""

    leader_id: int
    leader_epoch: int


class TopicMetadata(msgspec.Struct, frozen=True):
    """A topic as a broker describes it; `topic_id` is zero where the broker is too old to have them."""

    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: dict[int, PartitionLeader]


def parse_bootstrap_servers(bootstrap_servers: str | Sequence[str]) -> list[tuple[str, int]]:
    """[(host, port)] of "host:port,host:port" or a list of such; IPv6 addresses stand in brackets.

    Raises ValueError where nothing is named, for a port that is none, and for a URL.
    """
    texts = bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else list(bootstrap_servers)
    servers: list[tuple[str, int]] = []
    for text in (text.strip() for text in texts):
        if not text:
            continue
        host, colon, port = text.rpartition(":")
        if not colon or text.endswith("]"):
            host, port = text, str(DEFAULT_PORT)
        if not port.isdigit() or int(port) > MAX_PORT or "/" in host:
            raise ValueError(f"bootstrap servers: {text!r} is not host:port")
        servers.append((host.strip("[]"), int(port)))
    if not servers:
        raise ValueError("bootstrap servers: none is named")
    return servers


class ClusterClient:
    """Routes requests to the brokers of one cluster. Connects at first use.

    Raises KafkaError: retriable ones only after `retry_timeout_ms` of trying, or after `first_contact_timeout_ms` while
    no broker has answered yet.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        client_id: str = "moldau",
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        first_contact_timeout_ms: int = FIRST_CONTACT_TIMEOUT_MS,
        retry_timeout_ms: int = RETRY_TIMEOUT_MS,
    ) -> None:
        self._bootstrap = parse_bootstrap_servers(bootstrap_servers)
        self._client_id = client_id
        self._connect_timeout_ms = connect_timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self.first_contact_timeout_ms = first_contact_timeout_ms
        self.retry_timeout_ms = retry_timeout_ms
        self._reached: dict[tuple[str, int], bool] = {}
        self._addresses: dict[int, tuple[str, int]] = {}
        self._connections: dict[int, ClientConnection] = {}
        self._any: ClientConnection | None = None
        self._topics: dict[str, TopicMetadata] = {}

    # --- connections ---

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        if self._any is not None:
            self._any.close()
            self._any = None

    def __enter__(self) -> ClusterClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def open_connection(self, host: str, port: int) -> ClientConnection:
        """A connection of the caller's own, with this client's settings."""
        timeout_ms = self._connect_timeout_ms
        if not self.has_contact:
            # all bootstrap servers together may take no longer than the first contact
            timeout_ms = max(1, min(timeout_ms, self.first_contact_timeout_ms // len(self._bootstrap)))
        try:
            connection = ClientConnection(
                host,
                port,
                client_id=self._client_id,
                connect_timeout_ms=timeout_ms,
                request_timeout_ms=self._request_timeout_ms,
            )
        except UnknownHostError as error:
            if (host, port) not in self._reached:
                raise
            raise kafka_error("NETWORK_EXCEPTION", str(error)) from error
        if len(self._reached) < _MAX_REACHED:
            self._reached[host, port] = True
        return connection

    @property
    def has_contact(self) -> bool:
        """Some broker of the cluster has answered."""
        return bool(self._reached)

    def any_connection(self) -> ClientConnection:
        """An idle connection to some broker of the cluster, for requests that any of them answers."""
        if self._any is not None and self._any.is_open and not self._any.in_flight:
            return self._any
        last_error: KafkaError | None = None
        for host, port in [*self._bootstrap, *self._addresses.values()]:
            try:
                self._any = self.open_connection(host, port)
                return self._any
            except KafkaError as error:
                if last_error is None or not isinstance(error, UnknownHostError):
                    last_error = error
        raise last_error or kafka_error("NETWORK_EXCEPTION", "no broker is known")

    def connection_to(self, broker_id: int) -> ClientConnection:
        """The connection to this broker, shared by all who ask here. Raises LEADER_NOT_AVAILABLE for -1."""
        connection = self._connections.get(broker_id)
        if connection is not None and connection.is_open:
            return connection
        address = self._addresses.get(broker_id)
        if address is None:
            raise kafka_error("LEADER_NOT_AVAILABLE", f"broker {broker_id} is not known")
        connection = self.open_connection(*address)
        self._connections[broker_id] = connection
        return connection

    def remember_address(self, broker_id: int, host: str, port: int) -> None:
        """Notes where a broker listens; a changed address drops the connection to the old one."""
        if self._addresses.get(broker_id) not in (None, (host, port)):
            stale = self._connections.pop(broker_id, None)
            if stale is not None:
                stale.close()
        self._addresses[broker_id] = (host, port)

    def broker_ids(self) -> list[int]:
        """The brokers that the last answer named."""
        return sorted(self._addresses)

    # --- metadata ---

    def refresh(self, topics: Iterable[str] | None, *, allow_auto_create: bool = False) -> dict[str, TopicMetadata]:
        """Asks for these topics (None: all) and remembers the answer.

        Topics that do not exist are left out (with `allow_auto_create` a cluster that makes topics by itself makes
        them, and the next call finds them); other errors of a topic are raised.
        """
        names = None if topics is None else tuple(MetadataRequestTopic(name=name) for name in topics)
        request = MetadataRequest(topics=names, allow_auto_topic_creation=allow_auto_create)
        response = self.any_connection().request(ApiKey.METADATA, request, MetadataResponse)
        if response.error_code:
            raise kafka_error(response.error_code)
        for broker in response.brokers:
            self.remember_address(broker.node_id, broker.host, broker.port)
        found: dict[str, TopicMetadata] = {}
        for topic in response.topics:
            name = topic.name or ""
            if topic.error_code in _NO_SUCH_TOPIC:
                self._topics.pop(name, None)
                continue
            if topic.error_code and not topic.partitions:
                raise kafka_error(topic.error_code, f"topic {name!r}")
            partitions = {
                row.partition_index: PartitionLeader(row.leader_id, row.leader_epoch)
                for row in sorted(topic.partitions, key=lambda row: row.partition_index)
            }
            found[name] = TopicMetadata(name, topic.topic_id or ZERO_UUID, topic.is_internal, partitions)
        self._topics.update(found)
        return found

    def topic(self, name: str) -> TopicMetadata:
        """What is known of the topic, asked for once. Raises UNKNOWN_TOPIC_OR_PARTITION where there is none."""
        known = self._topics.get(name)
        if known is not None:
            return known
        found = self.retry(lambda: self.refresh([name]))
        if name not in found:
            raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION", f"there is no topic {name!r}")
        return found[name]

    def topic_to_write(self, name: str) -> TopicMetadata:
        """As `topic`, but a cluster that makes topics by itself (`auto.create.topics.enable`) gets 5 s to do so."""
        known = self._topics.get(name)
        if known is not None:
            return known
        backoff = Backoff(self, timeout_ms=min(self.retry_timeout_ms, _AUTO_CREATE_TIMEOUT_MS))
        while True:
            found = self.retry(lambda: self.refresh([name], allow_auto_create=True))
            if name in found:
                return found[name]
            backoff.wait(kafka_error("UNKNOWN_TOPIC_OR_PARTITION", f"there is no topic {name!r}"))

    def forget(self, topic: str) -> None:
        """Makes the next `topic` or `leader_of` ask again: an answer said that what is known is old."""
        self._topics.pop(topic, None)

    def list_topics(self, *, include_internal: bool = False) -> dict[str, TopicMetadata]:
        """Every topic of the cluster by name, sorted."""
        found = self.retry(lambda: self.refresh(None))
        return {name: found[name] for name in sorted(found) if include_internal or not found[name].is_internal}

    def leader_of(self, topic_partition: TopicPartition) -> PartitionLeader:
        """Raises UNKNOWN_TOPIC_OR_PARTITION, or LEADER_NOT_AVAILABLE while there is none (both retriable)."""
        metadata = self.topic(topic_partition.topic)
        leader = metadata.partitions.get(topic_partition.partition)
        if leader is None:
            self.forget(topic_partition.topic)
            raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION", f"there is no partition {topic_partition}")
        if leader.leader_id < 0:
            self.forget(topic_partition.topic)
            raise kafka_error("LEADER_NOT_AVAILABLE", f"{topic_partition} has no leader")
        return leader

    def group_by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """The partitions by the broker that leads them, in the order given. Raises as `leader_of`."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic_partition in partitions:
            by_leader.setdefault(self.leader_of(topic_partition).leader_id, []).append(topic_partition)
        return by_leader

    # --- retries ---

    def retry(self, action: Callable[[], Result]) -> Result:
        """Runs `action` until it raises no retriable KafkaError, for as long as a Backoff allows."""
        backoff = Backoff(self)
        while True:
            try:
                return action()
            except KafkaError as error:
                if not error.is_retriable:
                    raise
                backoff.wait(error)


class Backoff:
    """The pauses between the tries of one client: 50 ms, doubling to 1 s, until the time for this error is up.

    `timeout_ms`: in place of the client's `retry_timeout_ms`.
    """

    def __init__(
        self,
        client: ClusterClient,
        *,
        timeout_ms: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._timeout_ms = client.retry_timeout_ms if timeout_ms is None else timeout_ms
        self._clock = clock
        self._pause = pause
        self.reset()

    def reset(self) -> None:
        """After progress: the full time again, and short pauses."""
        self._began = self._clock()
        self._pause_ms = _FIRST_BACKOFF_MS
        self._line_due_ms = _LINE_EVERY_MS

    def wait(self, error: KafkaError) -> None:
        """Pauses, or raises the error with the time that was spent once no time is left."""
        elapsed_ms = int((self._clock() - self._began) * 1_000)
        timeout_ms = self._allowed_ms(error)
        if elapsed_ms + self._pause_ms > timeout_ms:
            if elapsed_ms < 1_000:
                raise error
            raise type(error)(f"{error} (tried for {elapsed_ms / 1_000:.0f} s)") from error
        if elapsed_ms >= self._line_due_ms:
            self._line_due_ms = elapsed_ms - elapsed_ms % _LINE_EVERY_MS + _LINE_EVERY_MS
            left_s = (timeout_ms - elapsed_ms) / 1_000
            logger.warning("for %d s: %s; trying for another %.0f s", elapsed_ms // 1_000, error, left_s)
        self._pause(self._pause_ms / 1_000)
        self._pause_ms = min(2 * self._pause_ms, _MAX_BACKOFF_MS)

    def _allowed_ms(self, error: KafkaError) -> int:
        if not self._client.has_contact:
            return 0 if isinstance(error, UnknownHostError) else self._client.first_contact_timeout_ms
        if isinstance(error, UnknownHostError):
            # a broker that tells others an address which means nothing here: waiting longer does not help
            return min(self._timeout_ms, self._client.first_contact_timeout_ms)
        if error.code in _NO_SUCH_TOPIC:
            return min(self._timeout_ms, ABSENT_TOPIC_TIMEOUT_MS)
        return self._timeout_ms
