"""Changes by key into a table that keeps the history of each key (SCD type 2)."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from secrets import token_hex

import polars
import psycopg
import pytest
from pyspark.errors import StreamingQueryException

from moldau.cli.main import main
from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.section import SpecError
from moldau.products.pipelines.running.flow import load_sources, make_result, make_views
from moldau.products.pipelines.spec.spec import parse_spec
from moldau.products.pipelines.targets.changes import DELETED, Changes, history_steps
from tests.support.key_history import Change, history_of

Rows = dict[int, tuple[int | None, str | None, int]]
"""By their begin: their end and their values."""


def batches_of(rng: random.Random) -> list[list[Change]]:
    """Changes of one key in any order, in some batches; some come twice."""
    places = rng.sample(range(20), rng.randint(1, 9))
    changes = [Change(one, rng.random() < 0.3, rng.choice(["a", "b", None]), rng.randint(0, 2)) for one in places]
    changes += rng.choices(changes, k=rng.randint(0, 2))
    rng.shuffle(changes)
    cuts = sorted(rng.choices(range(len(changes) + 1), k=rng.randint(0, 4)))
    return [changes[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(changes)], strict=True) if end > begin]


def told(spark, cases: Mapping[int, list[list[Change]]]) -> dict[tuple[int, int], list[tuple[int, bool, tuple]]]:
    """For each case and batch: the begins of rows, whether each is removed, and the rest of the row."""
    came = [
        (case, now, then == now, *change)
        for case, batches in cases.items()
        for now in range(len(batches))
        for then in range(now + 1)
        for change in batches[then]
    ]
    names = "case int, batch int, is_new boolean, place int, gone boolean, tracked string, other int"
    frame = spark.createDataFrame(came, names).selectExpr(
        "case", "batch", "struct(place, if(is_new, current_timestamp(), timestamp '2026-01-01') as came, gone, "
        "struct(case, batch, tracked, other) as row) as change"
    )  # fmt: skip
    frame = frame.groupBy("case", "batch").agg({"change": "collect_list"}).toDF("case", "batch", "changes")
    for step in history_steps(["tracked"]):
        frame = frame.selectExpr(*step)
    found: dict[tuple[int, int], list[tuple[int, bool, tuple]]] = {}
    for row, begin, end, gone in frame.collect():
        found.setdefault((row.case, row.batch), []).append((begin, gone, (end, row.tracked, row.other)))
    return found


@pytest.mark.slow
def test_any_order_and_any_batches_of_the_same_changes_make_the_same_history(spark):
    cases = {seed: batches_of(random.Random(seed)) for seed in range(3_000)}
    for case, seen in tables_of(cases, told(spark, cases)):
        for number, table in enumerate(seen):
            came = [change for batch in cases[case][: number + 1] for change in batch]
            assert table == history_of(came), f"seed {case}, batch {number}: {cases[case]}"


def tables_of(cases: Mapping[int, list[list[Change]]], said: Mapping) -> Iterator[tuple[int, list[Rows]]]:
    """For each case the contents of the table after each batch."""
    for case, batches in cases.items():
        table: Rows = {}
        seen = []
        for number in range(len(batches)):
            rows = said.get((case, number), [])
            assert len({begin for begin, _, _ in rows}) == len(rows), f"seed {case}: a row is told of twice"
            table = {**table, **{begin: row for begin, gone, row in rows if not gone}}
            table = {begin: row for begin, row in table.items() if (begin, True) not in {one[:2] for one in rows}}
            seen.append(dict(table))
        yield case, seen


@pytest.mark.slow
def test_a_batch_tells_of_the_rows_around_its_changes_alone(spark):
    rows = [Change(place, gone=False, tracked=str(place), other=0) for place in range(0, 100, 10)]
    at_the_end, between = Change(95, gone=False, tracked="x", other=0), Change(45, gone=True, tracked=None, other=0)
    said = told(spark, {0: [rows, [at_the_end]], 1: [rows, [between]], 2: [rows, [rows[3]]]})
    assert {case: sorted(one[:2] for one in said.get((case, 1), [])) for case in range(3)} == {
        0: [(90, False), (95, False)],
        1: [(40, False), (45, True), (50, False)],
        2: [],  # an earlier one
    }


SPEC = """
sources:
  changes: {topic: TOPIC, format: json, schema: "id int, name string, visits int, version int, op string"}
flows:
  rows: select id, name, visits, version, op from changes
targets:
  lake: {from: rows, delta: lake, HISTORY}
  berg: {from: rows, iceberg: shop.users, warehouse: berg, HISTORY}
  file: {from: rows, sqlite: shop.db, table: users, HISTORY}
  server: {from: rows, postgresql: "SERVER", table: TABLE, HISTORY}
tests:
  a late change ends the row before it, and begins one:
    given:
      changes:
        - [{id: 1, version: 1, name: a, visits: 1}, {id: 1, version: 3, name: c, visits: 1}]
        - [{id: 1, version: 2, name: b, visits: 1}]
    expect:
      file:
        - {id: 1, name: a, __START_AT: 1, __END_AT: 3, _moldau_deleted: false}
        - {id: 1, name: c, __START_AT: 3, __END_AT: null, _moldau_deleted: false}
        - {id: 1, name: a, __START_AT: 1, __END_AT: 2, _moldau_deleted: false}
        - {id: 1, name: b, __START_AT: 2, __END_AT: 3, _moldau_deleted: false}
        - {id: 1, name: c, __START_AT: 3, __END_AT: null, _moldau_deleted: false}
""".replace(
    "HISTORY",
    "mode: update, key: id, sequence_by: version, apply_as_deletes: \"op = 'd'\", except_column_list: [version, op], "
    "stored_as_scd_type: 2, track_history_except_column_list: visits",
)

Row = tuple[int, str, int, int, int | None]


@pytest.mark.slow
def test_a_table_keeps_the_history_of_each_key(
    run_spec, new_topic, produce, postgresql, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    topic, table = new_topic(), f"users_{token_hex(4)}"
    spec = SPEC.replace("TOPIC", topic).replace("SERVER", postgresql.url).replace("TABLE", table)

    def run(*rows: tuple[int, int, str, int, str]) -> None:
        names = ("id", "version", "name", "visits", "op")
        produce(topic, [(None, json.dumps(dict(zip(names, row, strict=True))).encode()) for row in rows])
        assert {state.state for state in run_spec(spec)} == {"finished"}

    def tables() -> list[list[Row]]:
        with sqlite3.connect(tmp_path / "shop.db") as connection:
            of_file = connection.execute("select * from users").fetchall()
        with psycopg.connect(postgresql.url) as server:
            of_server = server.execute(f"select * from {table}").fetchall()
        of_berg = polars.scan_iceberg(_newest_metadata(tmp_path / "berg")).collect().rows()
        return [
            sorted(one, key=str)
            for one in (polars.read_delta(str(tmp_path / "lake")).rows(), of_berg, of_file, of_server)
        ]

    # 1: out of order in one batch; 2: a removal without a row; 3: a value that is not tracked
    run((1, 3, "c", 1, "u"), (1, 1, "a", 1, "u"), (2, 5, "", 0, "d"), (3, 1, "x", 1, "u"), (3, 4, "x", 2, "u"))
    first = [(1, "a", 1, 1, 3), (1, "c", 1, 3, None), (3, "x", 2, 1, None)]
    assert tables() == [first] * 4
    # late: 1: between two rows; 2: before its removal; 3: between two changes that were one row
    run((1, 2, "b", 1, "u"), (2, 4, "y", 1, "u"), (3, 2, "z", 1, "u"))
    second = [
        (1, "a", 1, 1, 2), (1, "b", 1, 2, 3), (1, "c", 1, 3, None), (2, "y", 1, 4, 5), (3, "x", 1, 1, 2),
        (3, "x", 2, 4, None), (3, "z", 1, 2, 4),
    ]  # fmt: skip
    assert tables() == [second] * 4
    # the batch is in the tables, but Spark does not know it; 1: an earlier change; 2: it returns after its end
    for target in ("lake", "berg", "file", "server"):
        (tmp_path / "state" / target / "commits" / "1").unlink()
    run((1, 2, "b", 1, "u"), (2, 7, "y", 1, "u"))
    assert tables() == [sorted([*second, (2, "y", 1, 7, None)], key=str)] * 4
    # 1: a removal; 2: the row begins sooner; 3: a late removal
    run((1, 1, "a", 1, "u"), (1, 4, "", 0, "d"), (2, 6, "y", 2, "u"), (3, 3, "", 0, "d"))
    assert tables() == [
        [
            (1, "a", 1, 1, 2), (1, "b", 1, 2, 3), (1, "c", 1, 3, 4), (2, "y", 1, 4, 5), (2, "y", 1, 6, None),
            (3, "x", 1, 1, 2), (3, "x", 2, 4, None), (3, "z", 1, 2, 3),
        ]
    ] * 4  # fmt: skip
    file = tmp_path / "spec.yaml"
    file.write_text(f"name: pipe\nbootstrap_servers: a:1\n{spec}", "utf-8")
    assert main(["pipeline", "test", str(file)]) == 0, capsys.readouterr().out


def _newest_metadata(warehouse: Path) -> str:
    return str(max((warehouse / "shop" / "users" / "metadata").glob("*.metadata.json")))


@pytest.mark.slow
def test_a_state_of_changes_with_other_columns_is_refused(spark, tmp_path: Path):
    """After a restart the reader of a schema registry may give another column."""
    (tmp_path / "in").mkdir()
    changes = Changes(("id",), "version", has_history=True)

    def run(schema: str, change: str) -> None:
        (tmp_path / "in" / f"{len(schema)}.json").write_text(change, "utf-8")
        stream = changes.rows(spark.readStream.schema(schema).json(str(tmp_path / "in"))).writeStream.format("noop")
        stream = stream.outputMode("update").option("checkpointLocation", str(tmp_path / "state"))
        stream.trigger(availableNow=True).start().awaitTermination()

    run("id int, name string, version int", '{"id": 1, "name": "a", "version": 1}')
    with pytest.raises(StreamingQueryException, match="STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"):
        run("id int, name string, version int, more int", '{"id": 1, "name": "a", "version": 2, "more": 1}')


TIMES = """
sources:
  changes: {topic: TOPIC, format: json, schema: "id decimal(9, 2), at timestamp"}
flows:
  rows: select id, at as moment from changes
targets:
  lake: {from: rows, delta: lake, HISTORY}
  berg: {from: rows, iceberg: shop.users, warehouse: berg, HISTORY}
  file: {from: rows, sqlite: shop.db, table: users, HISTORY}
  server: {from: rows, postgresql: "SERVER", table: TABLE, HISTORY}
""".replace("HISTORY", "mode: update, key: id, sequence_by: moment, column_list: id, stored_as_scd_type: 2")


@pytest.mark.slow
def test_a_row_that_begins_sooner_leaves_no_other_one_where_it_began(
    run_spec, new_topic, produce, postgresql, tmp_path: Path
):
    topic, table = new_topic(), f"users_{token_hex(4)}"
    spec = TIMES.replace("TOPIC", topic).replace("SERVER", postgresql.url).replace("TABLE", table)
    for second in (7, 5):
        produce(topic, [(None, f'{{"id": 1.50, "at": "2026-01-01T00:00:{second:02}.25Z"}}'.encode())])
        run_spec(spec)
    begin = datetime(2026, 1, 1, 0, 0, 5, 250_000, tzinfo=UTC)
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        assert connection.execute("select * from users").fetchall() == [("1.50", "2026-01-01 00:00:05.250000Z", None)]
    with psycopg.connect(postgresql.url) as server:
        assert server.execute(f"select * from {table}").fetchall() == [(Decimal("1.50"), begin, None)]
    assert polars.read_delta(str(tmp_path / "lake")).rows() == [(Decimal("1.50"), begin, None)]
    of_berg = polars.scan_iceberg(_newest_metadata(tmp_path / "berg")).collect().rows()
    assert of_berg == [(Decimal("1.50"), begin, None)]


DELTA = "delta: lake, mode: update, key: user, sequence_by: version, stored_as_scd_type: 2"
SCHEMA = "user string, tags map<string, string>, version int, at struct<day: int>"


@pytest.mark.parametrize(
    ("sink", "reason"),
    [
        (DELTA, "the column 'tags' has the type map<string,string>, whose values Spark does not compare: name it in"),
        (DELTA + ", column_list: [user, at], track_history_column_list: tags", "'tags', but the SQL gives user, at"),
        (DELTA + ", column_list: [user, at], track_history_except_column_list: tags", "_except_column_list` names 'ta"),
        (DELTA.replace("version", "at") + ", column_list: user", "a history needs one value, which becomes a key of"),
    ],
)
def test_what_has_no_history_is_refused_before_the_start(spark, tmp_path: Path, sink: str, reason: str):
    (tmp_path / "in").mkdir()
    source = f'source: {{files: in, format: json, schema: "{SCHEMA}"}}\nsql: select * from source\n'
    text = f"name: pipe\nbootstrap_servers: a:1\n{source}sink: {{{sink}}}\n"
    spec = parse_spec(text, file_name="spec.yaml", directory=tmp_path)
    with pytest.raises(FlowError, match=reason):
        make_result(spec, spec.queries[0], make_views(spark, spec, load_sources(spark, spec, {})))


def test_a_history_may_be_of_keys_alone_and_of_columns_that_do_not_compare(spark, tmp_path: Path):
    (tmp_path / "in").mkdir()
    source = f'source: {{files: in, format: json, schema: "{SCHEMA}"}}\nsql: select * from source\n'
    for more in ("column_list: user", "track_history_except_column_list: [tags, at, version]"):
        text = f"name: pipe\nbootstrap_servers: a:1\n{source}sink: {{{DELTA}, {more}}}\n"
        spec = parse_spec(text, file_name="spec.yaml", directory=tmp_path)
        rows = make_result(spec, spec.queries[0], make_views(spark, spec, load_sources(spark, spec, {})))
        assert rows.columns[-3:] == ["__START_AT", "__END_AT", DELETED]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("stored_as_scd_type: 3", "`stored_as_scd_type` must be one of 1, 2, not `3`"),
        ("track_history_column_list: name", "`track_history_column_list` needs `stored_as_scd_type: 2`"),
        ("stored_as_scd_type: 2, track_history_column_list: a, track_history_except_column_list: b",
         "`track_history_column_list` and `track_history_except_column_list` say the same in two ways"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_of_a_history_is_refused(tmp_path: Path, more: str, reason: str):
    sink = f"delta: lake, mode: update, key: id, sequence_by: version, {more}"
    source = 'source: {files: in, format: json, schema: "id int"}\nsql: select * from source\n'
    with pytest.raises(SpecError, match=reason):
        parse_spec(
            f"name: pipe\nbootstrap_servers: a:1\n{source}sink: {{{sink}}}\n", file_name="p.yaml", directory=tmp_path
        )
