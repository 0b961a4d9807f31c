"""PRINT: the records of a topic, as they are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count

import pyarrow as pa

from moldau.client.protocol.access import ClusterAccess
from moldau.columnar.reader import RangeReader, ReaderSettings, resolve_ranges
from moldau.products.sql.engine.answers import ChangedRow
from moldau.products.sql.engine.looking.cluster import ClusterView
from moldau.products.sql.engine.row_streams import BufferedRows
from moldau.products.sql.language.queries import error_of
from moldau.products.sql.language.statements import Print
from moldau.transport.access import open_client
from moldau.types import nearest

COLUMNS = (
    ("rowtime", "timestamp"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("key", "string"),
    ("value", "string"),
)
LOOK_MS = 200
_NUMBERS = count()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def print_topic(statement: Print, access: ClusterAccess, cluster: ClusterView) -> BufferedRows:
    """A key or value that is no UTF-8 is shown in hexadecimal digits. Raises SqlError for an unknown topic, and
    KafkaError."""
    topic = statement.topic
    topics = cluster.topics()
    if topic.text not in topics:
        raise error_of(topic, f"there is no topic {topic.text}", nearest(topic.text, topics))
    stream = BufferedRows(f"print_{topic.text}_{next(_NUMBERS)}", COLUMNS, (), limit=statement.limit)

    def read() -> None:
        for number, row in enumerate(_records(statement, access, stream)):
            if number % statement.interval == 0:
                stream.put([row])

    stream.make(read, str)
    return stream


def _records(statement: Print, access: ClusterAccess, stream: BufferedRows) -> Iterator[ChangedRow]:
    """All records from now on, or from the beginning, until nobody reads them."""
    topic = statement.topic.text
    settings = ReaderSettings(on_data_loss="skip")
    with open_client(access) as client:
        ranges = resolve_ranges(client, topic)
        starts = {one.partition: one.start_offset if statement.from_beginning else one.end_offset for one in ranges}
        while True:
            stream.check()
            ranges = resolve_ranges(client, topic, start=starts, end="latest", on_data_loss="skip")
            with RangeReader(client, ranges, settings) as reader:
                for _, batch in reader:
                    yield from _rows(batch)
            starts = {one.partition: one.end_offset for one in ranges}
            stream.wait(LOOK_MS / 1_000)


def _rows(batch: pa.RecordBatch) -> Iterator[ChangedRow]:
    named = {name: batch.column(name).to_pylist() for name in ("partition", "offset", "key", "value")}
    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    for at, ms in enumerate(times):
        time = None if ms is None else _EPOCH + timedelta(milliseconds=ms)
        key, value = (_text(named[name][at]) for name in ("key", "value"))
        yield ChangedRow((time, named["partition"][at], named["offset"][at], key, value))


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex()}"
