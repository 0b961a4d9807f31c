"""Records as rows: the key and the value each in its format, the headers, and the time of the row."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from moldau.products.pipelines.core.keys import Key
from moldau.products.pipelines.core.plan import Facts
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.core.statement import literal, quoted
from moldau.products.pipelines.formats.format import CORRUPT_COLUMN, Format
from moldau.products.pipelines.targets.changes import DELETED
from moldau.products.sql.catalog.catalog import Relation
from moldau.products.sql.language.statements import Column, Role
from moldau.products.sql.records.layout import columns_of, ddl, is_table, time_column, time_of
from moldau.products.sql.records.part import Part

if TYPE_CHECKING:
    from moldau.spark import DataFrame

TIME = "_moldau_time"
"""Field of a decoded record besides the declared columns and DELETED: the time of the row."""
_KEY, _VALUE = "_moldau_key", "_moldau_value"
_NO_KEY = "the record has no key, which is that of the table's row"


class RecordFormat(Format, frozen=True, kw_only=True):
    """`key`, `value`: None if no column is there."""

    NAMED_BY = "relation"
    KEYS: ClassVar[tuple[Key, ...]] = ()

    relation: Relation
    key: Part | None
    value: Part | None

    @classmethod
    def parse(cls, section: Section, directory: Path) -> RecordFormat:
        section.refuse(None, "a relation is declared in SQL")

    def facts(self) -> Facts:
        storage = self.relation.storage
        roles = [f"{column.role.value} {ddl([column])} {column.header or ''}" for column in columns_of(self.relation)]
        return {
            "kind": self.relation.kind.value,
            "key_format": storage.key_format if self.key is not None else None,
            "delimiter": storage.delimiter if "delimited" in (storage.key_format, storage.value_format) else None,
            "columns": ", ".join(roles),
            "timestamp": storage.timestamp,
            "timestamp_format": storage.timestamp_format,
        }

    def columns(self) -> Mapping[str, str]:
        return {column.name.text: column.type for column in columns_of(self.relation)}

    def decoded(self, records: DataFrame) -> DataFrame:
        """The declared columns, TIME and DELETED. The key of a deleted row has values; so has the headers."""
        found = records
        for part, into in ((self.key, _KEY), (self.value, _VALUE)):
            if part is not None:
                found = part.decoded(found, into)
        columns = [f"{self._sql(column)} as {quoted(column.name.text)}" for column in columns_of(self.relation)]
        fields = [
            *columns,
            f"{self._time()} as {TIME}",
            f"{self._is_null()} as {DELETED}",
            f"{self._why_corrupt()} as {CORRUPT_COLUMN}",
        ]
        return found.selectExpr("*", f"struct({', '.join(fields)}) as _value").drop(_KEY, _VALUE)

    def reason(self) -> str:
        return f"_value.{CORRUPT_COLUMN}"

    def _sql(self, column: Column) -> str:
        """The value of a column, over the decoded parts."""
        name = quoted(column.name.text)
        if column.role is Role.VALUE:
            return f"{_VALUE}.{name}"
        if column.role is Role.HEADERS:
            return f"coalesce(headers, cast(array() as {column.type}))"
        if column.role is Role.HEADER:
            return f"try_element_at(filter(headers, one -> one.key = {literal(column.header or '')}), -1).value"
        return f"{_KEY}.{name}"

    def _is_null(self) -> str:
        return "value is null" if self.value is None else self.value.is_absent(_VALUE)

    def _time(self) -> str:
        column = time_column(self.relation)
        if column is None:
            return "timestamp"
        time = time_of(self.relation, column, self._sql(column))
        return f"if({self._is_null()}, timestamp, {time})" if column.role is Role.VALUE else time

    def _why_corrupt(self) -> str:
        cases = []
        for part, into in ((self.key, _KEY), (self.value, _VALUE)):
            if part is not None:
                cases.append(f"when {part.is_corrupt(into)} then {part.reason(into)}")
        if is_table(self.relation) and self.key is not None:
            cases.append(f"when {_KEY} is null or ({self.key.all_null(_KEY)}) then {literal(_NO_KEY)}")
        column = time_column(self.relation)
        if column is not None:
            why = f"the column {column.name.text} has no time"
            cases.append(f"when {self._time()} is null then {literal(why)}")
        return f"case {' '.join(cases)} end" if cases else "cast(null as string)"
