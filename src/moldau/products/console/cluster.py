"""Requests of the web console to the cluster, as any Kafka client can send them.

They block and run on worker threads. If a broker does not return the size of its logs, the console shows a dash.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.configs import BROKER, SOURCES, TOPIC, describe_configs
from moldau.client.admin.groups import DEAD, GroupDescription, GroupMember, describe_group, list_groups, read_committed
from moldau.client.admin.offsets import known
from moldau.client.admin.partitions import describe_log_dirs
from moldau.client.admin.topics import list_topics
from moldau.client.admin.transactions import TransactionDescription, describe_open_transactions
from moldau.client.blocking.silence import ListeningDialer, SilentBrokerError
from moldau.client.protocol.access import ClusterAccess
from moldau.client.protocol.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from moldau.errors import KafkaError, MoldauError, ProtocolError
from moldau.ports import Dialer
from moldau.products.features import features_not_served
from moldau.products.pipelines.core.commit_metadata import CommitMetadata, read_commit_metadata
from moldau.transport.access import open_admin
from moldau.transport.tcp import TCP
from moldau.types import TopicPartition
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest

T = TypeVar("T")
TIMEOUT_S = 5.0
"""The time limit of one response."""
CONNECT_TIMEOUT_MS = 2_000
"""How long a broker may take to accept a connection, and to return its API versions."""
UNREACHED = ("NETWORK_EXCEPTION", "REQUEST_TIMED_OUT")
CLIENT_ID = "moldau-page"
MAX_PARTITIONS = 2_000
"""How many partitions one page asks for their offsets."""

MAX_TRANSACTIONS = 500
"""How many open transactions one request describes."""
MAX_IDLE_ADMINS = 4
"""How many idle clients, with their connections, are kept for the next requests."""


class ClusterError(MoldauError):
    """The cluster did not answer; the message is written for users."""


class SilentError(ClusterError):
    """The one broker with the answer does not respond; others do."""


NO_METADATA = CommitMetadata()


class PartitionFacts(msgspec.Struct, frozen=True):
    """Offsets and `size_bytes` are None if the cluster did not return them."""

    index: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    start: int | None = None
    end: int | None = None
    size_bytes: int | None = None

    @property
    def records(self) -> int | None:
        """The number of records by offsets; a compacted topic has fewer."""
        return None if self.start is None or self.end is None else max(0, self.end - self.start)


class TopicFacts(msgspec.Struct, frozen=True):
    name: str
    partitions: tuple[PartitionFacts, ...]

    @property
    def is_internal(self) -> bool:
        return self.name.startswith("__")

    @property
    def records(self) -> int | None:
        return total(partition.records for partition in self.partitions)

    @property
    def size_bytes(self) -> int | None:
        return total(partition.size_bytes for partition in self.partitions)

    @property
    def end_sum(self) -> int | None:
        """The number of records ever written, by offsets; rates are computed from it."""
        return total(partition.end for partition in self.partitions)

    @property
    def is_healthy(self) -> bool:
        return all(each.leader >= 0 and len(each.in_sync) == len(each.replicas) for each in self.partitions)


class BrokerFacts(msgspec.Struct, frozen=True):
    broker_id: int
    address: str


class Overview(msgspec.Struct, frozen=True):
    cluster_id: str
    brokers: tuple[BrokerFacts, ...]
    topics: tuple[TopicFacts, ...]
    """By name, without offsets and sizes."""


class ConfigFacts(msgspec.Struct, frozen=True):
    """`source` in Kafka's words; `value` None if it is secret or unset."""

    name: str
    value: str | None
    source: str
    is_override: bool
    is_read_only: bool


class TransactionFacts(msgspec.Struct, frozen=True):
    """An open transaction. `age_s`, `timeout_s` in seconds."""

    transactional_id: str
    state: str
    age_s: int
    timeout_s: int
    topics: tuple[str, ...]
    partitions: int


class OpenTransactions(msgspec.Struct, frozen=True):
    """`count`: of all transactions; `rows`: at most MAX_TRANSACTIONS, the oldest first."""

    count: int = 0
    rows: tuple[TransactionFacts, ...] = ()

    @property
    def oldest_s(self) -> int | None:
        """The age of the oldest transaction in the rows."""
        return self.rows[0].age_s if self.rows else None


class LagRow(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    committed: int | None
    start: int | None
    end: int | None
    client_id: str | None

    @property
    def lag(self) -> int | None:
        """The lag as Kafka's own tools count it, including records that were deleted meanwhile."""
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)

    @property
    def deleted(self) -> int:
        """How many records of the lag are deleted: the log begins after the committed offset."""
        return 0 if self.committed is None or self.start is None else max(0, self.start - self.committed)


class GroupFacts(msgspec.Struct, frozen=True):
    group_id: str
    state: str
    protocol: str
    members: tuple[GroupMember, ...] = ()
    rows: tuple[LagRow, ...] = ()
    commit_metadata: CommitMetadata = NO_METADATA
    """The commit metadata of a pipeline."""

    @property
    def lag(self) -> int | None:
        """The lag of the partitions with a known end."""
        return total(row.lag for row in self.rows)

    @property
    def is_lag_known(self) -> bool:
        """Whether the end of every partition with a committed offset is known."""
        return all(row.end is not None for row in self.rows if row.committed is not None)

    @property
    def deleted(self) -> int:
        return sum(row.deleted for row in self.rows)


def total(values: Iterable[int | None]) -> int | None:
    """The sum of the known values; None if all are None."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


class Cluster:
    """One per console. Thread-safe: each question uses its own client."""

    def __init__(self, access: ClusterAccess, dialer: Dialer = TCP) -> None:
        self.access = access
        self._idle: list[ClusterAdmin] = []
        self._dialer = ListeningDialer(dialer)

    def silent(self) -> tuple[str, ...]:
        """`host:port` of the brokers that recently did not respond; facts that only they know are missing."""
        return tuple(self._dialer.silent())

    def close(self) -> None:
        while self._idle:
            self._idle.pop().client.close()

    # -- topics

    def overview(self) -> Overview:
        cluster, topics = self.ask(lambda admin: (admin.cluster(), list_topics(admin)))
        brokers = tuple(BrokerFacts(broker.node_id, f"{broker.host}:{broker.port}") for broker in cluster.brokers)
        facts = tuple(
            TopicFacts(
                topic.name,
                tuple(PartitionFacts(each.index, each.leader_id, each.replicas, each.isr) for each in topic.partitions),
            )
            for topic in topics.values()
        )
        return Overview(cluster.cluster_id, brokers, facts)

    def with_offsets(self, topics: Sequence[TopicFacts]) -> list[TopicFacts]:
        """`topics` with their offsets and sizes, for at most MAX_PARTITIONS."""
        chosen: list[TopicPartition] = []
        for topic in topics:
            if len(chosen) + len(topic.partitions) > MAX_PARTITIONS:
                break
            chosen += [TopicPartition(topic.name, each.index) for each in topic.partitions if each.leader >= 0]
        starts, ends = self._ends(chosen)
        sizes = self._sizes(chosen) if chosen else {}

        def with_its_own(topic: str, facts: PartitionFacts) -> PartitionFacts:
            key = TopicPartition(topic, facts.index)
            return msgspec.structs.replace(facts, start=starts.get(key), end=ends.get(key), size_bytes=sizes.get(key))

        return [
            TopicFacts(topic.name, tuple(with_its_own(topic.name, each) for each in topic.partitions))
            for topic in topics
        ]

    def _ends(self, partitions: Iterable[TopicPartition]) -> list[dict[TopicPartition, int]]:
        """The start and the end offsets of the partitions."""
        return self.ask(lambda admin: known(admin, partitions, EARLIEST_TIMESTAMP, LATEST_TIMESTAMP))

    def _sizes(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Bytes of the leaders' logs; empty if the cluster does not return them."""
        found: dict[TopicPartition, int] = {}

        def add(admin: ClusterAdmin, broker_id: int) -> None:
            for directory in describe_log_dirs(admin, broker_id, partitions):
                for each in directory.replicas:
                    if not each.is_future:
                        found[each.partition] = max(found.get(each.partition, 0), each.size_bytes)

        with suppress(ClusterError):
            self._ask_each_broker(add)
        return found

    def features_not_served(self) -> list[str]:
        """APIs that the cluster does not serve; empty if it does not return them."""
        request = ApiVersionsRequest("moldau", "1")
        try:
            answer = self.ask(lambda admin: admin.ask(request))
        except ClusterError:
            return []
        return features_not_served(answer)

    # -- settings

    def topic_configs(self, topic: str) -> list[ConfigFacts]:
        return self._configs(TOPIC, topic, overriding=(1,))

    def broker_configs(self, broker_id: int) -> list[ConfigFacts]:
        return self._configs(BROKER, str(broker_id), overriding=(2, 3, 4))

    def _configs(self, resource_type: int, name: str, *, overriding: tuple[int, ...]) -> list[ConfigFacts]:
        """The settings, sorted, overrides first; `overriding`: the sources that count as overrides. Raises
        ClusterError, also for a broker that does not serve them."""
        settings = self.ask(lambda admin: describe_configs(admin, resource_type, [name], synonyms=False))[name]
        facts = [
            ConfigFacts(
                each.name,
                None if each.is_sensitive else each.value,
                SOURCES.get(each.config_source, str(each.config_source)).lower().replace("_", " "),
                each.config_source in overriding,
                each.read_only,
            )
            for each in settings
        ]
        return sorted(facts, key=lambda each: (not each.is_override, each.name))

    # -- groups

    def groups(self) -> list[GroupFacts]:
        """All groups by name, without members and lag."""
        of_brokers = self._ask_each_broker(lambda admin, broker_id: list_groups(admin, broker_ids=(broker_id,)))
        listed = sorted((each for listed in of_brokers for each in listed), key=lambda each: each.group_id)
        return [GroupFacts(each.group_id, _words(each.group_state), _words(each.group_type)) for each in listed]

    def group(self, group_id: str) -> GroupFacts:
        """One group with members and lag. A missing group is `Dead` and empty."""
        described = self.ask(lambda admin: _described(admin, group_id))
        committed = self.ask(lambda admin: read_committed(admin, group_id))
        owners = {partition: member.client_id for member in described.members for partition in member.assignment}
        keys = sorted({**committed, **owners})[:MAX_PARTITIONS]
        starts, ends = self._ends(keys)
        rows = tuple(
            LagRow(
                key.topic,
                key.partition,
                committed[key].offset if key in committed else None,
                starts.get(key),
                ends.get(key),
                owners.get(key),
            )
            for key in keys
        )
        return GroupFacts(
            group_id,
            _words(described.state),
            described.assignor or "–",
            described.members,
            rows,
            read_commit_metadata(position.metadata for position in committed.values()),
        )

    # -- transactions

    def open_transactions(self) -> OpenTransactions:
        """Transactions that are open or being ended; empty if a broker does not serve the request."""
        of_brokers = self._ask_each_broker(_open_transactions)
        count = sum(each for each, _ in of_brokers)
        described = sorted(
            (each for _, described in of_brokers for each in described), key=lambda each: each.start_time_ms
        )
        now_ms = time.time_ns() // 1_000_000
        rows = tuple(
            TransactionFacts(
                each.transactional_id,
                _words(each.state),
                max(0, now_ms - each.start_time_ms) // 1_000,
                each.timeout_ms // 1_000,
                tuple(sorted({place.topic for place in each.partitions})),
                len(each.partitions),
            )
            for each in described[:MAX_TRANSACTIONS]
        )
        return OpenTransactions(count, rows)

    # -- requests

    def ask(self, question: Callable[[ClusterAdmin], T]) -> T:
        """Runs `question`; turns the client's errors into ClusterError. Retries once with a client that was idle: it
        knows more brokers than a new one."""
        try:
            admin, was_idle = self._idle.pop(), True
            admin.client.close_ended_connections()
        except IndexError:
            admin, was_idle = self._open(), False
        while True:
            try:
                answer = question(admin)
            except (KafkaError, ProtocolError) as error:
                admin.client.close()
                # while it was idle, the broker may have closed its connections
                if not was_idle or not getattr(error, "is_retriable", False):
                    kind = SilentError if isinstance(error, SilentBrokerError) else ClusterError
                    raise kind(self._in_words(error)) from None
                was_idle = False
            except BaseException:
                admin.client.close()
                raise
            else:
                if len(self._idle) < MAX_IDLE_ADMINS:
                    self._idle.append(admin)
                else:
                    admin.client.close()
                return answer

    def _ask_each_broker(self, question: Callable[[ClusterAdmin, int], T]) -> list[T]:
        """The answers of all reachable brokers."""

        def ask(admin: ClusterAdmin) -> list[T]:
            found: list[T] = []
            for broker_id in admin.cluster().broker_ids():
                try:
                    found.append(question(admin, broker_id))
                except KafkaError as error:
                    if error.name not in UNREACHED:
                        raise
            return found

        return self.ask(ask)

    def _open(self) -> ClusterAdmin:
        timeout_ms = int(TIMEOUT_S * 1_000)
        own = msgspec.structs.replace(
            self.access.named(CLIENT_ID),
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
            request_timeout_ms=timeout_ms,
            retry_timeout_ms=timeout_ms,
        )
        return open_admin(own, answer_timeout_ms=timeout_ms, dialer=self._dialer)

    def _in_words(self, error: KafkaError | ProtocolError) -> str:
        if isinstance(error, ProtocolError):
            return f"{self.access} does not answer as a Kafka broker: {error}"
        # a network error already contains the address
        is_named = error.name in UNREACHED
        return str(error) if is_named else f"{self.access}: {error}"


def _described(admin: ClusterAdmin, group_id: str) -> GroupDescription:
    try:
        return describe_group(admin, group_id)
    except KafkaError as error:
        if error.name != "GROUP_ID_NOT_FOUND":
            raise
        return GroupDescription(group_id, DEAD, "", "", -1, ())


def _open_transactions(admin: ClusterAdmin, broker_id: int) -> tuple[int, list[TransactionDescription]]:
    try:
        return describe_open_transactions(admin, MAX_TRANSACTIONS, (broker_id,))
    except KafkaError as error:
        if error.name != "UNSUPPORTED_VERSION":
            raise
        return 0, []


def _words(state: str) -> str:
    """`PreparingRebalance` as `Preparing rebalance`."""
    return _INNER_CAPITAL.sub(r" \1", state).capitalize() or "Unknown"


_INNER_CAPITAL = re.compile(r"(?<=[a-z])([A-Z])")
