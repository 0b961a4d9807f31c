"""The live tail: new records of a topic for one viewer. Joins no group and commits nothing.

A viewer sees at most MAX_PER_SECOND records. Of a faster topic it sees a part, and the number of skipped records.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec
from confluent_kafka import OFFSET_END, Consumer, KafkaException, Message, TopicPartition

from moldau.client.protocol.access import ClusterAccess
from moldau.products.console.cluster import CLIENT_ID, TIMEOUT_S, ClusterError, TopicFacts
from moldau.products.console.core.shown import MAX_HEADERS, Shown, ShownRecord, show_bytes
from moldau.products.console.own_consumer import OwnConsumer, needs_own_client
from moldau.products.registered_values import RegisteredValues
from moldau.products.service.look.words import visible
from moldau.transport.librdkafka import librdkafka_settings

MAX_PER_SECOND = 50
MAX_TAIL_PARTITIONS = 200
MAX_WAIT_MS = 250


def make_consumer(access: ClusterAccess, purpose: str, settings: dict[str, object]) -> Consumer:
    """A consumer that joins no group and commits nothing. For a login that librdkafka does not support, returns
    Moldau's own consumer with the same methods."""
    name = f"{CLIENT_ID}-{purpose}"
    if needs_own_client(access):
        tells_ends = bool(settings.get("enable.partition.eof"))
        return OwnConsumer(access.named(name), tells_ends=tells_ends, max_wait_ms=MAX_WAIT_MS)
    own = {"group.id": name, "enable.auto.commit": False, "log_level": 0}
    return Consumer({**librdkafka_settings(access.named(name)), **own, **settings})


class Tail:
    """Has its own consumer; use from one thread, and `close` it."""

    def __init__(self, access: ClusterAccess, topic: TopicFacts, values: RegisteredValues | None = None) -> None:
        """`values`: decodes keys and values."""
        self._topic = topic
        self._values = values
        self._consumer = make_consumer(
            access,
            "tail",
            {
                "auto.offset.reset": "latest",
                "queued.max.messages.kbytes": 4096,
                "fetch.message.max.bytes": 262_144,
                "fetch.wait.max.ms": 250,
            },
        )

    def follow(self) -> Iterator[tuple[list[ShownRecord], int]]:
        """Yields (records, number of skipped records) from now on, about every quarter second, without end. Raises
        ClusterError."""
        partitions = self._topic.partitions[:MAX_TAIL_PARTITIONS]
        try:
            assignment = [TopicPartition(self._topic.name, each.index, OFFSET_END) for each in partitions]
            for each in assignment:
                # the current end offset: a later start of the fetch would miss records written meanwhile
                _, each.offset = self._consumer.get_watermark_offsets(each, timeout=TIMEOUT_S)
            self._consumer.assign(assignment)
            budget, second = MAX_PER_SECOND, int(time.monotonic())
            while True:
                messages = [each for each in self._consumer.consume(1_000, 0.25) if each.error() is None]
                if int(time.monotonic()) != second:
                    budget, second = MAX_PER_SECOND, int(time.monotonic())
                shown = messages[-budget:] if budget else []
                budget -= len(shown)
                yield [show_record(each, self._values) for each in shown], len(messages) - len(shown)
        except KafkaException as exception:
            raise ClusterError(exception.args[0].str()) from None

    def close(self) -> None:
        self._consumer.close()


def show_record(message: Message, values: RegisteredValues | None) -> ShownRecord:
    kind, timestamp_ms = message.timestamp()
    headers = tuple(
        (visible(name)[:200], show_bytes(value if isinstance(value, bytes) else None))
        for name, value in (message.headers() or [])[:MAX_HEADERS]
    )
    return ShownRecord(
        partition=message.partition(),
        offset=message.offset(),
        timestamp_ms=timestamp_ms if kind else -1,
        key=_show(message.key(), values),
        value=_show(message.value(), values),
        headers=headers,
    )


def _show(data: bytes | None, values: RegisteredValues | None) -> Shown:
    """The value decoded by a schema of the registry, or else the bytes; the size is that of the bytes."""
    decoded = None if values is None else values.decoded(data)
    if decoded is None or data is None:
        return show_bytes(data)
    return msgspec.structs.replace(show_bytes(decoded.text().encode("utf-8", "replace")), size=len(data))
