"""The data generator: random rows of given columns, for tests, demonstrations and measurements.

A row depends on `seed` and its number alone, so every run gives the same rows. `limit` ends it. With several tasks, a
task has every n-th row, and its share of `rows.per.second`. Delivery: exactly once.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from moldau.connect.configuration import ConfigError, Importance, Kind, Setting, in_range, parse, wrong
from moldau.connect.contract.ddl import parse_ddl

DEFAULT_COLUMNS: Final = "id BIGINT, name STRING, amount DOUBLE, at TIMESTAMP"
LARGEST_SEED: Final = (1 << 63) - 1
ROWS_OF_A_BATCH: Final = 10_000

_MASK: Final = (1 << 64) - 1
_STEP: Final = 0x9E3779B97F4A7C15
"""The step of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014)."""
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_FIRST_MOMENT: Final = dt.datetime(2024, 1, 1)
_SECONDS: Final = 366 * 86_400
"""Times are in 2024."""
_LARGEST: Final[tuple[tuple[type[DataType], int], ...]] = (
    (ByteType, 1 << 7),
    (ShortType, 1 << 15),
    (IntegerType, 1_000_000),
    (LongType, 1_000_000_000),
)

Make = Callable[[int], Any]
"""A value of a random number of 64 bits."""


def _check_columns(name: str, value: object) -> None:
    try:
        _row_maker(parse_ddl(str(value)))
    except ValueError as error:
        raise ValueError(wrong(name, value, str(error))) from None


class DataGenerator(DataSource):
    """`datagen`."""

    settings: ClassVar[tuple[Setting, ...]] = (
        Setting("columns", Kind.STRING, DEFAULT_COLUMNS, documentation="The columns, as DDL.", check=_check_columns),
        Setting("key.columns", Kind.LIST, (), documentation="The columns that make the key of a record."),
        Setting(
            "seed",
            Kind.LONG,
            0,
            Importance.LOW,
            "Chooses the rows. The same seed gives the same rows.",
            check=in_range(0, LARGEST_SEED),
        ),
        Setting(
            "rows.per.second",
            Kind.DOUBLE,
            10.0,
            documentation="Rows in a second, of all tasks together; 0 is as fast as possible.",
            check=in_range(0),
        ),
        Setting(
            "limit",
            Kind.LONG,
            -1,
            documentation="The number of rows, of all tasks together; -1 is without end.",
            check=in_range(-1),
        ),
        Setting("part", Kind.INT, 0, Importance.LOW, "The part of this task: set by the split.", check=in_range(0)),
        Setting("parts", Kind.INT, 1, Importance.LOW, "The number of parts: set by the split.", check=in_range(1)),
    )

    @classmethod
    def name(cls) -> str:
        return "datagen"

    @staticmethod
    def split(config: Mapping[str, str], tasks: int) -> list[dict[str, str]]:
        """Each task has every n-th row."""
        return [{**config, "part": str(part), "parts": str(tasks)} for part in range(tasks)]

    @property
    def key_columns(self) -> tuple[str, ...]:
        found: Any = self._values()["key.columns"]
        return tuple(found)

    def schema(self) -> StructType:
        """Raises ConfigError."""
        schema = parse_ddl(str(self._values()["columns"]))
        for name in self.key_columns:
            if name not in schema.names:
                sentence = wrong("key.columns", name, f"The columns are {', '.join(schema.names)}")
                raise ConfigError({"key.columns": (sentence,)})
        return schema

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        values: Any = self._values()
        part, parts, limit = values["part"], values["parts"], values["limit"]
        most = None if limit < 0 else max(0, -(-(limit - part) // parts))
        return GeneratorReader(schema, values["seed"], (part, parts), values["rows.per.second"] / parts, most)

    def _values(self) -> dict[str, object]:
        return parse(self.settings, dict(self.options))


class RowRange(InputPartition):
    """Rows of one part: `first` to `end`, counted in the part."""

    def __init__(self, first: int, end: int) -> None:
        self.first = first
        self.end = end


class GeneratorReader(DataSourceStreamReader):
    """The offset is {"rows": n}: the rows of the part that have been given."""

    def __init__(
        self, schema: StructType, seed: int, part: tuple[int, int], rows_per_second: float, most: int | None
    ) -> None:
        self._schema = schema
        self._seed = seed
        self._part, self._parts = part
        self._rate = rows_per_second
        self._most = most
        self._began: tuple[float, int] | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"rows": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(ROWS_OF_A_BATCH)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        if self._began is None:
            self._began = (time.monotonic(), start["rows"])
        began_s, first = self._began
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else ROWS_OF_A_BATCH
        if isinstance(limit, ReadAllAvailable) and self._most is not None and not self._rate:
            most = self._most
        end = start["rows"] + most
        if self._rate:
            end = min(end, max(start["rows"], first + int((time.monotonic() - began_s) * self._rate)))
        return {"rows": end if self._most is None else max(start["rows"], min(end, self._most))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [RowRange(start["rows"], end["rows"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        # Spark plans an empty partition of another class if nothing is new
        if isinstance(partition, RowRange):
            make = _row_maker(self._schema)
            for row in range(partition.first, partition.end):
                yield make(_mixed(self._seed, row * self._parts + self._part))


def _mixed(number: int, more: int) -> int:
    """64 random bits of two numbers, by SplitMix64."""
    found = (number + (more + 1) * _STEP) & _MASK
    found = ((found ^ (found >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    found = ((found ^ (found >> 27)) * 0x94D049BB133111EB) & _MASK
    return found ^ (found >> 31)


def _row_maker(schema: StructType) -> Callable[[int], tuple[Any, ...]]:
    """Raises ValueError for a type that has no random values."""
    makers = [_maker(one.dataType) for one in schema.fields]
    return lambda bits: tuple([make(_mixed(bits, place)) for place, make in enumerate(makers)])


def _maker(kind: DataType) -> Make:
    for spark, end in _LARGEST:
        if isinstance(kind, spark):
            return lambda bits: bits % end
    if isinstance(kind, StructType):
        return _row_maker(kind)
    if isinstance(kind, ArrayType):
        element = _maker(kind.elementType)
        return lambda bits: [element(_mixed(bits, place)) for place in range(bits % 4)]
    if isinstance(kind, MapType):
        key, value = _maker(kind.keyType), _maker(kind.valueType)
        return lambda bits: {key(_mixed(bits, 2 * n)): value(_mixed(bits, 2 * n + 1)) for n in range(bits % 4)}
    if isinstance(kind, DecimalType):
        end = min(10**kind.precision, 1 << 62)
        scale = kind.scale
        return lambda bits: Decimal(bits % end).scaleb(-scale)
    found = _PLAIN.get(type(kind))
    if found is None:
        raise ValueError(f"the generator has no values for {kind.simpleString()}")
    return found


def _text(bits: int) -> str:
    return "".join(_LETTERS[bits >> shift & 31 if bits >> shift & 31 < 26 else 0] for shift in range(0, 40, 5))


def _moment(bits: int) -> dt.datetime:
    return _FIRST_MOMENT + dt.timedelta(seconds=bits % _SECONDS, milliseconds=bits >> 40 & 511)


_PLAIN: Final[Mapping[type[DataType], Make]] = {
    BooleanType: lambda bits: bits & 1 == 1,
    FloatType: lambda bits: bits % 1_000 / 8,
    DoubleType: lambda bits: bits % 100_000 / 100,
    StringType: _text,
    BinaryType: lambda bits: bits.to_bytes(8, "big"),
    DateType: lambda bits: _moment(bits).date(),
    TimestampType: lambda bits: _moment(bits).replace(tzinfo=dt.UTC),
    TimestampNTZType: _moment,
}
