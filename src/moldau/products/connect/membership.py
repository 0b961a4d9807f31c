"""The group of workers: an ordinary consumer group over a topic of shares. The owner of a share runs its tasks.

A worker that ends without a word loses its shares after SESSION_TIMEOUT_MS. That no task runs twice is the work of the
task's transactional id. The client id of a member is its address, so that every worker finds the owner of a share.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupState, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from moldau.client.protocol.access import ClusterAccess
from moldau.products.compacted_topic import UNHEARD
from moldau.products.connect.core import refusals
from moldau.products.connect.followed_topic import prepare_topic
from moldau.transport.librdkafka import librdkafka_settings

SESSION_TIMEOUT_MS = 6_000
"""The least that Apache Kafka's `group.min.session.timeout.ms` allows by default."""
HEARTBEAT_MS = 1_000
LOOK_S = 10.0
KNOWN_FOR_S = 1.0
"""How long the owners of shares are remembered."""

_log = logging.getLogger(__name__)


def shares_topic(group_id: str) -> str:
    return f"{group_id}-shares"


class Membership:
    """A member of the group, from the constructor's return to `close`. `poll` and `close` from one thread."""

    def __init__(
        self, access: ClusterAccess, group_id: str, address: str, shares: int, release: Callable[[frozenset[int]], None]
    ) -> None:
        """Creates the topic of `shares` partitions if it is missing. `address`: the URL of this worker. `release`:
        stops the tasks of these shares before it returns; called in `poll` and `close`. Raises TopicError."""
        self.owned: frozenset[int] = frozenset()
        self.generation = 0
        """Counts the assignments of this worker."""
        self._group_id = group_id
        self._topic = shares_topic(group_id)
        self._release = release
        self._told = ""
        client: dict[str, Any] = {**librdkafka_settings(access), "client.id": address, "logger": UNHEARD}
        self._admin = AdminClient(client)
        self.shares = prepare_topic(self._admin, self._topic, shares)
        self._owners: dict[int, str] = {}
        self._looked_s = -KNOWN_FOR_S
        self._looking = threading.Lock()
        self._consumer = Consumer(
            {
                **client,
                "group.id": group_id,
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                # a new worker takes the fewest shares from the others
                "partition.assignment.strategy": "cooperative-sticky",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def poll(self, seconds: float) -> None:
        """Waits so long for news of the group. `owned` changes only here."""
        message = self._consumer.poll(seconds)
        error = None if message is None else message.error()
        if error is not None and error.str() != self._told:
            self._told = error.str()
            _log.warning("the group %s: %s", self._group_id, error.str())

    def close(self) -> None:
        """Leaves the group, so that other workers run the tasks at once."""
        self._give_up(self.owned)
        self._consumer.close()

    def owner_of(self, share: int) -> str:
        """The address of the worker that owns the share. Raises Refusal while the group shares anew. Thread-safe."""
        with self._looking:
            if time.monotonic() - self._looked_s >= KNOWN_FOR_S:
                self._owners = self._look()
                self._looked_s = time.monotonic()
            found = self._owners.get(share)
        if found is None:
            raise refusals.moving()
        return found

    def _look(self) -> dict[int, str]:
        try:
            group = self._admin.describe_consumer_groups([self._group_id], request_timeout=LOOK_S)
            found = group[self._group_id].result(LOOK_S)
        except KafkaException:
            return {}
        if found.state != ConsumerGroupState.STABLE:
            return {}
        return {
            place.partition: member.client_id
            for member in found.members
            for place in member.assignment.topic_partitions
        }

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.generation += 1
        if partitions:
            consumer.incremental_assign(partitions)
            consumer.pause(partitions)  # nothing is in the topic
            self.owned |= {place.partition for place in partitions}

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up(frozenset(place.partition for place in partitions))

    def _give_up(self, shares: frozenset[int]) -> None:
        if shares:
            self.owned -= shares
            self._release(shares)


class Alone:
    """The membership of a worker alone (`--standalone`): it owns the only share."""

    def __init__(self, address: str) -> None:
        self.owned = frozenset({0})
        self.generation = 1
        self.shares = 1
        self._address = address
        self._woken = threading.Event()

    def poll(self, seconds: float) -> None:
        self._woken.wait(seconds)

    def close(self) -> None:
        self._woken.set()

    def owner_of(self, share: int) -> str:
        return self._address
