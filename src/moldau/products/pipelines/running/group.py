"""A pipeline's progress as a consumer group's offsets, so that every Kafka tool shows its lag.

The group has no members: offsets are committed to it from outside, as an administrator would. They are for looking at;
the pipeline itself starts from Spark's checkpoint.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from moldau.client.blocking.cluster import ClusterClient
from moldau.client.blocking.offsets import commit_offsets, committed_offsets, list_offsets
from moldau.client.protocol.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, READ_UNCOMMITTED
from moldau.client.protocol.retries import FIRST_CONTACT_TIMEOUT_MS
from moldau.errors import KafkaError, MoldauError
from moldau.products.pipelines.core.note import others_in
from moldau.products.pipelines.sources.topic import TopicSource
from moldau.shell.io.tcp import TCP
from moldau.types import TopicPartition, Uuid

CLIENT_ID = "moldau-pipeline"
CONNECT_TIMEOUT_MS = 3_000
REQUEST_TIMEOUT_MS = 10_000
LOOK_TIMEOUT_MS = 1_000
"""How long one look tries: the caller shows what is wrong, and looks again."""
COMMAND_TIMEOUT_MS = 10_000
"""How long a command tries, which does not look again: the first group of a cluster waits until its topic is made."""


class GroupError(MoldauError):
    """The cluster did not take the offsets, or did not give its own."""


class GroupOffsets:
    """Commits offsets to one group and reads end offsets. Blocking; for one thread. Close it."""

    def __init__(
        self,
        bootstrap_servers: str,
        group: str,
        *,
        first_contact_timeout_ms: int = FIRST_CONTACT_TIMEOUT_MS,
        retry_timeout_ms: int = LOOK_TIMEOUT_MS,
    ) -> None:
        self._servers = bootstrap_servers
        self._group = group
        self._client = ClusterClient(
            TCP,
            bootstrap_servers,
            client_id=CLIENT_ID,
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            first_contact_timeout_ms=first_contact_timeout_ms,
            retry_timeout_ms=retry_timeout_ms,
        )

    def commit(self, offsets: Mapping[TopicPartition, int], metadata: str = "") -> None:
        """Raises GroupError."""
        try:
            commit_offsets(self._client, self._group, offsets, metadata)
        except KafkaError as error:
            raise GroupError(f"the offsets of group {self._group} were not taken: {error}") from error

    def why_not_of(self, page: str, pipeline: str) -> str | None:
        """As `why_not_of`, of this group. Raises GroupError."""
        try:
            return why_not_of(self._client, self._servers, self._group, page, pipeline)
        except KafkaError as error:
            raise GroupError(f"the offsets of group {self._group} could not be read: {error}") from error

    def matching(self, pattern: str) -> list[str]:
        """The topics of the cluster whose whole names match. Raises GroupError."""
        try:
            return sorted(name for name in self._client.list_topics() if re.fullmatch(pattern, name))
        except KafkaError as error:
            raise GroupError(f"the topics {pattern} could not be listed: {error}") from error

    def topics_of(self, source: TopicSource) -> list[str]:
        """The names that a source on this cluster reads now. Raises GroupError."""
        return self.matching(source.pattern) if source.pattern is not None else [str(source.topic)]

    def topic_ids(self, topics: Sequence[str]) -> dict[str, Uuid]:
        """Of those that are there. Raises GroupError."""
        try:
            found = self._client.retry(lambda: self._client.refresh(topics)) if topics else {}
        except KafkaError as error:
            raise GroupError(f"the topics {', '.join(topics)} could not be looked at: {error}") from error
        return {topic: metadata.topic_id for topic, metadata in found.items()}

    def since(self, partitions: Iterable[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        """The first offset at or after a time (ms since 1970), -1 where no record is so late. Raises GroupError."""
        try:
            return list_offsets(self._client, dict.fromkeys(partitions, time_ms), isolation_level=READ_UNCOMMITTED)
        except KafkaError as error:
            raise GroupError(f"the offsets of {time_ms} ms could not be read: {error}") from error

    def bounds(self, topics: Sequence[str]) -> dict[TopicPartition, tuple[int, int]]:
        """The first offset and the end offset of every partition. Nothing for an absent topic. Raises GroupError."""
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


def why_not_of(client: ClusterClient, servers: str, group: str, page: str, pipeline: str) -> str | None:
    """A sentence where another pipeline notes in the group how far it is; None where none does. Each would put its note
    in the place of the other's, by which a sink knows which batch it has written. `pipeline`: the name of a query of
    the page `page`. Raises KafkaError."""
    noted = (position.metadata for position in committed_offsets(client, group).values())
    others = others_in(noted, page, pipeline)
    if not others:
        return None
    return (
        f"group {group!r} shows how far the pipeline {others[0]} is, and cannot show {pipeline!r} too: name another "
        f"one with `group`, or, if {others[0]} does not run any more, delete this one: moldau groups delete {group} "
        f"--bootstrap-server {servers}"
    )


def lag(bounds: Mapping[TopicPartition, tuple[int, int]], done: Mapping[TopicPartition, int]) -> int:
    """Offsets between what is done and the ends; of a partition of which nothing is done, all that it holds."""
    return sum(max(0, end - max(done.get(partition, first), first)) for partition, (first, end) in bounds.items())
