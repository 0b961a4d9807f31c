"""Asks the cluster for a source's partitions, and for their first and end offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from moldau.client.blocking.offsets import commit_offsets, committed_offsets, list_offsets
from moldau.client.protocol.offsets import READ_UNCOMMITTED
from moldau.client.protocol.retries import NO_SUCH_TOPIC
from moldau.columnar.reader import ISOLATION_LEVELS
from moldau.errors import KafkaError, kafka_error
from moldau.spark.options import LATEST, SourceOptions
from moldau.spark.source.offsets import StartError, subscribed_partitions
from moldau.spark.source.record_watch import RecordWatch
from moldau.transport.access import open_client
from moldau.types import TopicPartition, Uuid

Result = TypeVar("Result")

COMMIT_WITHIN_MS = 1_000
KNOWN_WITHIN_MS = 3_000
"""How long a new topic may be unknown to some brokers: Spark's own connector asks three times, with pauses of a
second."""


class SubscribedTopics:
    """The topics in a source's options, on their cluster. Connects at first use; a context manager.

    Every method raises KafkaError when the cluster does not answer.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._client = open_client(options.access)
        self._watch = RecordWatch(self._client, options.isolation)

    def __enter__(self) -> SubscribedTopics:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._watch.close()
        self._client.close()

    def partitions(self) -> tuple[list[TopicPartition], dict[str, Uuid]]:
        """The partitions to read, in order, and the ids of their topics. For an absent topic, first asks other brokers,
        because one may not know a new topic yet; then raises StartError."""
        subscription = self._options.subscription
        named = subscription.topics or tuple(dict.fromkeys(one.topic for one in subscription.partitions))
        backoff = self._client.backoff(at_most_ms=KNOWN_WITHIN_MS)
        while True:
            if subscription.pattern is not None:
                found = self._client.list_topics()
            else:
                found = self._client.retry(lambda: self._client.refresh(named))
            numbers = {name: tuple(topic.partitions) for name, topic in found.items()}
            try:
                partitions = subscribed_partitions(subscription, numbers)
            except StartError as absent:
                try:
                    backoff.wait(kafka_error("UNKNOWN_TOPIC_OR_PARTITION", str(absent)))
                except KafkaError:
                    raise absent from None
                continue
            topics = dict.fromkeys(one.topic for one in partitions)
            return partitions, {topic: found[topic].topic_id for topic in topics}

    def look(self, ask: Callable[[list[TopicPartition]], Result]) -> tuple[Result, dict[str, Uuid]]:
        """The result of `ask` for the partitions to read, and the ids of their topics. Leaves out topics that match a
        pattern but are deleted before `ask`. Raises StartError as `partitions`."""
        partitions, topic_ids = self.partitions()
        while True:
            try:
                return ask(partitions), topic_ids
            except KafkaError as error:
                if error.code not in NO_SUCH_TOPIC:
                    raise
                before = topic_ids
                partitions, topic_ids = self.partitions()
                if before.keys() <= topic_ids.keys():
                    raise

    def known_ids(self, topics: Iterable[str]) -> dict[str, Uuid]:
        """The ids of these topics at the last look, without those of missing topics."""
        ids: dict[str, Uuid] = {}
        for topic in topics:
            try:
                ids[topic] = self._client.topic(topic).topic_id
            except KafkaError as error:
                if error.code not in NO_SUCH_TOPIC:
                    raise
        return ids

    def lookup(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Offsets for LATEST (the last stable offset, or the high watermark for readers of uncommitted records),
        EARLIEST or times in ms; -1 if no record is that late.

        Times are looked up among all records, because those of an open transaction already have times; a look-up among
        committed records would end at the first of them.
        """
        times = {partition: asked for partition, asked in wanted.items() if asked >= 0}
        words = {partition: asked for partition, asked in wanted.items() if asked < 0}
        level = ISOLATION_LEVELS[self._options.isolation]
        found = list_offsets(self._client, words, isolation_level=level) if words else {}
        return found | (list_offsets(self._client, times, isolation_level=READ_UNCOMMITTED) if times else {})

    def lookup_of_those_there(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """As `lookup`, without the partitions of deleted topics."""
        there = self.known_ids(dict.fromkeys(one.topic for one in wanted))
        asked = {one: what for one, what in wanted.items() if one.topic in there}
        try:
            return self.lookup(asked)
        except KafkaError as error:
            if error.code not in NO_SUCH_TOPIC or self.known_ids(there).keys() == there.keys():
                raise
        return self.lookup_of_those_there(asked)

    def log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The high watermarks. Uncommitted records may come after the last stable offset."""
        asked = dict.fromkeys(partitions, LATEST)
        return list_offsets(self._client, asked, isolation_level=READ_UNCOMMITTED) if asked else {}

    def wait_for_records(self, offsets: Mapping[TopicPartition, int], at_most_ms: int) -> None:
        """Waits for records after these offsets. Returns after any error, which the next look meets too."""
        self._watch.wait(offsets, at_most_ms)

    def committed(self) -> dict[TopicPartition, int] | None:
        """The offsets of the starting group; None if the options name none.

        Waits for open transactions that commit offsets of the group.
        """
        group_id = self._options.starting_group
        if group_id is None:
            return None
        found = committed_offsets(self._client, group_id, require_stable=True)
        return {partition: committed.offset for partition, committed in found.items()}

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commits these offsets to the group, which has no members and needs none. Retries only briefly, because
        reading does not depend on it."""
        commit_offsets(self._client, group_id, offsets, at_most_ms=COMMIT_WITHIN_MS)
