"""The base class of sources. Each kind is a module of this package.

To add one, write a module there with one subclass of `Source`: the keys of the pipeline that it takes (`NAMED_BY`,
`KEYS`, `parse`), a line for people (`describe`), what a checkpoint of it belongs to (`facts`), and `load`, which gives
the rows as a streaming DataFrame; or `load_table`, which gives them as a table that streams are joined with (`as:
table`); or both: `FeedSource` makes the two for a place that Spark does not know. With `GIVEN_COLUMNS` and `given`, the
tests of a pipeline can give records of it. The rest is made here: `event_time`, `watermark`, `refresh`, the view of the
source's name, checkpoints, the plan.
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
"""The keys that bound micro-batches: by what can be counted before it is read."""


class SpecHead(msgspec.Struct, frozen=True):
    """What a source takes from the pipeline around it. `access`: to the pipeline's cluster. `directory`: where its
    relative paths begin. `checkpoint`: of all queries."""

    name: str
    access: ClusterAccess
    directory: Path
    checkpoint: Path


class CommonKeys(TypedDict):
    """What the keys say that every source may have."""

    event_time: str | None
    watermark: str | None
    as_table: bool
    refresh_ms: int | None


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """`event_time`: a column of type timestamp; None: `DEFAULT_EVENT_TIME`. `watermark`: an interval in Spark's words,
    on the event time; None: nothing is ever too late. `as_table`: streams are joined with all that is there;
    `refresh_ms`: how old that may be; None: each micro-batch reads it anew."""

    NAMED_BY: ClassVar[tuple[Key, ...]]
    """The keys of which one asks for this kind."""
    KEYS: ClassVar[tuple[Key, ...]] = ()
    """What else may stand in such a source, beside COMMON_KEYS."""
    DEFAULT_EVENT_TIME: ClassVar[str | None] = None
    GIVEN_COLUMNS: ClassVar[str] = ""
    """What `load` gives, as names and Spark types: for a source whose records a pipeline's tests can give."""

    event_time: str | None = None
    watermark: str | None = None
    as_table: bool = False
    refresh_ms: int | None = None

    @classmethod
    @abstractmethod
    def parse(cls, source: Section, head: SpecHead) -> Source:
        """What the pipeline file says, with `**cls.parse_common(source)`. Raises SpecError."""

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
        """How many records, or files, a micro-batch has at most; None: the pipeline file does not say. A checkpoint
        takes any. Raises SpecError."""
        if not source.has(key):
            return None
        if source.text(AS, default="") == TABLE:
            source.refuse(key, "has no meaning for a table, which is read whole")
        return key.of(source)

    @abstractmethod
    def describe(self) -> str:
        """Where the rows come from, for people."""

    @abstractmethod
    def facts(self) -> Facts:
        """What decides which rows there are: with any of it changed, an old checkpoint has no meaning."""

    def where(self) -> Mapping[str, str]:
        """The facts that say where the rows are; all facts where none is known to say that."""
        known = {name: fact for name, fact in self.facts().items() if fact is not None}
        return {name: fact for name, fact in known.items() if name in (*self.NAMED_BY, "table")} or known

    def places(self) -> tuple[str, ...]:
        """Where the rows are, in the words of `Target.places`, where a row that is written there would be read; ()
        where no target of that kind can make one."""
        return ()

    def columns(self) -> Sequence[str] | None:
        """The columns of a row, where the pipeline file itself declares all of them."""
        return None

    def check(self) -> None:
        """Called before Spark starts. Raises MoldauError where the source cannot be read."""

    def load(self, spark: SparkSession, times: SourceTimes = DEFAULT_TIMES) -> DataFrame:
        """The rows as they come, as a stream; nothing is read yet."""
        raise FlowError(f"{self.describe()} can only be read with `as: table`")

    def load_table(self, spark: SparkSession, times: SourceTimes = DEFAULT_TIMES) -> DataFrame:
        """All rows that are there, as a table that is read anew each time (see `read_anew`); nothing is read yet."""
        raise FlowError(f"{self.describe()} can only be read as a stream")

    def given(self, records: Sequence[object], first: int) -> list[dict[str, object]]:
        """The rows of GIVEN_COLUMNS, as JSON, for records of a test. `first`: how many there were before. Raises
        FlowError."""
        raise FlowError(
            f"a test can give no records for {self.describe()}; let it expect rows of what does not read it"
        )

    def beginning_at(self, start: str | None) -> Source:
        """The source as a run reads it that begins at `start`, as the option `startingOffsets` takes it; None: where
        the pipeline file says. What has no offsets always begins at its first row."""
        return self

    def without_notes(self) -> Source:
        """In whose place a look reads, which notes nothing in the checkpoint of the pipeline."""
        return self

    def offline(self) -> Source:
        """In whose place a test of the pipeline reads what `given` makes."""
        return self

    def rows(self, loaded: DataFrame, counted_as: str) -> DataFrame:
        """What the view shows of `loaded`. `counted_as`: the name of a metric in which every batch tells how many of
        its records do not parse, as `DEAD_LETTERS_METRIC`, where the source decodes records."""
        return loaded

    def all_facts(self) -> Mapping[str, str | None]:
        read_as = "table" if self.as_table else None
        return {**self.facts(), "event_time": self.event_time, "watermark": self.watermark, "as": read_as}


def read_anew(
    spark: SparkSession, columns: str | StructType, read: Callable[[], Iterator[pa.RecordBatch]]
) -> DataFrame:
    """A table of `columns` (names and Spark types) that calls `read` in a task whenever it is read: so a stream that is
    joined with it finds in every micro-batch what is there then. Spark itself may list a table's files or partitions
    once, at the start of the query."""
    return spark.range(0, 1, 1, 1).mapInArrow(lambda _: read(), columns)
