"""Commits a pipeline's progress to a consumer group, so Kafka tools show its lag.

The group has no members: offsets are committed to it from outside, as an administrator would. They only show the
progress; the pipeline itself starts from Spark's checkpoint.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

import msgspec

from moldau.client.blocking.offsets import commit_offsets, committed_offsets, find_coordinator, list_offsets
from moldau.client.protocol.access import FIRST_CONTACT_TIMEOUT_MS, ClusterAccess
from moldau.client.protocol.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, READ_UNCOMMITTED, CommittedOffset
from moldau.errors import KafkaError, MoldauError, kafka_error
from moldau.ports import Dialer
from moldau.products.pipelines.core.commit_metadata import names_batch, other_pipelines
from moldau.products.pipelines.sources.topic import TopicSource
from moldau.products.pipelines.spec.spec import PipelineSpec
from moldau.transport.access import open_client
from moldau.transport.tcp import TCP
from moldau.types import TopicPartition, Uuid
from moldau.wire.protocol.messages.groups_classic import DescribedGroupMember, DescribeGroupsRequest

CLIENT_ID = "moldau-pipeline"
OFFSETS_TOPIC = "__consumer_offsets"
CONNECT_TIMEOUT_MS = 3_000
REQUEST_TIMEOUT_MS = 10_000
LOOK_TIMEOUT_MS = 1_000
"""How long one look retries. The caller shows the error, and looks again."""
COMMAND_TIMEOUT_MS = 10_000
"""How long a command retries, because it does not look again: the first group of a cluster waits for the creation of
the offsets topic."""
_UNKNOWN_GROUP_IS_DEAD = 5
"""The last version of DescribeGroups in which an unknown group is not an error."""


class GroupError(MoldauError):
    """The cluster rejected the offsets, could not return its own, or the group belongs to others."""


class GroupOffsets:
    """Commits offsets to one group and reads end offsets. Blocking, not thread-safe. Close it."""

    def __init__(
        self,
        access: ClusterAccess,
        group: str,
        *,
        dialer: Dialer = TCP,
        first_contact_timeout_ms: int = FIRST_CONTACT_TIMEOUT_MS,
        retry_timeout_ms: int = LOOK_TIMEOUT_MS,
    ) -> None:
        self._group = group
        self._access = msgspec.structs.replace(
            access.named(CLIENT_ID),
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            first_contact_timeout_ms=first_contact_timeout_ms,
            retry_timeout_ms=retry_timeout_ms,
        )
        self._client = open_client(self._access, dialer=dialer)

    def commit(self, offsets: Mapping[TopicPartition, int], metadata: str = "") -> None:
        """Raises GroupError."""
        try:
            commit_offsets(self._client, self._group, offsets, metadata)
        except KafkaError as error:
            raise GroupError(f"the offsets of group {self._group} were not taken: {error}") from error

    def begin(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commits the start of a new checkpoint version, and removes the metadata of the old version from other
        partitions. These may be the partition of a target (see `spark.sink.transactions`), or of a topic that is not
        read any more. Raises GroupError."""
        self.commit(offsets)
        self.commit({one: at.offset for one, at in self._positions().items() if names_batch(at.metadata)})

    def check(self, spec: str, pipeline: str) -> None:
        """Raises GroupError if the group cannot show the progress of a query: if it has members, because it then
        rejects offsets from outside; or if another pipeline commits its metadata there, because each would overwrite
        the other's, from which a sink knows its last written batch. `pipeline`: the name of a query of the pipeline
        `spec`. Creates nothing; for that it avoids coordinator look-ups, which create the offsets topic."""
        if not self._has_groups():
            return
        members = self._members()
        if members:
            raise GroupError(
                f"group {self._group!r} has {len(members)} members, the first is {members[0].client_id!r}: only a "
                "group without consumers can show a pipeline's progress; name another one with `group`"
            )
        others = other_pipelines((position.metadata for position in self._positions().values()), spec, pipeline)
        if others:
            raise GroupError(
                f"group {self._group!r} shows how far the pipeline {others[0]} is, and cannot show {pipeline!r} too: "
                f"name another one with `group`, or, if {others[0]} does not run any more, delete this one: "
                f"moldau groups delete {self._group} --bootstrap-server {self._access}"
            )

    def _has_groups(self) -> bool:
        """Whether the cluster has ever had a group; true if it does not say."""
        try:
            return bool(self._client.retry(lambda: self._client.refresh([OFFSETS_TOPIC])))
        except KafkaError as error:
            if error.name == "TOPIC_AUTHORIZATION_FAILED":
                return True
            raise GroupError(f"group {self._group!r} could not be looked at: {error}") from error

    def _members(self) -> tuple[DescribedGroupMember, ...]:
        request = DescribeGroupsRequest(groups=(self._group,))

        def describe() -> tuple[DescribedGroupMember, ...]:
            coordinator = find_coordinator(self._client, self._group)
            (found,) = coordinator.request(request, max_version=_UNKNOWN_GROUP_IS_DEAD).groups
            if found.error_code:
                raise kafka_error(found.error_code, f"group {self._group!r}")
            return found.members

        try:
            return self._client.retry(describe)
        except KafkaError as error:
            raise GroupError(f"the members of group {self._group} could not be listed: {error}") from error

    def _positions(self) -> dict[TopicPartition, CommittedOffset]:
        try:
            return committed_offsets(self._client, self._group)
        except KafkaError as error:
            raise GroupError(f"the offsets of group {self._group} could not be read: {error}") from error

    def matching(self, pattern: str) -> list[str]:
        """The topics of the cluster with a whole name that matches. Raises GroupError."""
        try:
            return sorted(name for name in self._client.list_topics() if re.fullmatch(pattern, name))
        except KafkaError as error:
            raise GroupError(f"the topics {pattern} could not be listed: {error}") from error

    def topics_of(self, source: TopicSource) -> list[str]:
        """The topics that a source on this cluster currently reads. Raises GroupError."""
        return self.matching(source.pattern) if source.pattern is not None else [str(source.topic)]

    def topic_ids(self, topics: Sequence[str]) -> dict[str, Uuid]:
        """The ids of those topics that exist. Raises GroupError."""
        try:
            found = self._client.retry(lambda: self._client.refresh(topics)) if topics else {}
        except KafkaError as error:
            raise GroupError(f"the topics {', '.join(topics)} could not be looked at: {error}") from error
        return {topic: metadata.topic_id for topic, metadata in found.items()}

    def since(self, partitions: Iterable[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        """The first offset at or after a time (ms since 1970); -1 if no record is that late. Raises GroupError."""
        try:
            return list_offsets(self._client, dict.fromkeys(partitions, time_ms), isolation_level=READ_UNCOMMITTED)
        except KafkaError as error:
            raise GroupError(f"the offsets of {time_ms} ms could not be read: {error}") from error

    def bounds(self, topics: Sequence[str]) -> dict[TopicPartition, tuple[int, int]]:
        """The first and end offset of every partition, without those of absent topics. Raises GroupError."""
        try:
            found = self._client.retry(lambda: self._client.refresh(topics)) if topics else {}
            partitions = [TopicPartition(topic, number) for topic in found for number in found[topic].partitions]
            firsts, ends = (
                list_offsets(self._client, dict.fromkeys(partitions, which), isolation_level=READ_UNCOMMITTED)
                for which in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
            )
            return {one: (firsts[one], ends[one]) for one in partitions}
        except KafkaError as error:
            raise GroupError(f"the offsets of topic {', '.join(topics)} could not be read: {error}") from error

    def close(self) -> None:
        self._client.close()


@contextmanager
def opened_group(spec: PipelineSpec, access: ClusterAccess, name: str) -> Iterator[GroupOffsets]:
    """A group on one cluster, for a command."""
    group = GroupOffsets(
        access,
        name,
        first_contact_timeout_ms=spec.first_contact_timeout_ms,
        retry_timeout_ms=COMMAND_TIMEOUT_MS,
    )
    with closing(group):
        yield group


def check_groups(spec: PipelineSpec) -> None:
    """Checks the group of each query on all clusters where it shows the query's progress. Raises GroupError, as
    `GroupOffsets.check`."""
    for query in spec.queries:
        for access in query.clusters_of_group:
            with opened_group(spec, access, query.group) as group:
                group.check(spec.name, query.name)


def lag(bounds: Mapping[TopicPartition, tuple[int, int]], done: Mapping[TopicPartition, int]) -> int:
    """The number of offsets between `done` and the ends; for a partition that is not in `done`, between its first and
    end offset."""
    return sum(max(0, end - max(done.get(partition, first), first)) for partition, (first, end) in bounds.items())
