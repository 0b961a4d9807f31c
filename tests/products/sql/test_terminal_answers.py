"""What the terminal shows of each answer: on a terminal, elsewhere, and as JSON."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from rich.console import Console

from moldau.errors import MoldauError
from moldau.products.sql.catalog.catalog import Catalog, PersistentQuery
from moldau.products.sql.catalog.deciding import apply, decide
from moldau.products.sql.engine.answers import (
    Answer,
    ChangedRow,
    Described,
    Done,
    Explained,
    FunctionDescribed,
    Listing,
    QueryStatus,
    Rows,
)
from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.parser.script import parse_script
from moldau.products.sql.terminal.answers import Printer
from moldau.products.sql.terminal.values import cell
from tests.support.row_streams import ListedRows

COLUMNS = (("user", "string"), ("n", "bigint"))
STATUS = QueryStatus(
    query=PersistentQuery(
        id="CTAS_N_0",
        sink="n",
        reads=frozenset({"c"}),
        statement="CREATE TABLE n\n AS SELECT 1",
        properties={},
        types={},
    ),
    state="failed",
    error="it broke",
)


def changed(*values: object, is_deleted: bool = False) -> ChangedRow:
    return ChangedRow(values, is_deleted)


def relation():
    (parsed,) = parse_script("CREATE STREAM c (user STRING KEY, n BIGINT) WITH (kafka_topic='t', key_format='JSON')")
    catalog = Catalog()
    for change in decide(catalog, parsed, {}).changes:
        catalog = apply(catalog, change)
    return catalog.relations["c"]


def shown(answer: Answer, *, is_terminal: bool = False, as_json: bool = False) -> str:
    file = io.StringIO()
    Printer(Console(file=file, force_terminal=is_terminal, width=100, height=20), as_json=as_json).show(answer)
    return file.getvalue()


ANSWERS = {
    "done": Done(message="stream c is created", warnings=("line 1: beware",)),
    "listing": Listing(subject="streams", columns=("name", "topic"), rows=(("c", "t"), ("longer", "u"))),
    "described": Described(relation=relation(), readers=(STATUS,), topic=(("partitions", "3"),)),
    "explained": Explained(
        query=STATUS,
        reads=("c",),
        steps=("read c", "count rows"),
        writes="n",
        columns=COLUMNS,
        key=("user",),
        text="select 1",
    ),
    "function": FunctionDescribed(name="LEN", usage="LEN(x)", template="length(x)", note="of characters"),
    "rows": Rows(stream=ListedRows(COLUMNS, [[changed("ann", 1)], [changed("bob", None)]])),
}
LINES = {
    "done": ["warning: line 1: beware", "stream c is created"],
    "listing": ["name    topic", "c       t", "longer  u"],
    "described": [
        "stream c: topic t, keys JSON, values JSON",
        "column  type    role",
        "user    string  key",
        "n       bigint",
        "read by CTAS_N_0 (failed: it broke): CREATE TABLE n AS SELECT 1",
        "partitions  3",
    ],
    "explained": [
        "CTAS_N_0: failed: it broke",
        "┌────────────┐",
        "│ read c     │",
        "└──────┬─────┘",
        "       │",
        "┌──────┴─────┐",
        "│ count rows │",
        "└──────┬─────┘",
        "       │",
        "┌──────┴─────┐",
        "│ writes n   │",
        "└────────────┘",
        "column  type    role",
        "user    string  key",
        "n       bigint",
        "Spark SQL:",
        "select 1",
    ],
    "function": ["LEN", "usage         LEN(x)", "in Spark SQL  length(x)", "note          of characters"],
    "rows": ["user  n", "ann   1", "bob   null"],
}


@pytest.mark.parametrize("name", [name for name in ANSWERS if name != "rows"])
def test_each_answer_is_shown_in_three_forms(name: str):
    assert shown(ANSWERS[name]).splitlines() == LINES[name]
    assert "\x1b[" in shown(ANSWERS[name], is_terminal=True) or name in ("done", "listing")
    (line,) = shown(ANSWERS[name], as_json=True).splitlines()
    assert "warnings" in json.loads(line)


def test_rows_are_lines_or_json_and_the_stream_is_closed():
    stream = ListedRows(COLUMNS, [[changed("ann", 1)], [changed("bob", None)]])
    assert shown(Rows(stream=stream)).splitlines() == LINES["rows"]
    assert stream.is_closed
    stream = ListedRows(COLUMNS, [[changed("ann", 1), changed("ann", 2, is_deleted=True)]], key=("user",))
    head, *rows = map(json.loads, shown(Rows(stream=stream, is_live=True), as_json=True).splitlines())
    assert head["key"] == ["user"]
    assert rows == [{"row": {"user": "ann", "n": 1}}, {"deleted": {"user": "ann", "n": 2}}]


def test_a_table_is_change_lines_in_a_file_and_updates_in_place_on_a_terminal():
    batches = [[changed("ann", 1), changed("bob", 1)], [changed("ann", 2)], [changed("bob", 1, is_deleted=True)]]
    lines = shown(Rows(stream=ListedRows(COLUMNS, batches, key=("user",)), is_live=True)).splitlines()
    assert lines == ["  user  n", "+ ann   1", "+ bob   1", "+ ann   2", "- bob   1"]
    output = shown(Rows(stream=ListedRows(COLUMNS, batches, key=("user",)), is_live=True), is_terminal=True)
    last = output[output.rindex("user") :]
    assert "ann" in last
    assert "bob" not in last, "its row was deleted"
    assert "4 changes" in last
    assert "\x1b[1A" in output, "the cursor went up to draw in the same place"


def test_a_live_table_shows_as_many_keys_as_the_terminal_has_lines():
    rows = [changed(f"user-{number:05}", number) for number in range(12_000)]
    output = shown(Rows(stream=ListedRows(COLUMNS, [rows], key=("user",)), is_live=True), is_terminal=True)
    assert "user-11999" in output
    assert "user-11000" not in output
    assert "9,988 more keys" in output, "10,000 are kept"


def test_a_live_query_ends_when_it_is_cut():
    stream = ListedRows(COLUMNS, [[changed("ann", 1)]], is_endless=True)
    printer = Printer(Console(file=io.StringIO()), is_cut=lambda: stream.empty_reads > 2)
    printer.show(Rows(stream=stream, is_live=True))
    assert stream.is_closed


def test_a_failed_query_closes_its_stream():
    stream = ListedRows(COLUMNS, [[changed("ann", 1)]], error="the broker is gone")
    with pytest.raises(MoldauError, match="the broker is gone"):
        shown(Rows(stream=stream, is_live=True))
    assert stream.is_closed


def test_an_error_points_at_its_place_also_when_only_the_script_has_the_line():
    script = "SHOW STREAMS;\nDROP STREAM cliks;"
    file = io.StringIO()
    printer = Printer(Console(file=io.StringIO()), Console(file=file))
    printer.error(SqlError("there is no stream cliks", line=2, column=13, nearest="clicks"), script)
    assert file.getvalue().splitlines() == [
        "line 2, column 13: there is no stream cliks; did you mean clicks?",
        "DROP STREAM cliks;",
        "            ^",
    ]


def test_cells_are_one_visible_line():
    assert cell(None) == "null"
    assert cell("a\nb\x1b[31m") == "a\\nb\\x1b[31m"
    assert cell(b"\x00\xff") == "0x00ff"
    assert cell(datetime(2026, 11, 30, 8, tzinfo=UTC)) == "2026-11-30 08:00:00+00:00"
    assert cell([{"a": Decimal("1.50"), "b": float("nan")}]) == '[{"a":"1.50","b":null}]'
    assert len(cell("x" * 1_000)) == 200


def test_columns_of_one_name_are_told_apart_in_json():
    stream = ListedRows((("a", "int"), ("a", "int")), [[changed(1, 2)]])
    assert json.loads(shown(Rows(stream=stream), as_json=True).splitlines()[1]) == {"row": {"a": 1, "a_2": 2}}
