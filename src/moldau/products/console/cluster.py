"""The cluster as the page sees it: what any Kafka client may ask. Blocking; called from worker threads.

Sizes come from DescribeLogDirs, which confluent-kafka does not have: those are asked over a connection of our own, and
where the broker does not answer, the page shows a dash.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, OffsetSpec, ResourceType

from moldau.errors import KafkaError, MoldauError

T = TypeVar("T")
TIMEOUT_S = 5.0
REACH_TIMEOUT_MS = 1_000
CLIENT_ID = "moldau-page"
MAX_PARTITIONS = 2_000
"""Partitions whose offsets one page asks for."""


class ClusterError(MoldauError):
    """The cluster did not answer; the message is for people."""


class PartitionFacts(msgspec.Struct, frozen=True):
    """Offsets and `size_bytes` are None where the cluster did not tell."""

    index: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    start: int | None = None
    end: int | None = None
    size_bytes: int | None = None

    @property
    def records(self) -> int | None:
        """By offsets; after compaction there are fewer."""
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
        """Records that ever came, by offsets: what rates are made of."""
        return total(partition.end for partition in self.partitions)

    @property
    def is_healthy(self) -> bool:
        return all(each.leader >= 0 and len(each.in_sync) == len(each.replicas) for each in self.partitions)


class BrokerFacts(msgspec.Struct, frozen=True):
    broker_id: int
    address: str
    is_controller: bool


class Overview(msgspec.Struct, frozen=True):
    cluster_id: str
    brokers: tuple[BrokerFacts, ...]
    topics: tuple[TopicFacts, ...]
    """By name, without offsets and sizes."""


class ConfigFacts(msgspec.Struct, frozen=True):
    """`source` in Kafka's words; `value` None where it is kept secret or unset."""

    name: str
    value: str | None
    source: str
    is_override: bool
    is_read_only: bool


class MemberFacts(msgspec.Struct, frozen=True):
    member_id: str
    client_id: str
    host: str
    partitions: tuple[tuple[str, int], ...]


class LagRow(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    committed: int | None
    start: int | None
    end: int | None
    client_id: str | None

    @property
    def lag(self) -> int | None:
        """As Kafka's own tools count: records that were deleted meanwhile are in it."""
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)

    @property
    def deleted(self) -> int:
        """How many records of the lag are gone: the log begins behind the committed offset."""
        return 0 if self.committed is None or self.start is None else max(0, self.start - self.committed)


class GroupFacts(msgspec.Struct, frozen=True):
    group_id: str
    state: str
    protocol: str
    members: tuple[MemberFacts, ...] = ()
    rows: tuple[LagRow, ...] = ()

    @property
    def lag(self) -> int | None:
        return total(row.lag for row in self.rows)

    @property
    def deleted(self) -> int:
        return sum(row.deleted for row in self.rows)


def total(values: Iterable[int | None]) -> int | None:
    """The sum of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


class Cluster:
    """One per page server; thread-safe, as librdkafka's admin client is."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._admin = AdminClient(
            {
                "bootstrap.servers": bootstrap_servers,
                "client.id": CLIENT_ID,
                "log_level": 0,
                "socket.timeout.ms": 5000,
                "reconnect.backoff.max.ms": 1000,
            }
        )
        self._sizes_lock = threading.Lock()
        self._admin.poll(0)

    # -- topics

    def overview(self) -> Overview:
        metadata = self._ask(lambda: self._admin.list_topics(timeout=TIMEOUT_S))
        brokers = tuple(
            BrokerFacts(broker.id, f"{broker.host}:{broker.port}", broker.id == metadata.controller_id)
            for broker in sorted(metadata.brokers.values(), key=lambda broker: int(broker.id))
        )
        topics = tuple(
            TopicFacts(
                name,
                tuple(
                    PartitionFacts(each.id, each.leader, tuple(each.replicas), tuple(each.isrs))
                    for each in sorted(topic.partitions.values(), key=lambda each: int(each.id))
                ),
            )
            for name, topic in sorted(metadata.topics.items())
            if topic.error is None
        )
        return Overview(metadata.cluster_id or "", brokers, topics)

    def with_offsets(self, topics: Sequence[TopicFacts]) -> list[TopicFacts]:
        """`topics` with their offsets and sizes, as far as MAX_PARTITIONS goes."""
        chosen: list[tuple[str, int]] = []
        for topic in topics:
            if len(chosen) + len(topic.partitions) > MAX_PARTITIONS:
                break
            chosen += [(topic.name, each.index) for each in topic.partitions if each.leader >= 0]
        starts = self.offsets(chosen, OffsetSpec.earliest())
        ends = self.offsets(chosen, OffsetSpec.latest())
        sizes = self.sizes(chosen)
        return [
            TopicFacts(
                topic.name,
                tuple(
                    msgspec.structs.replace(
                        each,
                        start=starts.get((topic.name, each.index)),
                        end=ends.get((topic.name, each.index)),
                        size_bytes=sizes.get((topic.name, each.index)),
                    )
                    for each in topic.partitions
                ),
            )
            for topic in topics
        ]

    def offsets(self, partitions: Iterable[tuple[str, int]], spec: Any) -> dict[tuple[str, int], int]:
        asked = {TopicPartition(topic, index): spec for topic, index in partitions}
        if not asked:
            return {}
        futures = self._ask(lambda: self._admin.list_offsets(asked, request_timeout=TIMEOUT_S))
        found: dict[tuple[str, int], int] = {}
        for partition, future in futures.items():
            try:
                found[partition.topic, partition.partition] = future.result(timeout=TIMEOUT_S + 1).offset
            except (KafkaException, TimeoutError):
                continue
        return found

    def sizes(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Bytes of the leaders' logs; empty where the cluster does not tell."""
        from moldau.client.blocking.cluster import ClusterClient
        from moldau.shell.io.tcp import TCP
        from moldau.wire.protocol.api_keys import ApiKey
        from moldau.wire.protocol.messages.log_dirs import (
            DescribableLogDirTopic,
            DescribeLogDirsRequest,
            DescribeLogDirsResponse,
        )

        by_topic: dict[str, list[int]] = {}
        for topic, index in partitions:
            by_topic.setdefault(topic, []).append(index)
        request = DescribeLogDirsRequest(
            topics=tuple(DescribableLogDirTopic(name, tuple(indexes)) for name, indexes in by_topic.items())
        )
        found: dict[tuple[str, int], int] = {}
        if not by_topic:
            return found
        try:
            with self._sizes_lock, ClusterClient(TCP, self.bootstrap_servers, client_id=CLIENT_ID) as client:
                client.refresh([])
                for broker_id in client.broker_ids():
                    response = client.connection_to(broker_id).request(
                        ApiKey.DESCRIBE_LOG_DIRS, request, DescribeLogDirsResponse
                    )
                    for result in response.results:
                        for each in result.topics:
                            for partition in each.partitions:
                                key = (each.name, partition.partition_index)
                                if not partition.is_future_key:
                                    found[key] = max(found.get(key, 0), partition.partition_size)
        except (MoldauError, OSError, KeyError):
            return found
        return found

    def features_not_served(self) -> list[str]:
        """What clients may ask for in vain; empty where the cluster does not tell."""
        from moldau.client.blocking.connection import ClientConnection
        from moldau.products.features import features_not_served
        from moldau.shell.io.tcp import TCP
        from moldau.wire.protocol.api_keys import ApiKey
        from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

        host, _, port = self.bootstrap_servers.split(",")[0].rpartition(":")
        timeout_ms = int(TIMEOUT_S * 1000)
        request = ApiVersionsRequest("moldau", "1")
        try:
            with ClientConnection(
                TCP,
                host.strip("[]"),
                int(port),
                client_id=CLIENT_ID,
                connect_timeout_ms=timeout_ms,
                request_timeout_ms=timeout_ms,
            ) as connection:
                return features_not_served(connection.request(ApiKey.API_VERSIONS, request, ApiVersionsResponse))
        except (MoldauError, OSError, ValueError):
            return []

    # -- settings

    def topic_configs(self, topic: str) -> list[ConfigFacts]:
        return self._configs(ConfigResource(ResourceType.TOPIC, topic))

    def broker_configs(self, broker_id: int) -> list[ConfigFacts]:
        return self._configs(ConfigResource(ResourceType.BROKER, str(broker_id)))

    def _configs(self, resource: ConfigResource) -> list[ConfigFacts]:
        """Sorted, overrides first. Raises ClusterError, also where the broker does not serve them."""
        futures = self._ask(lambda: self._admin.describe_configs([resource], request_timeout=TIMEOUT_S))
        entries = self._ask(lambda: next(iter(futures.values())).result(timeout=TIMEOUT_S + 1))
        overriding = (
            ConfigSource.DYNAMIC_TOPIC_CONFIG.value,
            ConfigSource.DYNAMIC_BROKER_CONFIG.value,
            ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value,
            ConfigSource.STATIC_BROKER_CONFIG.value,
        )
        is_topic = resource.restype == ResourceType.TOPIC
        facts = []
        for entry in entries.values():
            source = entry.source if isinstance(entry.source, int) else entry.source.value
            is_override = source == overriding[0] if is_topic else source in overriding[1:]
            name = ConfigSource(source).name.lower().replace("_", " ") if source in _SOURCES else str(source)
            value = None if entry.is_sensitive else entry.value
            facts.append(ConfigFacts(entry.name, value, name, is_override, bool(entry.is_read_only)))
        return sorted(facts, key=lambda each: (not each.is_override, each.name))

    # -- groups

    def groups(self) -> list[GroupFacts]:
        """All groups by name, without members and lag."""
        listing = self._ask(
            lambda: self._admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(timeout=TIMEOUT_S + 1)
        )
        groups = [GroupFacts(str(each.group_id), _words(each.state), _words(each.type)) for each in listing.valid]
        return sorted(groups, key=lambda group: group.group_id)

    def group(self, group_id: str) -> GroupFacts:
        """One group with members and lag. A group that is not there is `Dead` and empty."""
        description = self._ask(
            lambda: self._admin.describe_consumer_groups([group_id], request_timeout=TIMEOUT_S)[group_id].result(
                timeout=TIMEOUT_S + 1
            )
        )
        committed = self._ask(
            lambda: self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group_id)])[group_id].result(
                timeout=TIMEOUT_S + 1
            )
        )
        offsets = {(each.topic, each.partition): each.offset for each in committed.topic_partitions if each.offset >= 0}
        members, owners = [], {}
        for member in description.members:
            assigned = member.assignment.topic_partitions if member.assignment else []
            partitions = tuple(sorted((each.topic, each.partition) for each in assigned))
            members.append(MemberFacts(member.member_id, member.client_id, member.host, partitions))
            owners.update(dict.fromkeys(partitions, member.client_id))
        keys = sorted({**offsets, **owners})[:MAX_PARTITIONS]
        starts, ends = self.offsets(keys, OffsetSpec.earliest()), self.offsets(keys, OffsetSpec.latest())
        rows = tuple(
            LagRow(key[0], key[1], offsets.get(key), starts.get(key), ends.get(key), owners.get(key)) for key in keys
        )
        protocol = description.partition_assignor or "–"
        return GroupFacts(group_id, _words(description.state), protocol, tuple(members), rows)

    def _ask(self, question: Callable[[], T]) -> T:
        """Turns what confluent-kafka raises into a ClusterError."""
        try:
            return question()
        except (KafkaException, KafkaError) as exception:
            error = exception.args[0]
            text = error.str() if hasattr(error, "str") else str(error)
            raise ClusterError(self._why_unreachable() or f"{self.bootstrap_servers}: {text}") from None
        except TimeoutError:
            late = f"{self.bootstrap_servers} did not answer within {TIMEOUT_S:.0f} s"
            raise ClusterError(self._why_unreachable() or late) from None

    def _why_unreachable(self) -> str | None:
        """A refused connection or an unknown host, in a sentence: librdkafka calls both a transport failure. None where
        a broker can be reached."""
        from moldau.client.blocking.cluster import ClusterClient
        from moldau.shell.io.tcp import TCP

        try:
            with ClusterClient(
                TCP, self.bootstrap_servers, client_id=CLIENT_ID, first_contact_timeout_ms=REACH_TIMEOUT_MS
            ) as client:
                client.any_connection()
        except MoldauError as reason:
            return str(reason)
        return None


_SOURCES = [source.value for source in ConfigSource]


def _words(value: object) -> str:
    """`STABLE` or `PREPARING_REBALANCING` of an enum as `Stable`, `Preparing rebalancing`."""
    return str(getattr(value, "name", value) or "unknown").replace("_", " ").capitalize()
