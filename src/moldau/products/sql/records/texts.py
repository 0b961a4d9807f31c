"""The formats JSON and DELIMITED.

JSON is an object of the columns; a key of one column is the bare value, as in ksqlDB. DELIMITED is a line of CSV.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.statement import literal, quoted
from moldau.products.pipelines.formats.format import CORRUPT_COLUMN
from moldau.products.pipelines.formats.json_text import SIX_DIGITS, json_of_column
from moldau.products.pipelines.formats.text import JsonFormat, parse_call
from moldau.products.sql.records.layout import ddl
from moldau.products.sql.records.part import KEY, VALUE, Encoding, Part

if TYPE_CHECKING:
    from moldau.spark import DataFrame

_BARE = "v"
_NULL = "\u0001null"
"""What Spark's parser makes of a field without text or quotes; `""` is an empty text."""
_NESTED = ("array", "map", "struct", "binary", "variant")


class JsonPart(Part, frozen=True, kw_only=True):
    @property
    def format(self) -> JsonFormat:
        return JsonFormat(schema=ddl(self.columns))

    @property
    def is_bare(self) -> bool:
        return self.name == KEY and len(self.columns) == 1

    def decoded(self, records: DataFrame, into: str) -> DataFrame:
        if self.is_bare:
            wrapped = f"""concat('{{"{_BARE}":', cast({self.name} as string), '}}')"""
            found = parse_call("from_json", f"{_BARE} {self.columns[0].type}", {}, wrapped)
            value = f"{found}.{_BARE} as {quoted(self.columns[0].name.text)}"
            # the text may close the object around it
            is_corrupt = f"{found}.{CORRUPT_COLUMN} is not null or try_parse_json(cast({self.name} as string)) is null"
            text = f"if({self.name} is not null and ({is_corrupt}), '', null) as {CORRUPT_COLUMN}"
            return records.selectExpr("*", f"struct({value}, {text}) as {into}")
        if self.name == VALUE:
            return self.format.decoded(records).withColumnRenamed("_value", into)
        return records.selectExpr("*", f"{parse_call('from_json', self.format.schema, {}, self.name)} as {into}")

    def is_absent(self, into: str) -> str:
        # the tasks that decode a value leave out its bytes (`Decoding`)
        return f"({self.name} is null and {into} is null)"

    def reason(self, into: str) -> str:
        return (
            f"if(try_parse_json(cast({self.name} as string)) is null, 'the {self.name} is no JSON', "
            f"{literal(f'the JSON of the {self.name} does not fit the columns: {ddl(self.columns)}')})"
        )

    def encoded(self, rows: DataFrame, struct: str) -> Encoding:
        text = json_of_column(rows, struct, with_nulls=True)
        if self.is_bare:
            # without the object around it: {"name":...}
            before = f"length(to_json(named_struct({literal(self.columns[0].name.text)}, 1))) - 2"
            text = f"substr({text}, {before} + 1, length({text}) - 1 - ({before}))"
        if self.name == KEY:
            text = f"if({self.all_null(struct)}, null, {text})"
        return Encoding(f"cast({text} as binary)")


class DelimitedPart(Part, frozen=True, kw_only=True):
    """`delimiter`: one character, or SPACE or TAB."""

    delimiter: str = ","

    def check(self) -> None:
        for column in self.columns:
            if column.type.startswith(_NESTED):
                raise FlowError(
                    f"the format DELIMITED has no text for {column.name.text}, which is {column.type}: use JSON for "
                    f"the {self.name}"
                )

    def decoded(self, records: DataFrame, into: str) -> DataFrame:
        call = parse_call("from_csv", ddl(self.columns), {**self._options(), "nullValue": _NULL}, self.name)
        return records.selectExpr("*", f"if({self.name} is null, null, {call}) as {into}")

    def reason(self, into: str) -> str:
        return literal(f"the line of the {self.name} does not fit the columns: {ddl(self.columns)}")

    def encoded(self, rows: DataFrame, struct: str) -> Encoding:
        options = {**self._options(), **SIX_DIGITS}
        texts = ", ".join(f"{literal(name)}, {literal(text)}" for name, text in options.items())
        # Spark's writer fails for the line of a single null
        nulls = "null" if self.name == KEY else literal(self._options()["sep"] * (len(self.columns) - 1))
        line = f"if({self.all_null(struct)}, {nulls}, to_csv({struct}, map({texts})))"
        return Encoding(f"cast({line} as binary)")

    def _options(self) -> dict[str, str]:
        named = {"space": " ", "tab": "\t"}.get(self.delimiter.lower(), self.delimiter)
        # a quote within quotes is doubled (RFC 4180)
        return {"sep": named, "escape": '"'}
