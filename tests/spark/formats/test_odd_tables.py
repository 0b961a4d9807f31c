"""Odd values, odd column names and odd file names, through every source, format and target."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from moldau.client.protocol.access import ClusterAccess
from moldau.columnar.reader import read_topic
from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.databases.iceberg import open_catalog
from moldau.products.pipelines.databases.names import listed, quoted
from moldau.products.pipelines.formats import all_formats
from moldau.products.pipelines.sources import all_sources
from moldau.products.pipelines.sources.feed_source import FeedSource
from moldau.products.pipelines.sources.files import FORMATS as FORMATS_OF_FILES
from moldau.products.pipelines.sources.topic import FORMATS as FORMATS_OF_TOPICS
from moldau.products.pipelines.sources.topic import TopicSource
from moldau.products.pipelines.spec.spec import parse_spec
from moldau.products.pipelines.targets import all_targets
from moldau.products.pipelines.targets.target import TargetQuery
from tests.spark.feeds import Reader
from tests.spark.odd_tables import MORE_TYPES, ODD_NAMES, TARGETS, VALUES, column_of, of_json, rows_of, same
from tests.support.receiver import Receiver

TOPIC_BYTES = str(16 << 20)
WITHOUT_MARKS = "odd 100% place 1, größe: x=y"
ODD_PLACE = f"{WITHOUT_MARKS} #?"
"""A directory; the path of an Iceberg table must not contain `#` or `?`."""


class Place:
    """One target: its text in a pipeline file, and its rows as a program other than Spark reads them."""

    def __init__(self, spec: str, read: Callable[[], list[dict[str, Any]]]) -> None:
        self.spec, self.read = spec, read


@pytest.fixture
def places(
    tmp_path: Path,
    bootstrap_servers: str,
    new_topic: Callable[..., str],
    postgresql: Any,
    receiver: Receiver,
) -> dict[str, Place]:
    folder, table, topic = (
        tmp_path / ODD_PLACE,
        f"odd table {token_hex(4)}",
        new_topic(**{"max.message.bytes": TOPIC_BYTES}),
    )
    folder.mkdir()

    def files() -> list[dict[str, Any]]:
        found = [pq.ParquetFile(file).read() for file in sorted((folder / "files").glob("*.parquet"))]
        return [row for one in found for row in one.to_pylist(maps_as_pydicts="strict")]

    def delta() -> list[dict[str, Any]]:
        return DeltaTable(str(folder / "delta")).to_pyarrow_table().to_pylist(maps_as_pydicts="strict")

    def iceberg() -> list[dict[str, Any]]:
        catalog = open_catalog(str(lake), lake / "catalog.db")
        return catalog.load_table("odd.t").scan().to_arrow().to_pylist(maps_as_pydicts="strict")

    def in_sqlite() -> list[dict[str, Any]]:
        with closing(sqlite3.connect(folder / "file.db")) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute('select * from "odd t"')]

    def in_postgresql() -> list[dict[str, Any]]:
        with psycopg.connect(postgresql.url, options="-c timezone=UTC") as connection:
            cursor = connection.execute(f"select * from {quoted(table)}")
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor]

    def in_topic() -> list[dict[str, Any]]:
        batches = read_topic(bootstrap_servers, topic)
        return [of_json(value.decode()) for batch in batches for value in batch.column("value").to_pylist()]

    def posted() -> list[dict[str, Any]]:
        return [of_json(line) for _, body in receiver.requests for line in body.split("\n") if line]

    lake = tmp_path / WITHOUT_MARKS
    return {
        "path": Place(f'path: "{folder}/files"', files),
        "delta": Place(f'delta: "{folder}/delta"', delta),
        "iceberg": Place(f'iceberg: odd.t, warehouse: "{lake}"', iceberg),
        "sqlite": Place(f'sqlite: "{folder}/file.db", table: odd t', in_sqlite),
        "postgresql": Place(f'postgresql: "{postgresql.url}", table: {table}', in_postgresql),
        "topic": Place(f"topic: {topic}, delivery: at_least_once", in_topic),
        "webhook": Place(f'webhook: "{receiver.url}"', posted),
        "terminal": Place("terminal: true", list),
    }


@pytest.fixture
def target_of(places: dict[str, Place], bootstrap_servers: str, tmp_path: Path) -> Callable[[str], Any]:
    def target(name: str) -> Any:
        head = f"name: odd\nbootstrap_servers: {bootstrap_servers}\nsource: {{topic: t, format: string}}\n"
        text = f"{head}sql: select value from source\nsink: {{{places[name].spec}}}\n"
        return parse_spec(text, file_name="spec.yaml", directory=tmp_path).queries[0].target

    return target


@pytest.fixture
def write(target_query: TargetQuery, bootstrap_servers: str) -> Callable[[Any, Any], None]:
    """`write(target, rows)` writes a batch as a pipeline does."""

    def write(target: Any, rows: Any) -> None:
        query = msgspec.structs.replace(
            target_query, checkpoint_id=f"c{token_hex(4)}", access=ClusterAccess(bootstrap_servers)
        )
        target.writer(query)(target.rows_of(rows), 0)

    return write


def test_each_target_has_a_row():
    # the class of a `datasource` decides itself which types it takes
    assert TARGETS.keys() | {"datasource"} == all_targets().keys()


def test_a_column_of_a_type_that_a_target_lacks_is_refused_by_name(spark, target_of):
    frames = {kind: spark.sql(f"select cast(null as {kind}) as `odd.column`") for kind in (*VALUES, *MORE_TYPES)}
    wrong = []
    for name, row in TARGETS.items():
        target = target_of(name)
        for kind, frame in frames.items():
            try:
                target.rows_of(frame)
                is_refused = False
            except FlowError as error:
                is_refused = True
                if "'odd.column'" not in str(error) or kind not in str(error):
                    wrong.append(f"{name} does not name the column: {error}")
            if is_refused != (kind in row.refused):
                wrong.append(f"{name} {'refuses' if is_refused else 'takes'} {kind}")
    assert wrong == []


@pytest.mark.slow
def test_each_cell_of_odd_values_is_right_in_every_target(spark, places, target_of, write, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "2000")  # of the terminal
    wrong = []
    for name, row in TARGETS.items():
        kinds = [kind for kind in VALUES if kind not in row.refused]
        taken = [kind for kind in MORE_TYPES if kind not in row.refused]
        nulls = "".join(f", cast(null as {kind}) as `{kind}`" for kind in taken)
        write(target_of(name), spark.sql(f"select *{nulls} from ({rows_of(kinds)})"))
        if name == "terminal":
            shown = capsys.readouterr().out
            assert "b\ufffd\ufffd" in shown
            assert len(shown) < 1_000_000
            continue
        rows = sorted(places[name].read(), key=lambda one: one["id"])
        for kind in kinds:
            stored = row.stored.get(kind, lambda value: value)
            expected = [*map(stored, VALUES[kind].values())]
            found = [one.get(column_of(kind)) for one in rows]
            for place, (is_there, wanted) in enumerate(
                zip(found, expected + [None] * (len(rows) - len(expected)), strict=True)
            ):
                if not same(kind, is_there, wanted):
                    wrong.append(f"{name} {kind} {place}: {str(is_there)[:80]!r}, not {str(wanted)[:80]!r}")
    assert wrong == []


@pytest.mark.slow
def test_columns_of_any_name_go_into_every_target(spark, places, target_of, write, capsys):
    columns = ", ".join(f"{place} as `{name.replace('`', '``')}`" for place, name in enumerate(ODD_NAMES))
    rows = spark.sql(f"select {columns}")
    expected = [{name: place for place, name in enumerate(ODD_NAMES)}]
    found = {}
    for name in TARGETS:
        write(target_of(name), rows)
        found[name] = places[name].read() if name != "terminal" else expected
    assert found == dict.fromkeys(TARGETS, expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name, kind in all_targets().items() if "key" in kind.KEYS and name != "topic"]
)
def test_equal_keys_have_one_row_and_keys_that_are_no_utf8_stay_apart(spark, places, target_of, write, name):
    target = msgspec.structs.replace(target_of(name), mode="update", key=("d.d", "k"))

    def batch(zero: str, key: str, number: int) -> None:
        write(target, spark.sql(f"select cast('{zero}' as double) as `d.d`, cast({key} as string) as k, {number} as n"))

    for number, (zero, key) in enumerate(
        [("-0.0", "'a'"), ("0.0", "'a'"), ("-0.0", "'a'"), ("1", "X'c8'"), ("1", "X'c9'")]
    ):
        batch(zero, key, number)
    rows = sorted((row["d.d"], row["k"], row["n"]) for row in places[name].read())
    assert rows == [(0.0, "a", 2), (1.0, r"\xc8", 3), (1.0, r"\xc9", 4)]


# --- sources ---


@pytest.fixture
def stored(tmp_path: Path, postgresql) -> dict[str, str]:
    """A place with a row of ODD_NAMES for each kind of source, as in a pipeline file."""
    folder, row = tmp_path / "from", {name: place for place, name in enumerate(ODD_NAMES)}
    folder.mkdir()
    table = pa.table({name: [place] for name, place in row.items()})
    schema = ", ".join(f"`{name.replace('`', '``')}` bigint" for name in ODD_NAMES)
    (folder / "files").mkdir()
    pq.write_table(table, folder / "files" / "2026-01-01T00:00:00 100%.parquet")
    (folder / "of-spark").mkdir()
    pq.write_table(table, folder / "of-spark" / "a.parquet")  # Spark's own source reads no name with a colon
    write_deltalake(str(folder / "delta"), table)
    catalog = open_catalog(str(folder / "lake"), folder / "lake.db")
    catalog.create_namespace("odd")
    catalog.create_table("odd.t", table.schema).append(table)
    columns, values = ", ".join(f"{quoted(name)} bigint" for name in ODD_NAMES), ", ".join(map(str, row.values()))
    with closing(sqlite3.connect(folder / "f.db")) as connection, connection:
        connection.execute(f'create table "odd t" ({columns})')
        connection.execute(f'insert into "odd t" values ({values})')
    odd = f"odd_{token_hex(4)}"
    with psycopg.connect(postgresql.url) as connection:
        connection.execute(f"create table {odd} ({columns})")
        connection.execute(f"insert into {odd} ({listed(ODD_NAMES)}) values ({values})")
    in_words = json.dumps(schema, ensure_ascii=False)
    of_topic = f"format: json, schema: {in_words}"
    by = json.dumps(ODD_NAMES[0])
    return {
        "topic": f"topic: t, {of_topic}",
        "pattern": f"pattern: t, {of_topic}",
        "files": f'files: "{folder}/files", format: parquet',
        "datasource": f'datasource: parquet, schema: {in_words}, options: {{path: "{folder}/of-spark"}}',
        "delta": f'delta: "{folder}/delta"',
        "iceberg": f'iceberg: odd.t, warehouse: "{folder}/lake", catalog: "{folder}/lake.db"',
        "sqlite": f'sqlite: "{folder}/f.db", table: odd t, by: {by}',
        "postgresql": f'postgresql: "{postgresql.url}", table: {odd}, by: {by}',
    }


@pytest.mark.slow
def test_columns_of_any_name_come_out_of_every_source(spark, stored, bootstrap_servers, tmp_path):
    assert stored.keys() == all_sources().keys()
    names = [f"`{name.replace('`', '``')}`" for name in ODD_NAMES]
    row = {name: place for place, name in enumerate(ODD_NAMES)}
    found = {}
    for kind, text in stored.items():
        spec = parse_spec(
            f"name: p\nbootstrap_servers: {bootstrap_servers}\nsource: {{{text}}}\nsql: select 1 as a from source\n"
            "sink: {path: out}\n",
            file_name="spec.yaml",
            directory=tmp_path,
        )
        (source,) = spec.sources().values()
        source.check()
        if isinstance(source, TopicSource):
            value = json.dumps(row).encode().hex()
            given = spark.sql(f"select X'6b' as key, X'{value}' as value, 't' as topic, 0 as partition, 0L as offset")
            rows = source.rows(given.selectExpr("*", "timestamp'2026-01-01' as timestamp"), f"m_{kind}")
            found[kind] = [one.asDict() for one in rows.selectExpr(*names).collect()]
        elif isinstance(source, FeedSource):
            assert Reader(source.feed()).batch() == [row]
            found[kind] = [one.asDict() for one in source.load_table(spark).selectExpr(*names).collect()]
        else:
            rows = source.rows(source.load(spark), f"m_{kind}").selectExpr(*names)
            found[kind] = _streamed(rows, tmp_path / f"state-{kind}")
    assert found == {kind: [row] for kind in stored}


def _streamed(rows: Any, state: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    query = (
        rows.writeStream.foreachBatch(lambda batch, _: found.extend(one.asDict() for one in batch.collect()))
        .option("checkpointLocation", str(state))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return found


# --- formats ---

NO_UTF8, REPLACED = b"b\xff\xfe", "b\ufffd\ufffd"
DEAD_LETTER = "dead letter"
OF_FORMATS: dict[str, tuple[str, bytes, Any]] = {
    "string": ("", NO_UTF8, REPLACED),
    "binary": ("", NO_UTF8, NO_UTF8),
    "json": (", schema: value string", b'{"value": "' + NO_UTF8 + b'"}', REPLACED),
    "csv": (", schema: value string", NO_UTF8, REPLACED),
    "text": ("", NO_UTF8, REPLACED),
    "avro": (", schema_file: text.avsc", b"\x06" + NO_UTF8, DEAD_LETTER),
    "protobuf": (", schema_file: text.proto", b"\x0a\x03" + NO_UTF8, DEAD_LETTER),
}
"""Further text of the pipeline file, a value with invalid UTF-8, and the resulting cell of a table. Parquet files have
their own texts."""


@pytest.mark.slow
def test_a_text_that_is_no_utf8_is_replaced_whatever_format_it_comes_in(spark, tmp_path, write, target_of, places):
    assert {*FORMATS_OF_TOPICS, *FORMATS_OF_FILES, *all_formats()} - {"parquet"} == OF_FORMATS.keys()
    avro = {"type": "record", "name": "t", "fields": [{"name": "value", "type": "string"}]}
    (tmp_path / "text.avsc").write_text(json.dumps(avro))
    (tmp_path / "text.proto").write_text('syntax = "proto3"; message T { string value = 1; }')
    for name, (more, value, _) in OF_FORMATS.items():
        place = "files: ." if name == "text" else "topic: t"
        spec = parse_spec(
            f"name: p\nbootstrap_servers: 127.0.0.1:1\nsource: {{{place}, format: {name}{more}}}\n"
            "sql: select value from source\nsink: {path: out}\n",
            file_name="spec.yaml",
            directory=tmp_path,
        )
        (source,) = spec.sources().values()
        columns = {"key": "X'c8'", "value": f"X'{value.hex()}'", "topic": "'t'", "partition": "0", "offset": "0L"}
        given = [f"{sql} as {column}" for column, sql in columns.items()]
        if name == "text":
            given = [f"cast(X'{value.hex()}' as string) as value", "'f' as _file", "X'c8' as _key"]
        rows = source.rows(spark.sql(f"select {', '.join(given)}, timestamp'2026-01-01' as timestamp"), f"m_{name}")
        key = "cast(_key as string)" if name != "text" else "cast(X'c8' as string)"
        write(
            target_of("path"),
            rows.selectExpr(
                f"'{name}' as format",
                "cast(value as binary) as raw",
                "value" if name != "binary" else "cast(value as string) as value",
                f"{key} as k",
            ),
        )
    found = {row["format"]: (row["value"], row["k"], row["raw"]) for row in places["path"].read()}
    wanted = {name: expected for name, (_, _, expected) in OF_FORMATS.items() if expected != DEAD_LETTER}
    assert found.keys() == wanted.keys()
    assert {value for value, _, _ in found.values()} == {REPLACED}
    assert {key for _, key, _ in found.values()} == {"\ufffd"}
    assert found["string"][2] == found["binary"][2] == NO_UTF8
