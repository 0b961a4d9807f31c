"""A blocking client of a whole cluster: metadata, leaders, connections by broker, bounded retries.

`ClusterClient` keeps one connection per broker, and one more to lend. It fetches metadata for an unknown topic, and
when a leader has moved. It is not thread-safe: use one client per thread. `client.protocol.retries` decides how long it
retries. While it retries, it logs one line every 10 s to `moldau.client`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from moldau.client.blocking.connection import ClientConnection
from moldau.client.protocol.access import ClusterAccess
from moldau.client.protocol.metadata import ClusterMetadata, PartitionLeader, TopicMetadata
from moldau.client.protocol.retries import RetrySchedule, UnknownHostError
from moldau.client.protocol.sasl import LOGIN_REFUSED, Login
from moldau.errors import KafkaError, kafka_error
from moldau.ports import Dialer
from moldau.types import TopicPartition

_AUTO_CREATE_TIMEOUT_MS = 5_000
METADATA_MAX_AGE_MS = 300_000
"""After this time a writer looks for added partitions. The default of `metadata.max.age.ms` in Kafka's clients."""

Result = TypeVar("Result")

logger = logging.getLogger("moldau.client")


class ClusterClient:
    """Routes requests to the brokers of one cluster. Connects on first use.

    Raises KafkaError. Retriable errors are raised only after the `retry_timeout_ms` of the access, or after its
    `first_contact_timeout_ms` while no broker has answered yet. `had_contact`: a broker had answered when this work was
    planned; see ClusterMetadata. `credentials`: the login of each connection; None if brokers need no login.
    """

    def __init__(
        self,
        dialer: Dialer,
        access: ClusterAccess,
        *,
        had_contact: bool = False,
        credentials: Login | None = None,
    ) -> None:
        self._dialer = dialer
        self._credentials = credentials
        self._access = access
        self._metadata = ClusterMetadata(access.addresses(), had_contact=had_contact)
        self._connections: dict[int, ClientConnection] = {}
        self._to_lend: dict[int, ClientConnection] = {}
        self._any: ClientConnection | None = None
        self._looked_ms: dict[str, int] = {}
        """The time of the last metadata request for each topic."""

    # --- connections ---

    def close(self) -> None:
        """Closes every connection. The client connects again if it is used again."""
        for connection in (*self._connections.values(), *self._to_lend.values()):
            connection.close()
        self._connections.clear()
        self._to_lend.clear()
        if self._any is not None:
            self._any.close()
            self._any = None

    def close_ended_connections(self) -> None:
        """Closes idle connections that a broker has closed, so that the next request opens a new one at once."""
        kept = [*self._connections.values(), *self._to_lend.values()]
        for connection in kept if self._any is None else [*kept, self._any]:
            if connection.has_ended():
                connection.close()

    def __enter__(self) -> ClusterClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open_connection(self, host: str, port: int) -> ClientConnection:
        """A new connection for the caller alone, with this client's settings."""
        try:
            connection = ClientConnection(
                self._dialer,
                self._access,
                host,
                port,
                connect_timeout_ms=self._metadata.connect_timeout_ms(
                    self._access.connect_timeout_ms, self._access.first_contact_timeout_ms
                ),
                credentials=self._credentials,
            )
        except KafkaError as error:
            self._metadata.note_failure((host, port))
            if not isinstance(error, UnknownHostError) or not self._metadata.has_reached((host, port)):
                raise
            raise kafka_error("NETWORK_EXCEPTION", str(error)) from error
        self._metadata.note_contact((host, port))
        return connection

    def any_connection(self) -> ClientConnection:
        """An idle connection to any broker of the cluster, for requests that every broker answers."""
        if self._any is not None and self._any.is_open and not self._any.in_flight:
            return self._any
        last_error: KafkaError | None = None
        for host, port in self._metadata.candidates():
            try:
                self._any = self.open_connection(host, port)
                return self._any
            except KafkaError as error:
                if error.name in LOGIN_REFUSED:  # other brokers reject it too, and each failed attempt takes longer
                    raise
                if last_error is None or not isinstance(error, UnknownHostError):
                    last_error = error
        raise last_error or kafka_error("NETWORK_EXCEPTION", "no broker is known")

    def _ask_another(self) -> None:
        """Makes the next `any_connection` use another broker, because this one's metadata may be old."""
        connection = self._any
        if connection is None or not self._metadata.pass_over((connection.host, connection.port)):
            return
        self._any = None
        if not connection.in_flight:  # otherwise a caller still waits for its response
            connection.close()

    def connection_to(self, broker_id: int) -> ClientConnection:
        """The shared connection to this broker. Raises LEADER_NOT_AVAILABLE for -1."""
        connection = self._connections.get(broker_id)
        if connection is not None and connection.is_open:
            return connection
        connection = self._connections[broker_id] = self.open_connection(*self._metadata.address_of(broker_id))
        return connection

    def lend_connection(self, broker_id: int) -> ClientConnection:
        """A connection to this broker for the caller alone, who may pipeline requests and must give it back. Raises
        LEADER_NOT_AVAILABLE for -1."""
        connection = self._to_lend.pop(broker_id, None)
        if connection is not None and connection.is_open:
            return connection
        return self.open_connection(*self._metadata.address_of(broker_id))

    def take_back(self, broker_id: int, connection: ClientConnection) -> None:
        """Keeps one idle connection for each broker. Closes a connection with requests in flight."""
        if connection.in_flight or not connection.is_open or broker_id in self._to_lend:
            connection.close()
        else:
            self._to_lend[broker_id] = connection

    def remember_address(self, broker_id: int, host: str, port: int) -> None:
        """Stores the address of a broker. A changed address drops the connection to the old one."""
        if self._metadata.note_address(broker_id, (host, port)):
            for connections in (self._connections, self._to_lend):
                if broker_id in connections:
                    connections.pop(broker_id).close()

    # --- metadata ---

    def refresh(self, topics: Iterable[str] | None, *, allow_auto_create: bool = False) -> dict[str, TopicMetadata]:
        """Fetches and stores the metadata of these topics (None: all).

        Leaves out topics that do not exist. With `allow_auto_create`, a cluster with automatic creation creates them,
        and the next call finds them. Raises other errors of a topic.
        """
        request = self._metadata.request(topics, allow_auto_create=allow_auto_create)
        response = self.any_connection().request(request)
        if response.error_code:
            raise kafka_error(response.error_code)
        for broker in response.brokers:
            self.remember_address(broker.node_id, broker.host, broker.port)
        found = self._metadata.take_topics(response)
        self._looked_ms.update(dict.fromkeys(found, self._dialer.monotonic_ms()))
        return found

    def topic(self, name: str) -> TopicMetadata:
        """The metadata of the topic, fetched once. Raises UNKNOWN_TOPIC_OR_PARTITION for a missing topic."""
        known = self._metadata.topic(name)
        if known is not None:
            return known
        found = self.retry(lambda: self.refresh([name]))
        if name not in found:
            raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION", f"there is no topic {name!r}")
        return found[name]

    def topic_to_write(self, name: str) -> TopicMetadata:
        """As `topic`, but waits 5 s for a cluster with `auto.create.topics.enable` to create the topic.

        Fetches the metadata again after METADATA_MAX_AGE_MS, because a key may belong to an added partition.
        """
        known = self._metadata.topic(name)
        if known is not None and self._dialer.monotonic_ms() - self._looked_ms[name] < METADATA_MAX_AGE_MS:
            return known
        backoff = self.backoff(at_most_ms=_AUTO_CREATE_TIMEOUT_MS)
        while True:
            found = self.retry(lambda: self.refresh([name], allow_auto_create=True))
            if name in found:
                return found[name]
            backoff.wait(kafka_error("UNKNOWN_TOPIC_OR_PARTITION", f"there is no topic {name!r}"))

    def forget(self, topic: str) -> None:
        """Makes the next `topic` or `leader_of` fetch metadata again, after a response that it is old."""
        self._metadata.forget(topic)

    def list_topics(self, *, include_internal: bool = False) -> dict[str, TopicMetadata]:
        """Every topic of the cluster by name, sorted."""
        found = self.retry(lambda: self.refresh(None))
        return {name: found[name] for name in sorted(found) if include_internal or not found[name].is_internal}

    def leader_of(self, topic_partition: TopicPartition) -> PartitionLeader:
        """The leader of the partition. Raises UNKNOWN_TOPIC_OR_PARTITION, or LEADER_NOT_AVAILABLE while there is none
        (both retriable)."""
        return self._metadata.leader_of(self.topic(topic_partition.topic), topic_partition)

    def group_by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """The partitions by their leader's id, in the given order. Raises as `leader_of`."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic_partition in partitions:
            by_leader.setdefault(self.leader_of(topic_partition).leader_id, []).append(topic_partition)
        return by_leader

    # --- retries ---

    def backoff(self, *, at_most_ms: int | None = None) -> Backoff:
        """The pauses of an action that begins now. `at_most_ms` limits a longer `retry_timeout_ms`."""
        timeout_ms = self._access.retry_timeout_ms
        schedule = RetrySchedule(
            first_contact_timeout_ms=self._access.first_contact_timeout_ms,
            retry_timeout_ms=timeout_ms if at_most_ms is None else min(at_most_ms, timeout_ms),
            now_ms=self._dialer.monotonic_ms(),
        )
        return Backoff(self._dialer, self._metadata, schedule, self._ask_another)

    def retry(self, action: Callable[[], Result], *, at_most_ms: int | None = None) -> Result:
        """Runs `action` until it raises no retriable KafkaError, for as long as a Backoff allows. `at_most_ms`: as in
        `backoff`."""
        backoff = self.backoff(at_most_ms=at_most_ms)
        while True:
            try:
                return action()
            except KafkaError as error:
                if not error.is_retriable:
                    raise
                backoff.wait(error)


class Backoff:
    """The pauses between the tries of one action, from `ClusterClient.backoff`. Calls `ask_another` before each
    pause."""

    def __init__(
        self, dialer: Dialer, metadata: ClusterMetadata, schedule: RetrySchedule, ask_another: Callable[[], None]
    ) -> None:
        self._dialer = dialer
        self._metadata = metadata
        self._schedule = schedule
        self._ask_another = ask_another

    def reset(self) -> None:
        """Restores the full time and short pauses, after progress."""
        self._schedule.reset(self._dialer.monotonic_ms())

    def is_over(self) -> bool:
        """Whether `retry_timeout_ms` has passed without progress. For an action that waits for responses instead of
        retrying errors."""
        return self._schedule.is_over(self._dialer.monotonic_ms())

    def wait(self, error: KafkaError) -> None:
        """Pauses. Once no time is left, raises the error with the elapsed time."""
        pause = self._schedule.after(error, has_contact=self._metadata.has_contact, now_ms=self._dialer.monotonic_ms())
        if pause.notice is not None:
            logger.warning("%s", pause.notice)
        self._ask_another()
        self._dialer.pause(pause.length_ms)
