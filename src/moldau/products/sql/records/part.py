"""The base class for the key or the value of a relation's records. A subclass is one format.

A part is decoded in the tasks, over whole columns: in SQL, or by a function over Arrow arrays. It is encoded by SQL
alone, or by such a function after it; so the rows of INSERT can be encoded without a task.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from moldau.products.pipelines.core.statement import quoted
from moldau.products.pipelines.formats.format import CORRUPT_COLUMN
from moldau.products.sql.language.statements import Column

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark import DataFrame

KEY, VALUE = "key", "value"


class Encoding(msgspec.Struct, frozen=True):
    """`sql`: the bytes of a part; with `function`, the values from which it makes them."""

    sql: str
    function: Callable[[pa.Array], pa.Array] | None = None


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """`name`: KEY or VALUE, also the column of its bytes. `columns`: in their order; at least one."""

    name: str
    columns: tuple[Column, ...]

    def check(self) -> None:
        """Raises FlowError if the format cannot have these columns."""

    @abstractmethod
    def decoded(self, records: DataFrame, into: str) -> DataFrame:
        """Adds the column `into`: a struct of the columns, and CORRUPT_COLUMN, which is not null if the bytes could not
        be decoded. May drop a column that only this method reads."""

    @abstractmethod
    def reason(self, into: str) -> str:
        """SQL over `decoded`: why the bytes could not be decoded."""

    @abstractmethod
    def encoded(self, rows: DataFrame, struct: str) -> Encoding:
        """`rows` has the struct `struct` of the columns."""

    def is_corrupt(self, into: str) -> str:
        """SQL over `decoded`. A part that is null is not corrupt."""
        return f"({into}.{CORRUPT_COLUMN} is not null or ({into} is null and {self.name} is not null))"

    def is_absent(self, into: str) -> str:
        """SQL over `decoded`: whether the part is null."""
        return f"{self.name} is null"

    def field(self, struct: str) -> str:
        """The value of the only column."""
        return f"{struct}.{quoted(self.columns[0].name.text)}"

    def all_null(self, struct: str) -> str:
        """SQL: whether all columns are null."""
        return " and ".join(f"{struct}.{quoted(column.name.text)} is null" for column in self.columns)
