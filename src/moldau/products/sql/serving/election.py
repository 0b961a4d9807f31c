"""Which instance of a service leads: the one to which a consumer group gives the only partition of the topic.

The group notices within SESSION_TIMEOUT_MS that an instance has ended, and gives the partition to another one. It only
tells who should lead; that no two do is the work of the topic's transactional id (`statement_topic`).
"""

from __future__ import annotations

import logging
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from moldau.client.protocol.access import ClusterAccess
from moldau.products.compacted_topic import UNHEARD
from moldau.transport.librdkafka import librdkafka_settings

SESSION_TIMEOUT_MS = 6_000
"""The least that Apache Kafka's `group.min.session.timeout.ms` allows by default."""
HEARTBEAT_MS = 1_000

_log = logging.getLogger(__name__)


class Candidacy:
    """A member of the group, from the constructor's return to `close`. Use it from one thread."""

    def __init__(self, access: ClusterAccess, topic: str) -> None:
        self.is_chosen = False
        self._topic = topic
        self._told = ""
        settings: dict[str, Any] = {
            **librdkafka_settings(access),
            "group.id": topic,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            # a new instance takes the partition from none: the leader keeps it
            "partition.assignment.strategy": "cooperative-sticky",
            "enable.auto.commit": False,
            "logger": UNHEARD,
        }
        self._consumer = Consumer(settings)
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)

    def poll(self, seconds: float) -> None:
        """Waits so long for news of the group. `is_chosen` changes only here."""
        message = self._consumer.poll(seconds)
        error = None if message is None else message.error()
        if error is not None and error.str() != self._told:
            self._told = error.str()
            _log.warning("the group %s: %s", self._topic, error.str())

    def close(self) -> None:
        """Leaves the group, so that another instance is chosen at once."""
        self.is_chosen = False
        self._consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if partitions:
            consumer.incremental_assign(partitions)
            consumer.pause(partitions)  # `CompactedTopic` reads them, in every instance
            self.is_chosen = True

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if partitions:
            self.is_chosen = False
