"""confluent-kafka: blocking."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from moldau.idempotent.blocking import run
from moldau.idempotent.clients.port import Watcher
from moldau.idempotent.errors import DeliveryError
from moldau.idempotent.records import Headers, Partition, Record

_log = logging.getLogger("moldau.idempotent")


class ConfluentConsuming:
    """A confluent_kafka.Consumer."""

    def __init__(self, consumer: Any) -> None:
        import confluent_kafka

        self._library = confluent_kafka
        self._consumer = consumer
        self._moved: set[Partition] = set()
        """Partitions that a rebalance of this poll took away."""
        self._error: Exception | None = None

    def subscribe(self, topics: Sequence[str], watcher: Watcher) -> None:
        def places(parts: list[Any]) -> list[Partition]:
            return [(part.topic, part.partition) for part in parts]

        def on_assign(_: Any, parts: list[Any]) -> None:
            starts = run(watcher.on_assigned(places(parts)))
            if not starts:
                return  # the client assigns them itself
            part = self._library.TopicPartition
            wanted = [
                part(one.topic, one.partition, starts.get((one.topic, one.partition), one.offset)) for one in parts
            ]
            try:
                self._consumer.incremental_assign(wanted)
            except self._library.KafkaException as error:
                if error.args[0].code() != self._library.KafkaError._STATE:
                    raise
                self._consumer.assign(wanted)  # the group does not rebalance in steps

        def on_revoke(_: Any, parts: list[Any]) -> None:
            self._moved.update(places(parts))
            run(watcher.on_revoked(places(parts)))

        def on_lost(_: Any, parts: list[Any]) -> None:
            self._moved.update(places(parts))
            run(watcher.on_lost(places(parts)))

        self._consumer.subscribe(list(topics), on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost)

    async def poll(self, timeout_s: float, at_most: int) -> list[Record]:
        if self._error is not None:
            raise self._error
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        self._moved.clear()
        # `consume` waits until it has `at_most` records, so it does not wait at all
        found = [first, *self._consumer.consume(at_most - 1, 0)] if at_most > 1 else [first]
        records = [_record(message) for message in found if self._is_record(message)]
        return [record for record in records if record is not records[0] or record.place not in self._moved]

    def _is_record(self, message: Any) -> bool:
        error = message.error()
        if error is None:
            return True
        if error.fatal() or error.code() in (
            self._library.KafkaError.TOPIC_AUTHORIZATION_FAILED,
            self._library.KafkaError.GROUP_AUTHORIZATION_FAILED,
        ):
            self._error = self._library.KafkaException(error)  # raised by the next poll: this one has records
            return False
        _log.warning("the consumer says: %s", error)  # it continues by itself
        return False

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        part = self._library.TopicPartition
        parts = [part(topic, number, offset) for (topic, number), offset in offsets.items()]
        for answer in self._consumer.commit(offsets=parts, asynchronous=False):
            if answer.error is not None:
                raise self._library.KafkaException(answer.error)

    async def seek(self, place: Partition, offset: int) -> None:
        self._consumer.seek(self._library.TopicPartition(*place, offset))

    async def pause(self, place: Partition) -> None:
        self._consumer.pause([self._library.TopicPartition(*place)])

    async def resume(self, place: Partition) -> None:
        self._consumer.resume([self._library.TopicPartition(*place)])


def _record(message: Any) -> Record:
    _, timestamp_ms = message.timestamp()
    return Record(
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
        timestamp_ms,
    )


class ConfluentProducing:
    """A confluent_kafka.Producer."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    async def deliver(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        errors: list[Any] = []
        self._producer.produce(
            topic, value, key, headers=list(headers), on_delivery=lambda error, _: errors.append(error)
        )
        while not errors:  # bounded by the producer's delivery.timeout.ms
            self._producer.poll(1.0)
        if errors[0] is not None:
            raise DeliveryError(f"topic {topic}: {errors[0]}")
