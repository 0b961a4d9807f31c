"""The base of sources whose records are decoded. A record that cannot be decoded is a dead letter.

The query counts such records in each batch, and keeps them as dead letters (`running.dead_letters`). With `bad_records:
stop`, the first one ends the query with an error that has its address.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, TypedDict

from moldau.products.pipelines.core.column_types import TIMES, double_name
from moldau.products.pipelines.core.commit_metadata import DEAD_LETTERS_SUFFIX, PIPELINE_HEADER, REASON_HEADER
from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.keys import Choice, TopicName
from moldau.products.pipelines.core.plan import Facts
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.core.statement import literal, quoted
from moldau.products.pipelines.core.times import SourceTimes
from moldau.products.pipelines.formats import parse_format
from moldau.products.pipelines.formats.format import CORRUPT_COLUMN, DOES_NOT_PARSE, Format
from moldau.products.pipelines.sources.source import AS, DEAD_LETTERS_METRIC, EVENT_TIME, TABLE, Source, SpecHead

if TYPE_CHECKING:
    from moldau.products.pipelines.checkpoints.checkpoint import BatchSpan
    from moldau.spark import DataFrame, SparkSession

DEAD_LETTERS, STOP = "dead_letters", "stop"
BAD_RECORDS = Choice(
    "bad_records",
    (DEAD_LETTERS, STOP),
    "Whether records that do not parse go to a topic, or the first one ends the pipeline with its address.",
    default=DEAD_LETTERS,
)
DEAD_LETTERS_TOPIC = TopicName(
    "dead_letters",
    "The topic of the [dead letters](operating.md#dead-letters).",
    absent=f"`<name>{DEAD_LETTERS_SUFFIX}`",
)


class Decoded(TypedDict):
    """The fields of a RecordSource about decoding."""

    decoder: Format | None
    stops: bool
    dead_letters: str | None


class RecordSource(Source, frozen=True, kw_only=True):
    """`decoder`: None if a record already is a row. `stops`: a record that does not decode ends the query.
    `dead_letters`: the topic for such records; None: they are not kept."""

    RECORD_COLUMNS: ClassVar[Mapping[str, str]]
    """The columns that every row has besides those of the schema, as SQL over `load`."""
    ADDRESS: ClassVar[Mapping[str, str]]
    """The origin of a record: headers of its dead letter, with SQL over `load`."""

    format: str
    decoder: Format | None = None
    stops: bool = False
    dead_letters: str | None = None

    @staticmethod
    def parse_format(source: Section, record_format: str, head: SpecHead) -> Decoded:
        """The keys about the format. Raises SpecError."""
        decoder = parse_format(source, record_format, head.directory)
        if decoder is None:
            for key in (DEAD_LETTERS_TOPIC, BAD_RECORDS):
                if source.has(key):
                    source.refuse(key, f"has no meaning for the format {record_format}")
            return Decoded(decoder=None, stops=False, dead_letters=None)
        stops = BAD_RECORDS.of(source) == STOP
        is_table = source.text(AS, default="") == TABLE
        if source.has(DEAD_LETTERS_TOPIC) and (stops or is_table):
            source.refuse(
                DEAD_LETTERS_TOPIC, f"has no meaning {'with `bad_records: stop`' if stops else 'for a table'}"
            )
        topic = DEAD_LETTERS_TOPIC.of(source) if source.has(DEAD_LETTERS_TOPIC) else head.name + DEAD_LETTERS_SUFFIX
        return Decoded(decoder=decoder, stops=stops, dead_letters=None if stops or is_table else topic)

    @classmethod
    def check_event_time(cls, source: Section, decoder: Format | None, event_time: str | None) -> None:
        """Checks the column as far as the pipeline file declares columns; for a format with its schema elsewhere,
        `plan` checks it. Raises SpecError."""
        columns = None if decoder is None else decoder.columns()
        if event_time is None or columns is None or event_time == cls.DEFAULT_EVENT_TIME:
            return
        kind = columns.get(event_time)
        if kind in TIMES:
            return
        times = [name for name, one in columns.items() if one in TIMES]
        hint = f"{', '.join(f'`{name}`' for name in times)} {'is' if len(times) == 1 else 'are'} of type timestamp"
        what = f"names `{event_time}`, which {'the schema lacks' if kind is None else f'is of type {kind}'}"
        advice = hint if times else "declare a column `at timestamp` in the schema"
        source.refuse(EVENT_TIME, f"{what}: rows are late by a time; {advice}")

    def columns(self) -> Sequence[str] | None:
        declared = None if self.decoder is None else self.decoder.columns()
        return None if declared is None else [*declared, *self.RECORD_COLUMNS]

    @abstractmethod
    def read_again(self, spark: SparkSession, span: BatchSpan, times: SourceTimes) -> DataFrame | None:
        """The records of finished batches, in the form of `load`; None if they have none."""

    def rows(self, loaded: DataFrame, counted_as: str) -> DataFrame:
        record = [f"{sql} as {name}" for name, sql in self.RECORD_COLUMNS.items()]
        if self.decoder is None:
            return loaded.selectExpr(*self.plain_columns(loaded), *record)
        frame = self.parsed(self.decoder, loaded, counted_as)
        fields = [name for name in frame.select("_value.*").columns if name != CORRUPT_COLUMN]
        _refuse_double_fields(fields)
        return frame.selectExpr(*(f"_value.{quoted(name)}" for name in fields), *record)

    def parsed(self, decoder: Format, loaded: DataFrame, counted_as: str) -> DataFrame:
        """The records that parse, in the form of `Format.decoded`. `counted_as`: see `rows`."""
        from moldau.spark import expression  # a pipeline file is checked without Spark

        # Spark moves a filter below computed columns, and then computes them twice, but moves none below a metric.
        metric = expression(f"count_if({DOES_NOT_PARSE}) as {DEAD_LETTERS_METRIC}")
        frame = decoder.decoded(loaded).observe(counted_as, metric)
        if self.stops:
            address = ", ".join(f"'{name.removeprefix('moldau.')} ', {sql}, ', '" for name, sql in self.ADDRESS.items())
            error = f"raise_error(concat({address}, {decoder.reason()}))"
            return frame.where(f"if({DOES_NOT_PARSE}, cast({error} as boolean), true)")
        return frame.where(f"not ({DOES_NOT_PARSE})")

    @abstractmethod
    def plain_columns(self, loaded: DataFrame) -> Sequence[str]:
        """The row of a format without a decoder, as SQL over `load`."""

    def format_facts(self) -> Facts:
        """The part of `facts` that decides how records become rows."""
        return {"format": self.format, **(self.decoder.facts() if self.decoder is not None else {})}

    def letters(self, spark: SparkSession, span: BatchSpan, times: SourceTimes, pipeline: str) -> DataFrame | None:
        """The records of finished batches that do not decode, in the form of their dead-letter topic, which several
        pipelines may share. `pipeline`: for a header."""
        records = self.read_again(spark, span, times)
        if records is None or self.decoder is None:
            return None
        found = self.decoder.decoded(records).where(DOES_NOT_PARSE)
        ours = {REASON_HEADER: self.decoder.reason(), **self.ADDRESS, PIPELINE_HEADER: literal(pipeline)}
        structs = [
            f"named_struct('key', {literal(name)}, 'value', cast(cast({sql} as string) as binary))"
            for name, sql in ours.items()
        ]
        none = "cast(array() as array<struct<key: string, value: binary>>)"
        theirs = f"coalesce(headers, {none})" if "headers" in records.columns else none
        key = "key" if "key" in records.columns else "cast(null as binary)"
        headers = f"concat({theirs}, array({', '.join(structs)}))"
        return found.selectExpr(f"{key} as key", "cast(value as binary) as value", f"{headers} as headers")


def _refuse_double_fields(fields: Iterable[str]) -> None:
    """Raises FlowError if SQL cannot tell two fields apart."""
    double = double_name(fields)
    if double is not None:
        raise FlowError(
            f"the schema has {double[0]!r} and {double[1]!r}, which SQL does not tell apart: read the records with a "
            "schema that leaves one out"
        )
