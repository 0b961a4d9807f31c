"""Asks the cluster which partitions a source has, and their first and end offsets."""

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
from moldau.transport.access import open_client
from moldau.types import TopicPartition, Uuid

Result = TypeVar("Result")

COMMIT_WITHIN_MS = 1_000
KNOWN_WITHIN_MS = 3_000
"""So long a topic that was just made may be unknown to some broker: Spark's own connector asks three times, with pauses
of a second."""


class SubscribedTopics:
    """The topics that a source's options name, on their cluster. Connects at first use; a context manager.

    Every method raises KafkaError when the cluster does not answer.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._client = open_client(options.access)

    def __enter__(self) -> SubscribedTopics:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def partitions(self) -> tuple[list[TopicPartition], dict[str, Uuid]]:
        """The partitions that are read, in order, and the ids of their topics. Raises StartError for what is absent,
        once other brokers have been asked too: one may not know yet what was just made."""
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
        """What `ask` finds of the partitions that are read, and the ids of their topics. A topic that a pattern has
        matched, and that was deleted before it was asked for, is none of them. Raises StartError as `partitions`."""
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
        """The ids of these topics as the last look at them saw; a topic that does not exist is left out."""
        ids: dict[str, Uuid] = {}
        for topic in topics:
            try:
                ids[topic] = self._client.topic(topic).topic_id
            except KafkaError as error:
                if error.code not in NO_SUCH_TOPIC:
                    raise
        return ids

    def lookup(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Offsets for LATEST (the last stable offset, or the high watermark where what is not committed is read too),
        EARLIEST or times in ms; -1 where no record is so late.

        A time is looked for among all records: those of an open transaction have their times already, and a reader of
        committed records would take the first of them for the end.
        """
        times = {partition: asked for partition, asked in wanted.items() if asked >= 0}
        words = {partition: asked for partition, asked in wanted.items() if asked < 0}
        level = ISOLATION_LEVELS[self._options.isolation]
        found = list_offsets(self._client, words, isolation_level=level) if words else {}
        return found | (list_offsets(self._client, times, isolation_level=READ_UNCOMMITTED) if times else {})

    def lookup_of_those_there(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """As `lookup`; the partitions of a topic that is gone are left out."""
        there = self.known_ids(dict.fromkeys(one.topic for one in wanted))
        asked = {one: what for one, what in wanted.items() if one.topic in there}
        try:
            return self.lookup(asked)
        except KafkaError as error:
            if error.code not in NO_SUCH_TOPIC or self.known_ids(there).keys() == there.keys():
                raise
        return self.lookup_of_those_there(asked)

    def log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The high watermarks: behind the last stable offset there may be records that are not committed yet."""
        asked = dict.fromkeys(partitions, LATEST)
        return list_offsets(self._client, asked, isolation_level=READ_UNCOMMITTED) if asked else {}

    def committed(self) -> dict[TopicPartition, int] | None:
        """The offsets of the group that reading starts at; None where the options name none.

        Waits while a transaction is open that commits offsets of the group.
        """
        group_id = self._options.starting_group
        if group_id is None:
            return None
        found = committed_offsets(self._client, group_id, require_stable=True)
        return {partition: committed.offset for partition, committed in found.items()}

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Shows these offsets as the group's. The group has no members and needs none. A coordinator that is away is
        tried for a moment only: what is read does not depend on it."""
        commit_offsets(self._client, group_id, offsets, at_most_ms=COMMIT_WITHIN_MS)
