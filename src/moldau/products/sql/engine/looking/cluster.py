"""What statements ask of the cluster and of the schema registry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from moldau.client.admin import configs, offsets
from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.topics import list_topics
from moldau.client.protocol.access import ClusterAccess
from moldau.client.protocol.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from moldau.errors import MoldauError
from moldau.ports import Dialer
from moldau.products.pipelines.formats.registry import Registry, UnknownSchemaError
from moldau.transport.access import open_admin
from moldau.transport.tcp import TCP
from moldau.types import TopicPartition


class Topic(msgspec.Struct, frozen=True):
    """`replicas`: of partition 0."""

    name: str
    partitions: int
    replicas: int
    is_internal: bool = False


class ClusterView(Protocol):
    """Port to the topics of a cluster and the subjects of a registry. Those that ask may raise MoldauError."""

    def topics(self) -> Mapping[str, Topic]:
        """All topics by name, sorted."""

    def settings(self, topic: str) -> Mapping[str, str]:
        """The settings of a topic, by Kafka's names."""

    def ranges(self, topics: Sequence[Topic]) -> Mapping[str, Sequence[tuple[int, int]]]:
        """The log start offset and the end offset of each partition that has a leader, by topic."""

    def has_schema(self, subject: str | None, schema_id: int | None) -> bool:
        """Whether the registry has the subject, or the id, or the id as the subject's newest schema."""

    def monotonic_ms(self) -> int:
        """Milliseconds of steady time."""

    def pause(self, length_ms: int) -> None:
        """Waits."""


class LiveCluster:
    """The ClusterView of a real cluster. Opens connections for each question."""

    def __init__(self, access: ClusterAccess, registry: Registry | None = None, *, dialer: Dialer = TCP) -> None:
        self._access, self._registry, self._dialer = access, registry, dialer

    def topics(self) -> Mapping[str, Topic]:
        with self._admin() as admin:
            return {
                name: Topic(name, len(one.partitions), one.replication_factor, one.is_internal)
                for name, one in list_topics(admin).items()
            }

    def settings(self, topic: str) -> Mapping[str, str]:
        with self._admin() as admin:
            found = configs.describe_configs(admin, configs.TOPIC, [topic], synonyms=False)
        return {row.name: row.value or "" for row in found.get(topic, ())}

    def ranges(self, topics: Sequence[Topic]) -> Mapping[str, Sequence[tuple[int, int]]]:
        with self._admin() as admin:
            starts, ends = offsets.of_led(admin, _partitions(topics), EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
        found: dict[str, list[tuple[int, int]]] = {one.name: [] for one in topics}
        for partition, end in ends.items():
            found[partition.topic].append((starts[partition], end))
        return found

    def has_schema(self, subject: str | None, schema_id: int | None) -> bool:
        if self._registry is None:
            raise MoldauError("no schema registry is known: name one with --registry")
        try:
            if subject is None:
                self._registry.schema_of_id(schema_id or 0)
                return True
            newest = self._registry.newest(subject)
        except UnknownSchemaError:
            return False
        return schema_id in (None, newest.id)

    def monotonic_ms(self) -> int:
        return self._dialer.monotonic_ms()

    def pause(self, length_ms: int) -> None:
        self._dialer.pause(length_ms)

    def _admin(self) -> ClusterAdmin:
        return open_admin(self._access, dialer=self._dialer)


def _partitions(topics: Iterable[Topic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in range(topic.partitions)]
