"""The base of sources that Spark lacks: a feed (`spark.source.feeds`), read as a stream or a table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.keys import Choice
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.core.times import DEFAULT_TIMES, SourceTimes
from moldau.products.pipelines.sources.source import Source, read_anew

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark import DataFrame, SparkSession
    from moldau.spark.source.feeds import Feed

ROWS_A_BATCH = 10_000

REFUSE, SKIP = "refuse", "skip"
REMOVED_ROWS = Choice(
    "removed_rows",
    (REFUSE, SKIP),
    "Whether a version that removes rows ends the pipeline or is skipped.",
    default=REFUSE,
)
FILES = "files"
"""In a place of a table with versions: how many files of that version are read."""


def parse_removed_rows(source: Section, *, as_table: bool) -> str:
    """The reaction to a version that removes rows: REFUSE or SKIP. Raises SpecError."""
    if as_table and source.has(REMOVED_ROWS):
        source.refuse(REMOVED_ROWS, "has no meaning for a table, which is as its newest version says")
    return REMOVED_ROWS.of(source)


def within_table(place: Mapping[str, Any], read: int, most: int | None, count: Callable[[], int]) -> Mapping[str, Any]:
    """The end of a batch within the initial table, which ends at `place`. `read`: the number of its files that are
    read, of `count`. `most`: per batch; None: no bound."""
    return place if most is None or read + most >= count() else {**place, FILES: read + most}


def last_within(added: Iterable[tuple[int, int]], most: int) -> int | None:
    """The last version for which all versions up to it add at most `most` files. At least the first version, because
    the rows of a version belong together. `added`: the versions in order, each with its number of added files. None if
    empty."""
    count, last = 0, None
    for version, files in added:
        count += files
        if last is not None and count > most:
            break
        last = version
    return last


def spark_type(kind: pa.DataType) -> pa.DataType:
    """Spark's form of the type: without Arrow's large types, dictionaries, unsigned integers, half floats and
    fixed-length bytes; with times in microseconds, and UUIDs as text."""
    import pyarrow as pa

    types = pa.types
    if _is_uuid(kind):
        return pa.string()
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind) or types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_float16(kind):
        return pa.float32()
    if types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if types.is_time(kind):
        return pa.time64("ns")  # Spark takes no other unit, whatever precision its type has
    if types.is_date(kind):
        return pa.date32()
    if types.is_dictionary(kind):
        return spark_type(kind.value_type)
    if types.is_unsigned_integer(kind):
        return {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20)}[kind.bit_width]
    if types.is_large_list(kind) or types.is_list(kind):
        element = kind.value_field
        return pa.list_(pa.field(element.name, spark_type(element.type), element.nullable))
    if types.is_map(kind):
        value = pa.field("value", spark_type(kind.item_type), kind.item_field.nullable)
        return pa.map_(spark_type(kind.key_type), value)
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, spark_type(field.type), field.nullable) for field in kind])
    return kind


def as_spark_has(rows: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """`columns`: the columns of the rows, with the types that `spark_type` gives."""
    import pyarrow as pa

    found = [with_texts_of_uuids(column) for column in rows.columns]
    return pa.RecordBatch.from_arrays(found, names=rows.schema.names).cast(columns)


def with_texts_of_uuids(column: pa.Array) -> pa.Array:
    """The column, with all UUIDs in it as texts."""
    from moldau.columnar.nested import rebuilt

    return rebuilt(column, _is_uuid, _texts_of_uuids)


def _is_uuid(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return isinstance(kind, pa.UuidType)


def _texts_of_uuids(column: pa.Array) -> pa.Array:
    import pyarrow as pa

    return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())


def check_types(place: str, columns: pa.Schema) -> None:
    """`place`: the owner of the columns, in words. Raises FlowError for a column of a type that Spark lacks."""
    from moldau.spark import lacks_type  # a pipeline file is checked without Spark

    for column in columns:
        if lacks_type(column.type):
            raise FlowError(
                f"the column {column.name!r} of {place} has the type {column.type}, which Spark lacks: leave it out, "
                "or store it with another type, such as a text"
            )


class FeedSource(Source, frozen=True, kw_only=True):
    def check(self) -> None:
        self.feed()

    def load(self, spark: SparkSession, times: SourceTimes = DEFAULT_TIMES) -> DataFrame:
        from moldau.spark.source.feeds import stream_of  # a pipeline file is checked without Spark

        feed = self.feed(times)
        check_types(self.describe(), feed.columns)
        return stream_of(spark, feed)

    def load_table(self, spark: SparkSession, times: SourceTimes = DEFAULT_TIMES) -> DataFrame:
        from moldau.spark.source.feeds import columns_of, read_whole

        feed = self.feed(times)
        check_types(self.describe(), feed.columns)
        return read_anew(spark, columns_of(feed), partial(read_whole, feed))

    @abstractmethod
    def feed(self, times: SourceTimes = DEFAULT_TIMES) -> Feed:
        """With the current columns of the table or files. Raises MoldauError if they cannot be read."""
