"""A connector's source as a streaming source of Spark that begins at a place of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from pyspark.sql.datasource import (
    CaseInsensitiveDict,
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from moldau.connect.contract.describing import Reading
from moldau.connect.contract.shared_settings import DEFAULT_BATCH_ROWS
from moldau.connect.running.reading import FINISHED, Place, limit_for, open_reader, takes_start

NAME: Final = "moldau_connector"


def placed_source(
    found: type[DataSource], config: Mapping[str, str], reading: Reading, place: Place, most: int
) -> type[DataSource]:
    """A format for a session: `found` with this configuration, from `place` on. Spark's plans show
    no option of it, because the class holds them.

    `most`: partitions of a batch of a batch reader; rows of a read of a simple reader.
    """

    class Placed(DataSource):
        @classmethod
        def name(cls) -> str:
            return NAME

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            source = found(CaseInsensitiveDict(config))
            if reading is Reading.STREAM:
                return StreamFrom(source.streamReader(schema), place)
            if reading is Reading.BATCH:
                return BatchFrom(source.reader(schema), place, most)
            return super().streamReader(schema)  # says that there is none: Spark then asks for the next one

        def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: N802
            return SimpleFrom(found(CaseInsensitiveDict(config)).simpleStreamReader(schema), place, most)

    return Placed


def first_place(source: DataSource, reading: Reading, schema: StructType) -> Place:
    """Where a source begins that has no place yet."""
    reader = open_reader(source, reading, schema, DEFAULT_BATCH_ROWS)
    try:
        return reader.first()
    finally:
        reader.close()


class StreamFrom(DataSourceStreamReader):
    """`streamReader`, also one whose `latestOffset` takes nothing."""

    def __init__(self, reader: DataSourceStreamReader, place: Place) -> None:
        self._reader: Any = reader
        self._place = place
        self._has_start = takes_start(reader)

    def initialOffset(self) -> Place:  # noqa: N802
        return self._place

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit: ReadLimit = self._reader.getDefaultReadLimit()
        return limit

    def latestOffset(self, start: Place, limit: ReadLimit) -> Place:  # noqa: N802
        return dict(self._reader.latestOffset(*((start, limit) if self._has_start else ())))

    def partitions(self, start: Place, end: Place) -> Sequence[InputPartition]:
        found: Sequence[InputPartition] = self._reader.partitions(start, end)
        return found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        found: Iterator[Any] = self._reader.read(partition)
        return found

    def commit(self, end: Place) -> None:
        self._reader.commit(end)

    def stop(self) -> None:
        self._reader.stop()


class SimpleFrom(SimpleDataSourceStreamReader):
    """`simpleStreamReader`. Spark gives `read` no limit; a `read` with a second parameter gets ours."""

    def __init__(self, reader: SimpleDataSourceStreamReader, place: Place, most: int) -> None:
        self._reader: Any = reader
        self._place = place
        self._limit = limit_for(reader, most)

    def initialOffset(self) -> Place:  # noqa: N802
        return self._place

    def read(self, start: Place) -> tuple[Iterator[Any], Place]:
        rows, end = self._reader.read(start, *self._limit)
        return iter(list(rows)), dict(end)  # Spark copies the iterator, and a generator cannot be copied

    def readBetweenOffsets(self, start: Place, end: Place) -> Iterator[Any]:  # noqa: N802
        found: Iterator[Any] = self._reader.readBetweenOffsets(start, end)
        return found

    def commit(self, end: Place) -> None:
        self._reader.commit(end)


class Part(InputPartition):
    """A partition of a batch reader, without its first rows."""

    def __init__(self, part: InputPartition, skipped: int) -> None:
        self.part = part
        self.skipped = skipped


class BatchFrom(DataSourceStreamReader):
    """`reader`, once: a batch is its next partitions, at most `most`. The offset is the place of the light task."""

    def __init__(self, reader: Any, place: Place, most: int) -> None:
        self._reader = reader
        self._place = place
        self._most = most
        self._parts: Sequence[InputPartition] | None = None

    def initialOffset(self) -> Place:  # noqa: N802
        return self._place

    def latestOffset(self, start: Place, limit: ReadLimit) -> Place:  # noqa: N802
        if start[FINISHED]:
            return start
        count = len(self._all())
        end = min(start["partition"] + self._most, count)
        return {"partition": end, "rows": 0, FINISHED: end >= count}

    def partitions(self, start: Place, end: Place) -> Sequence[InputPartition]:
        chosen = self._all()[start["partition"] : end["partition"]]
        return [Part(one, 0 if place else start["rows"]) for place, one in enumerate(chosen)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, Part):  # Spark's own, of a batch without partitions
            return iter(())
        return islice(iter(self._reader.read(partition.part)), partition.skipped, None)

    def _all(self) -> Sequence[InputPartition]:
        if self._parts is None:
            self._parts = list(self._reader.partitions())
        return self._parts
