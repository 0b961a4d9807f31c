"""docs/reference/sql/functions.md, written from the table: `python -m ...functions.reference_page`."""

from __future__ import annotations

import sys

from moldau.products.sql.language.functions.row import Function, Kind
from moldau.products.sql.language.functions.table import FUNCTIONS, GROUPS, SESSION_SETTINGS
from moldau.products.sql.language.rewrites import Dialect, rewrite
from moldau.products.sql.language.tokens import tokenize

_HEAD = """# Functions of ksqlDB

Written from the table in `src/moldau/products/sql/language/functions`; a test fails where this page is old. To write it
again:

    python -m moldau.products.sql.language.functions.reference_page > docs/reference/sql/functions.md

Expressions are Spark SQL, and every function of Spark is there. The functions of ksqlDB are rewritten into Spark SQL;
`EXPLAIN` shows what became of a statement.

**What Spark SQL understands means what it means in Spark; what only ksqlDB understands is rewritten.** After
`SET 'sql.dialect' = 'ksql'`, what both understand means what it means in ksqlDB. In the first dialect, a statement that
uses ksqlDB's words gets a warning for each word that means something else in Spark.

{spelling}

## Functions that mean the same

Spark SQL has these {count} functions under the same name and with the same meaning:

{same}

| of these | what stays different |
|---|---|
{noted}
"""

_SPELLING = (
    ("a->b->c", "a field of a struct"),
    ("a->*", "all fields of a struct, each a column"),
    ("list[1]", "dialect `ksql`; places count from 1 and, below 0, from the end"),
    ("list[-1]", ""),
    ("map['key']", "dialect `ksql`; the same as Spark's"),
    ("ARRAY[1, 2]", ""),
    ("MAP('a' := 1, 'b' := 2)", ""),
    ("STRUCT(x := 1, y := 'a')", ""),
    (
        "CAST(x AS VARCHAR)",
        "dialect `ksql`: `try_cast`, which gives null for what cannot be cast, also for a text that is no BOOLEAN",
    ),
    ("CAST(x AS BYTES)", ""),
    ("ROWTIME >= '2026-11-30T08:00'", "the time is in UTC"),
    ("WINDOWSTART BETWEEN '2026-11-30' AND '2026-12-01'", ""),
    ("a || b", "dialect `ksql`; ksqlDB leaves nulls out"),
    ("name + '!'", "dialect `ksql`, where one operand of the sum is a string"),
    ('"some name"', "dialect `ksql`; in Spark it is a string"),
    ("'\\d+'", "dialect `ksql`; in Spark, a backslash in a string begins an escape"),
)
_ONLY_KSQL = frozenset({"list[1]", "map['key']", "a || b", "name + '!'", '"some name"', "'\\d+'"})
_COLUMNS = {"ROWOFFSET": "row_offset", "ROWPARTITION": "row_partition"}
_TIMES = {"ROWTIME": "ROWTIME", "WINDOWSTART": "WINDOWSTART", "WINDOWEND": "WINDOWEND"}


def functions_page() -> str:
    """The whole page."""
    rows = sorted(FUNCTIONS.values(), key=lambda row: row.name)
    plain = [row for row in rows if row.is_same]
    return _HEAD.format(
        spelling=_spelling(),
        count=len(plain),
        same=", ".join(f"`{row.name}`" for row in plain) + ".",
        noted="\n".join(f"| `{row.name}` | {row.note} |" for row in plain if row.note),
    ) + "".join(_group(title, rows) for title, rows in GROUPS.items())


def _spelling() -> str:
    lines = [
        "A rewritten call means what it means in ksqlDB in a session with these settings: "
        + ", ".join(f"`{name}` = `{value}`" for name, value in SESSION_SETTINGS.items())
        + ". Where ksqlDB gives null for a value that a function cannot take, it gives null here too, but for what the"
        " tables below name.",
        "",
        "## Spelling",
        "",
        "| ksqlDB | Spark SQL | |",
        "|---|---|---|",
    ]
    for written, note in _SPELLING:
        dialect = Dialect.KSQL if written in _ONLY_KSQL else Dialect.SPARK
        lines.append(f"| {_code(written)} | {_code(_rewritten(written, dialect))} | {note} |")
    lines += [
        "",
        "`ROWTIME`, `WINDOWSTART` and `WINDOWEND` are milliseconds since 1970 (BIGINT). In both dialects a string is "
        "read by Spark's rules for where it ends: a backslash before a quote escapes it, so a string of ksqlDB that "
        "ends with a backslash is written with `CHR(92)`. `/` divides whole numbers to fractions, as Spark does; write "
        "`a DIV b`. Division by 0 and overflow fail the query, in ksqlDB they do not: write `try_divide`, `try_add`. "
        "A comparison with null is null, in ksqlDB it is false: that shows below NOT and in the items of a SELECT. "
        "In the pattern of LIKE a backslash escapes, as in Spark. A pattern that is no regular expression fails the "
        "query. `AT TIME ZONE` is refused: write CONVERT_TZ. A SELECT has one EXPLODE; ksqlDB zips several.",
    ]
    return "\n".join(lines)


def _group(title: str, rows: tuple[Function, ...]) -> str:
    lines = ["", f"## {title}", "", "| ksqlDB | Spark SQL | Spark's own function of this name | what stays different |"]
    lines.append("|---|---|---|---|")
    for row in sorted(rows, key=lambda one: one.name):
        if row.is_same:
            continue
        for place, example in enumerate(row.examples):
            own = "" if place or not row.in_spark else _own(row)
            made = _code(_rewritten(example, Dialect.KSQL))
            lines.append(f"| {_code(example)} | {made} | {own} | {'' if place else row.note} |")
    return "\n".join(lines) + "\n"


def _own(row: Function) -> str:
    if row.differs:
        return row.differs
    return "the lambda is written with `->`" if row.kind is Kind.LAMBDA else "takes other arguments"


def _rewritten(example: str, dialect: Dialect) -> str:
    return rewrite(example, tokenize(example), columns={**_TIMES, **_COLUMNS}, dialect=dialect).text


def _code(text: str) -> str:
    """As code in a cell of a table."""
    shown = text.replace("|", "\\|")
    return f"`` {shown} ``" if "`" in shown else f"`{shown}`"


if __name__ == "__main__":
    sys.stdout.write(functions_page())
