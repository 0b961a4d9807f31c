"""Makes a stream of any place: a feed gives its end, its parts and their rows.

A place is a mapping that JSON can hold; Spark keeps it in the checkpoint. Between the same two places a feed gives the
same rows, however often it is asked: so a batch that a crash cut short is the same when it runs again.
A stream begins at the first row.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Place = Mapping[str, Any]

LOOK_EVERY_SECONDS = 0.5
"""A place without new rows is looked at so often; Spark itself would ask again after 10 ms."""


class Feed(Protocol):
    """A value that travels to the processes that plan and to the tasks: module-level classes and plain values only."""

    @property
    def columns(self) -> pa.Schema:
        """What every batch of `read` has."""

    def beginning(self) -> Place:
        """Before the first row: the same for ever."""

    def end(self, after: Place) -> Place:
        """Behind the newest row; `after` itself where there is nothing behind it."""

    def step(self, after: Place, end: Place) -> Place:
        """Where a micro-batch ends that begins at `after`: at `end`, or before it."""

    def parts(self, after: Place, end: Place) -> Sequence[object]:
        """What lies between the two: a task for each part."""

    def whole(self) -> Sequence[object]:
        """The parts of everything that is there now."""

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:
        """The rows of one part, in a task."""


def stream_of(spark: SparkSession, feed: Feed) -> DataFrame:
    """The rows of the feed as they come; nothing is read yet."""
    name = f"moldau-{type(feed).__name__.lower()}-{uuid4().hex}"
    # a subclass of its own carries the feed: an option of a data source is a text
    spark.dataSource.register(type("FeedDataSource", (FeedDataSource,), {"feed": feed, "format_name": name}))
    return spark.readStream.format(name).load()


def columns_of(feed: Feed) -> StructType:
    return from_arrow_schema(feed.columns)


def read_whole(feed: Feed) -> Iterator[pa.RecordBatch]:
    """Everything that is there now."""
    for part in feed.whole():
        yield from feed.read(part)


class FeedDataSource(DataSource):
    """What `stream_of` registers."""

    feed: Feed
    format_name: str

    @classmethod
    def name(cls) -> str:
        return cls.format_name

    def schema(self) -> StructType:
        return columns_of(self.feed)

    def streamReader(self, schema: StructType) -> FeedStreamReader:  # noqa: N802 - Spark's name
        return FeedStreamReader(self.feed)


class FeedPart(InputPartition):
    """One task's share."""

    def __init__(self, part: object) -> None:
        self.part = part


class FeedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Trigger.AvailableNow reads up to where the rows end at the first look."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self._is_available_now = False
        self._target: Place | None = None

    def __getstate__(self) -> dict[str, Feed]:
        return {"feed": self.feed}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return dict(self.feed.beginning())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._is_available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        end = self._target or self.feed.end(start)
        if self._is_available_now:
            self._target = end
        elif end == start:
            time.sleep(LOOK_EVERY_SECONDS)
        return start if end == start else dict(self.feed.step(start, end))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [FeedPart(part) for part in self.feed.parts(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark makes one empty partition of its own kind where we plan none
        if isinstance(partition, FeedPart):
            yield from self.feed.read(partition.part)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: the checkpoint remembers."""
