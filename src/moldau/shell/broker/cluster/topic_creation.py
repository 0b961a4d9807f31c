"""Creates topics automatically, as Metadata requests ask for it. A creation starts at once, and no request waits for
it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from moldau.core.config.topic_settings import INTERNAL_TOPICS
from moldau.core.controller.automatic_topics import automatic_topic, lacking_replicas
from moldau.core.controller.topic_names import CLUSTER_METADATA_TOPIC, topic_name_fault
from moldau.errors import ERROR_CODES, MoldauError, kafka_error
from moldau.shell.broker.own_node import OwnNode
from moldau.shell.network.event_log import escape
from moldau.types import counted
from moldau.wire.protocol.messages.topics import CreateTopicsRequest

if TYPE_CHECKING:
    from moldau.wire.protocol.messages.producer_ids import AllocateProducerIdsResponse

MAX_PENDING = 1_000
TIMEOUT_MS = 30_000
TOPIC_ALREADY_EXISTS = ERROR_CODES["TOPIC_ALREADY_EXISTS"]


class TopicCreation:
    """Runs at most one creation for each name, and MAX_PENDING in all, however often clients ask."""

    def __init__(
        self,
        node: OwnNode,
        submit: Callable[[CreateTopicsRequest], Awaitable[Any]],
        count_brokers: Callable[[], int],
    ) -> None:
        """`submit` asks the controller, and returns when this broker serves the topics. `count_brokers`: how many
        brokers are registered."""
        self._node = node
        self._submit = submit
        self._count_brokers = count_brokers
        self._pending: dict[str, None] = {}

    def is_valid_name(self, name: str) -> bool:
        """Whether a topic may have this name, by Kafka's rules for names alone."""
        return topic_name_fault(name) is None

    def begin(self, name: str) -> bool:
        """Starts to create `name` unless a creation is running. False: no topic may have that name."""
        if not self.is_valid_name(name):
            return False
        if name not in self._pending and name != CLUSTER_METADATA_TOPIC and len(self._pending) < MAX_PENDING:
            self._pending[name] = None
            self._node.spawn(self._create(name))
        return True

    async def _create(self, name: str) -> None:
        try:
            await self.create(name)
        except MoldauError as error:
            self._node.log.info(
                "automatic topic creation",
                f"topic {escape(name)} was not created: {escape(str(error))}",
                about=escape(name),
            )
        finally:
            self._pending.pop(name, None)

    async def create(self, name: str) -> None:
        """Creates `name` with this broker's defaults, or as an internal topic. Does nothing if it exists.

        Raises KafkaError.
        """
        settings, log = self._node.settings.view, self._node.log
        topic = automatic_topic(name, settings, self._count_brokers())
        response = await self._submit(CreateTopicsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS))
        for result in response.topics:
            if result.error_code not in (0, TOPIC_ALREADY_EXISTS):
                error = kafka_error(result.error_code, result.error_message)
                if name in INTERNAL_TOPICS:  # clients only learn that no coordinator is available
                    log.warn("internal topic", f"{name} was not created: {escape(str(error))}", about=name)
                raise error
            if not result.error_code and (lacking := lacking_replicas(topic, settings)):
                have = counted(topic.replication_factor, "replica")
                message = f"{name} has {have}, {lacking} less than by Kafka's default: no more brokers are registered; "
                log.warn("internal topic", message + "`moldau partitions reassign` gives it more", about=name)


class ProducerIds:
    """Assigns producer ids from the block that the controller gave this broker. Never gives a block back."""

    def __init__(self, allocate: Callable[[], Awaitable[AllocateProducerIdsResponse]]) -> None:
        self._allocate = allocate
        self._next = 0
        self._end = 0

    def take(self) -> int | None:
        """An id of the current block; None if the block is used up."""
        if self._next >= self._end:
            return None
        self._next += 1
        return self._next - 1

    async def allocate(self) -> int:
        """An id, from a new block if need be. Raises KafkaError."""
        while (producer_id := self.take()) is None:
            block = await self._allocate()
            # another request may have fetched a block meanwhile: dropping one block is fine, as there are enough ids
            if self._next >= self._end:
                self._next = block.producer_id_start
                self._end = block.producer_id_start + block.producer_id_len
        return producer_id
