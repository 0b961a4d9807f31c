"""Records that converters keep as they are take a shorter way, and are the same as on the way of all others."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from pyspark.sql.types import DataType, StringType

from moldau.connect.contract.columns import source_schema
from moldau.connect.contract.describing import RowColumns
from moldau.connect.handling.stages import error_settings
from moldau.connect.running.conversion import Conversion
from moldau.connect.running.errors import Errors
from moldau.connect.running.incoming import Decoder, RowMaker, positions_of
from moldau.connect.running.outgoing import encoder
from moldau.connect.running.protocol import Commands, Task
from tests.support.connect_cluster import connect_cluster

SAME = {
    "transforms": "same",
    "transforms.same.type": "RegexRouter",
    "transforms.same.regex": "no topic",
    "transforms.same.replacement": "no topic",
}
"""A transform that changes nothing: with it, records take the long way."""
TEXTS = [None, "", "Éva", "line\nline", "half \ud800 of a pair", "x" * 3_000]
BYTES = [*(None if one is None else one.encode("utf-8", "surrogatepass") for one in TEXTS), bytearray(b"x")]
HEADERS = [("number", b"1.50"), ("text", b'"a"'), ("none", None)]
NOON = dt.datetime(2026, 12, 1, 12, tzinfo=dt.UTC)


class NoLines:
    """The input of a task that gets no command."""

    def __iter__(self) -> Iterator[str]:
        return iter(())


def conversion_of(config: dict[str, str]) -> Conversion:
    task = Task("c", 0, 1, config, "", "g", "o")
    commands = Commands(NoLines())  # type: ignore[arg-type]
    return Conversion(config, {}, Errors(error_settings(config), task, commands))


def converters(name: str) -> dict[str, str]:
    return {"key.converter": name, "value.converter": name}


@pytest.mark.parametrize(("converter", "kind", "values"), [("string", StringType(), TEXTS), ("bytes", None, BYTES)])
@pytest.mark.parametrize("key", ["kept", "null"])
def test_a_source_sends_the_same_records(converter: str, kind: DataType | None, values: list[Any], key: str) -> None:
    """A key column of bytes is null where the keys are texts, as that of lines."""
    schema = source_schema(kind if key == "kept" else None, kind)
    rows = [
        ("t", number, value if key == "kept" else None, value, HEADERS[:number] or None, moment)
        for number, value in enumerate(values)
        for moment in (None, NOON)
    ]

    def sent(config: dict[str, str]) -> list[Any]:
        encode = encoder(schema, (), config, conversion_of(config))
        made = [one for one in map(encode, rows) if one is not None]
        return [(topic, _bytes(value), _bytes(key), *rest, list(pairs)) for topic, value, key, *rest, pairs in made]

    assert sent(converters(converter)) == sent(converters(converter) | SAME)


def _bytes(found: bytes | str | None) -> bytes | None:
    """As the producer sends it."""
    return found.encode() if isinstance(found, str) else found


@pytest.fixture(scope="module")
def messages() -> list[Message]:
    """Each text as a key and as a value, and some headers."""
    with connect_cluster() as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        topic = cluster.topic("plain", partitions=2)
        for number, text in enumerate([*BYTES[:-1], b"\xff no text"]):
            for headers in ([], HEADERS[:number]):
                producer.produce(topic, text, text, number % 2, timestamp=1_000 + number, headers=headers or None)
        assert producer.flush(30) == 0
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})
        consumer.assign([TopicPartition(topic, index, 0) for index in (0, 1)])
        found: list[Message] = []
        for _ in range(100):
            found += consumer.consume(100, 0.3)
            if len(found) >= 2 * len(BYTES):
                break
        consumer.close()
    return found


@pytest.mark.parametrize("converter", ["string", "bytes"])
def test_a_sink_gets_the_same_rows(messages: list[Message], converter: str) -> None:
    def rows(config: dict[str, str], chosen: list[Message]) -> tuple[str, list[Any]]:
        conversion = conversion_of(config)
        batch = Decoder(conversion, RowColumns.RECORD).decode(chosen).present()
        shape = batch.shapes[0]
        for one in batch.shapes:
            shape = shape.joined(one) or shape
        maker = RowMaker(shape, RowColumns.RECORD, conversion)
        return maker.schema.simpleString(), [one.asDict(True) for one in maker.rows(batch)]

    for chosen in (messages, [one for one in messages if not one.headers()]):
        assert rows(converters(converter), chosen) == rows(converters(converter) | SAME, chosen)


def test_positions_of_one_partition_and_of_several(messages: list[Message]) -> None:
    decoder = Decoder(conversion_of(converters("bytes")), RowColumns.RECORD)
    parts = [[one for one in messages if one.partition() == index] for index in (0, 1)]
    expected = {(part[0].topic(), index): (0, len(part)) for index, part in enumerate(parts)}
    assert positions_of(decoder.decode(messages)) == expected
    assert [positions_of(decoder.decode(part)) for part in parts] == [{one: at} for one, at in expected.items()]


def test_a_batch_has_the_same_order_however_its_partitions_arrive() -> None:
    decoder = Decoder(conversion_of(converters("bytes")), RowColumns.RECORD)
    messages = [
        Message(topic=topic, partition=index, offset=at) for at in range(3) for topic in "ab" for index in (1, 0)
    ]
    by_partition = sorted(messages, key=lambda one: (one.topic(), one.partition()))
    found = [decoder.decode(given).ordered() for given in (messages, by_partition)]
    wanted = [(topic, index, at) for topic in "ab" for index in (0, 1) for at in range(3)]
    for one in found:
        assert [(each.topic(), each.partition(), each.offset()) for each in one.messages] == wanted
