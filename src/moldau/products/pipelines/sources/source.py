"""The base class of sources. Each kind is a module of this package.

To add one, write a module there with one subclass of `Source`. It has the keys of the pipeline file that it takes
(`NAMED_BY`, `KEYS`, `parse`), a description (`describe`), and the facts that a checkpoint belongs to (`facts`). It has
`load`, which returns the rows as a streaming DataFrame, or `load_table`, which returns them as a table to join with
(`as: table`), or both: `FeedSource` implements the two for a source that Spark lacks. With `GIVEN_COLUMNS` and `given`,
the tests of a pipeline can give its records. The base class and its callers do the rest: `event_time`, `watermark`,
`refresh`, the view of the source's name, checkpoints, the plan.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypedDict

import msgspec

from moldau.client.protocol.access import ClusterAccess
from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.keys import Choice, Interval, Key, Number, Text
from moldau.products.pipelines.core.plan import Facts
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.core.times import DEFAULT_TIMES, SourceTimes

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark import DataFrame, SparkSession, StructType

STREAM, TABLE = "stream", "table"
EVENT_TIME = Text(
    "event_time",
    "A column of type timestamp, which the watermark follows.",
    absent="of a topic, the record's timestamp",
)
WATERMARK = Interval(
    "watermark", "How late a record may arrive before its window is closed.", absent="no record is too late"
)
AS = Choice(
    "as", (STREAM, TABLE), "Whether rows are read as they arrive, or as a [table](sources.md#tables-to-join-with).",
    default=STREAM,
)  # fmt: skip
REFRESH = Interval(
    "refresh", "With `as: table`: how old the table in memory may be.", absent="each micro-batch reads the table"
)
COMMON_KEYS = (EVENT_TIME, WATERMARK, AS, REFRESH)
DEAD_LETTERS_METRIC = "dead_letters"
MOST_PER_BATCH = 1_000_000_000
MAX_RECORDS = Number(
    "max_records_per_batch",
    "How many records a micro-batch has at most, by offsets or rows.",
    number=1_000_000,
    least=1,
    most=MOST_PER_BATCH,
)
MAX_FILES = Number(
    "max_files_per_batch", "How many files a micro-batch has at most.", number=1_000, least=1, most=MOST_PER_BATCH
)
MAX_TABLE_FILES = Number(
    "max_files_per_batch",
    "How many files of the table a micro-batch has at most.",
    least=1,
    most=MOST_PER_BATCH,
    absent="no bound",
)
"""The keys that bound micro-batches, by a number that is known before reading."""


class SpecHead(msgspec.Struct, frozen=True):
    """The parts of the pipeline that a source needs. `access`: to the pipeline's cluster. `directory`: the base of
    relative paths. `checkpoint`: the pipeline's, with those of all its queries."""

    name: str
    access: ClusterAccess
    directory: Path
    checkpoint: Path


class CommonKeys(TypedDict):
    """The values of the keys that every source may have."""

    event_time: str | None
    watermark: str | None
    as_table: bool
    refresh_ms: int | None


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """`event_time`: a column of type timestamp; None: `DEFAULT_EVENT_TIME`. `watermark`: a Spark interval on the event
    time; None: no row is too late. `as_table`: a table to join streams with; `refresh_ms`: its maximum age; None: each
    micro-batch reads it again."""

    NAMED_BY: ClassVar[tuple[Key, ...]]
    """The keys that select this kind; a source has one of them."""
    KEYS: ClassVar[tuple[Key, ...]] = ()
    """The other keys of such a source, besides COMMON_KEYS."""
    DEFAULT_EVENT_TIME: ClassVar[str | None] = None
    GIVEN_COLUMNS: ClassVar[str] = ""
    """The columns of `load`, as names and Spark types, if a pipeline's tests can give records of the source."""

    event_time: str | None = None
    watermark: str | None = None
    as_table: bool = False
    refresh_ms: int | None = None

    @classmethod
    @abstractmethod
    def parse(cls, source: Section, head: SpecHead) -> Source:
        """From the keys of the pipeline file, with `**cls.parse_common(source)`. Raises SpecError."""

    @classmethod
    def parse_common(cls, source: Section) -> CommonKeys:
        as_table = AS.of(source) == TABLE
        if as_table and cls.load_table is Source.load_table:
            source.refuse(AS, "table is not possible here: such a source can only be read as a stream")
        for key in (EVENT_TIME, WATERMARK) if as_table else (REFRESH,):
            if source.has(key):
                source.refuse(key, f"has no meaning for a {'table' if as_table else 'stream'}")
        event_time = EVENT_TIME.if_given(source)
        watermark = source.text(WATERMARK, default="") or None
        if watermark:
            WATERMARK.of(source)
            if event_time is None and cls.DEFAULT_EVENT_TIME is None:
                source.refuse(WATERMARK, "needs `event_time`, a column of type timestamp: rows are late by it")
        return {
            "event_time": event_time,
            "watermark": watermark,
            "as_table": as_table,
            "refresh_ms": REFRESH.of(source) or None,
        }

    @staticmethod
    def parse_limit(source: Section, key: Number) -> int | None:
        """The most records, or files, in a micro-batch; None: the pipeline file has no limit. The limit may change
        while a checkpoint stays. Raises SpecError."""
        if not source.has(key):
            return None
        if source.text(AS, default="") == TABLE:
            source.refuse(key, "has no meaning for a table, which is read whole")
        return key.of(source)

    @abstractmethod
    def describe(self) -> str:
        """The origin of the rows, for people."""

    @abstractmethod
    def facts(self) -> Facts:
        """The facts that decide which rows exist: if one changes, an old checkpoint is invalid."""

    def where(self) -> Mapping[str, str]:
        """The facts about the location of the rows; all facts if none is known to be about it."""
        known = {name: fact for name, fact in self.facts().items() if fact is not None}
        return {name: fact for name, fact in known.items() if name in (*self.NAMED_BY, "table")} or known

    def places(self) -> tuple[str, ...]:
        """The places of the rows, in the form of `Target.places`, where this source would read a row that a target
        writes. () if no target can write such rows."""
        return ()

    def columns(self) -> Sequence[str] | None:
        """The columns of a row, if the pipeline file declares all of them."""
        return None

    def check(self) -> None:
        """Called before Spark starts. Raises MoldauError if the source cannot be read."""

    def load(self, spark: SparkSession, times: SourceTimes = DEFAULT_TIMES) -> DataFrame:
        """The rows as a stream; does not read yet."""
        raise FlowError(f"{self.describe()} can only be read with `as: table`")

    def load_table(self, spark: SparkSession, times: SourceTimes = DEFAULT_TIMES) -> DataFrame:
        """All rows, as a table that is read again each time (see `read_anew`); does not read yet."""
        raise FlowError(f"{self.describe()} can only be read as a stream")

    def given(self, records: Sequence[object], first: int) -> list[dict[str, object]]:
        """The records of a test as rows of GIVEN_COLUMNS, in JSON. `first`: the number of records before them. Raises
        FlowError."""
        raise FlowError(
            f"a test can give no records for {self.describe()}; let it expect rows of what does not read it"
        )

    def beginning_at(self, start: str | None) -> Source:
        """The source for a run that begins at `start`, in the form of the option `startingOffsets`; None: at the start
        in the pipeline file. A source without offsets always begins at its first row."""
        return self

    def without_notes(self) -> Source:
        """The source for a preview, which writes nothing to the pipeline's checkpoint."""
        return self

    def offline(self) -> Source:
        """The source for a test of the pipeline, which reads the rows of `given`."""
        return self

    def rows(self, loaded: DataFrame, counted_as: str) -> DataFrame:
        """The rows of the view over `loaded`. `counted_as`: if the source decodes records, the name of an observed
        metric with the number of a batch's records that do not parse, as `DEAD_LETTERS_METRIC`."""
        return loaded

    def all_facts(self) -> Mapping[str, str | None]:
        read_as = "table" if self.as_table else None
        return {**self.facts(), "event_time": self.event_time, "watermark": self.watermark, "as": read_as}


def read_anew(
    spark: SparkSession, columns: str | StructType, read: Callable[[], Iterator[pa.RecordBatch]]
) -> DataFrame:
    """A table of `columns` (names and Spark types) that calls `read` in a task each time it is read, so a stream that
    is joined with it sees the current rows in every micro-batch. Spark's own tables may list their files or partitions
    only once, at the start of the query."""
    return spark.range(0, 1, 1, 1).mapInArrow(lambda _: read(), columns)
