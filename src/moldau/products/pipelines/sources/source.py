"""What a pipeline needs of a place its rows come from. Each kind of source is a module beside this one.

To add one, write a module there with one subclass of `Source`: the keys of the page that it takes (`NAMED_BY`, `KEYS`,
`parse`), a line for people (`describe`), what a checkpoint of it belongs to (`facts`), and `load`, which gives the rows
as a DataFrame: a streaming one, or with `is_stream` false a table that streams are joined with. With `GIVEN_COLUMNS`
and `given`, the tests of a page can give records of it. The rest is made here: `event_time`, `watermark`, the view of
the source's name, checkpoints, the plan.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec

from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.plan import Facts
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.core.times import DEFAULT_TIMES, SourceTimes

if TYPE_CHECKING:
    from moldau.spark import DataFrame, SparkSession

COMMON_KEYS = ("event_time", "watermark")
DEAD_LETTERS_METRIC = "dead_letters"


class PageHead(msgspec.Struct, frozen=True):
    """What a source takes from the page around it. `directory`: where its relative paths begin."""

    name: str
    bootstrap_servers: str
    directory: Path


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """`event_time`: a column of type timestamp; None: `DEFAULT_EVENT_TIME`. `watermark`: an interval in Spark's words,
    on the event time; None: nothing is ever too late."""

    NAMED_BY: ClassVar[tuple[str, ...]]
    """The keys of which one asks for this kind."""
    KEYS: ClassVar[tuple[str, ...]] = ()
    """What else may stand in such a source, beside COMMON_KEYS."""
    DEFAULT_EVENT_TIME: ClassVar[str | None] = None
    GIVEN_COLUMNS: ClassVar[str] = ""
    """What `load` gives, as names and Spark types: for a source whose records a page's tests can give."""

    event_time: str | None = None
    watermark: str | None = None

    @classmethod
    @abstractmethod
    def parse(cls, source: Section, head: PageHead) -> Source:
        """What the page says, with `**cls.parse_common(source)`. Raises PageError."""

    @staticmethod
    def parse_common(source: Section) -> dict[str, str | None]:
        watermark = source.text("watermark", default="") or None
        if watermark:
            source.interval_ms("watermark", 0)
        return {"event_time": source.text("event_time", default="") or None, "watermark": watermark}

    @abstractmethod
    def describe(self) -> str:
        """Where the rows come from, for people."""

    @abstractmethod
    def facts(self) -> Facts:
        """What decides which rows there are: with any of it changed, an old checkpoint has no meaning."""

    @property
    def is_stream(self) -> bool:
        return True

    def check(self) -> None:
        """Called before Spark starts. Raises MoldauError where the source cannot be read."""

    @abstractmethod
    def load(self, spark: SparkSession, times: SourceTimes = DEFAULT_TIMES) -> DataFrame:
        """The rows as they are there; nothing is read yet."""

    def given(self, records: Sequence[object], first: int) -> list[dict[str, object]]:
        """The rows of GIVEN_COLUMNS, as JSON, for records of a test. `first`: how many there were before. Raises
        FlowError."""
        raise FlowError(
            f"a test can give no records for {self.describe()}; let it expect rows of what does not read it"
        )

    def rows(self, loaded: DataFrame, *, counted_as: str | None = None) -> DataFrame:
        """What the view shows of `loaded`. `counted_as`: the name of a metric in which every batch tells how many of
        its records do not parse, as `DEAD_LETTERS_METRIC`."""
        return loaded

    def all_facts(self) -> Mapping[str, str | None]:
        return {**self.facts(), "event_time": self.event_time, "watermark": self.watermark}
