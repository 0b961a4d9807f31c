"""Makes a stream from any source of rows: a feed gives its end, its parts and their rows.

A place, which is a position in the feed, is a JSON mapping that Spark stores in the checkpoint. Between the same two
places a feed always gives the same rows, so a batch that a crash interrupted is the same when it runs again. A stream
begins at the first row.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from moldau.spark.source.idle import IdleStream

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Place = Mapping[str, Any]

LOOK_EVERY_SECONDS = 0.5
"""How often a feed without new rows is asked; Spark itself would ask again after 10 ms."""


class Feed(Protocol):
    """A value that is sent to the processes that plan and to the tasks: only module-level classes and plain values."""

    @property
    def columns(self) -> pa.Schema:
        """The columns of every batch of `read`."""

    def beginning(self) -> Place:
        """The place before the first row; always the same."""

    def end(self, after: Place) -> Place:
        """The place after the newest row; `after` itself without newer rows."""

    def step(self, after: Place, end: Place) -> Place:
        """The end of a micro-batch that begins at `after`: `end`, or an earlier place."""

    def parts(self, after: Place, end: Place) -> Sequence[object]:
        """The parts between the two places, with a task for each."""

    def whole(self) -> Sequence[object]:
        """The parts of all current rows."""

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:
        """The rows of one part, in a task."""


def stream_of(spark: SparkSession, feed: Feed) -> DataFrame:
    """The rows of the feed as a stream; does not read yet."""
    name = f"moldau-{type(feed).__name__.lower()}-{uuid4().hex}"
    # a separate subclass holds the feed, because options of a data source are texts
    spark.dataSource.register(type("FeedDataSource", (FeedDataSource,), {"feed": feed, "format_name": name}))
    return spark.readStream.format(name).load()


def columns_of(feed: Feed) -> StructType:
    return from_arrow_schema(feed.columns)


def read_whole(feed: Feed) -> Iterator[pa.RecordBatch]:
    """All current rows."""
    for part in feed.whole():
        yield from feed.read(part)


class FeedDataSource(DataSource):
    """The data source that `stream_of` registers."""

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
    """With Trigger.AvailableNow, reads up to the end at the first look."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self._is_available_now = False
        self._target: Place | None = None
        self._idle = IdleStream()

    def __getstate__(self) -> dict[str, Feed]:
        return {"feed": self.feed}

    def __setstate__(self, state: Mapping[str, Feed]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return dict(self.feed.beginning())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._is_available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        with self._idle.asked():
            end = self._target or self.feed.end(start)
            if self._is_available_now:
                self._target = end
            elif end == start:
                time.sleep(LOOK_EVERY_SECONDS)
            return start if end == start else dict(self.feed.step(start, end))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [FeedPart(part) for part in self.feed.parts(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark creates an empty partition of another class if none is planned
        if isinstance(partition, FeedPart):
            yield from self.feed.read(partition.part)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do, because the checkpoint has the place."""

    def stop(self) -> None:
        self._idle.end()
