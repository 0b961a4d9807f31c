"""The cluster as a source needs it: which partitions there are, and where they begin and end."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

from moldau.client.blocking.cluster import ClusterClient
from moldau.client.blocking.offsets import commit_offsets, list_offsets
from moldau.client.protocol.offsets import READ_COMMITTED
from moldau.shell.io.tcp import TCP
from moldau.spark.offsets import subscribed_partitions
from moldau.spark.options import DEFAULT_CLIENT_ID, SourceOptions
from moldau.types import TopicPartition, Uuid


class SubscribedTopics:
    """The topics that a source's options name, on their cluster. Connects at first use; a context manager.

    Every method raises KafkaError when the cluster does not answer.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._client = ClusterClient(
            TCP,
            options.bootstrap_servers,
            client_id=DEFAULT_CLIENT_ID,
            first_contact_timeout_ms=options.first_contact_timeout_ms,
            retry_timeout_ms=options.retry_timeout_ms,
        )

    def __enter__(self) -> SubscribedTopics:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def partitions(self) -> tuple[list[TopicPartition], dict[str, Uuid]]:
        """The partitions that are read, in order, and the ids of their topics. Raises StartError for what is absent."""
        subscription = self._options.subscription
        named = subscription.topics or tuple(dict.fromkeys(one.topic for one in subscription.partitions))
        if subscription.pattern is not None:
            found = self._client.list_topics()
        else:
            found = self._client.retry(lambda: self._client.refresh(named))
        numbers = {name: tuple(topic.partitions) for name, topic in found.items()}
        partitions = subscribed_partitions(subscription, numbers)
        topics = dict.fromkeys(one.topic for one in partitions)
        return partitions, {topic: found[topic].topic_id for topic in topics}

    def lookup(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Offsets for LATEST (the last stable offset), EARLIEST or times in ms; -1 where no record is so late."""
        if not wanted:
            return {}
        return list_offsets(self._client, wanted, isolation_level=READ_COMMITTED)

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Shows these offsets as the group's. The group has no members and needs none."""
        commit_offsets(self._client, group_id, offsets)
