"""Pipeline files for the kinds of targets that are tested with kills, and the expected contents at the end."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from moldau.products.pipelines.targets.iceberg import IcebergTarget
from tests.exactly_once.judge import read_committed
from tests.support.key_history import Change, history_of

TARGET_PARTITIONS = 4
KEYS = 500
"""Record n has the key n % KEYS and the value n."""

_NUMBERS = "(select cast(value as bigint) as number from records)"
_KEY = f"if(number % 2 = 1, number % {KEYS}, {KEYS} + number div 100) as key"
FLOWS = {
    "numbers": f"select number from {_NUMBERS}",
    "sums": f"select {_KEY}, count(*) as times, sum(number) as total from {_NUMBERS} group by all",
    "changes": f"select {_KEY}, number from {_NUMBERS}",
    "histories": f"select {_KEY}, number div 1500 as tracked, number, number ^ 1024 as place from {_NUMBERS}",
}
"""The keys of odd numbers change with every batch, so the last one hides earlier errors. Keys of even numbers change
only in one or two batches: if a batch is lost, they are missing or wrong. A history has the odd numbers' changes of two
thousand numbers in the wrong order: the places of each second thousand come first."""

Row = tuple[int | None, ...]


class Place(msgspec.Struct, frozen=True):
    """The place of the targets: below `folder`, in the database `server`, or the topic `topic` of a cluster, with
    TARGET_PARTITIONS partitions."""

    folder: Path
    server: str
    bootstrap_servers: str
    topic: str


class Kind(msgspec.Struct, frozen=True):
    """`sink`: the target in the pipeline file. `read`: reads all its rows. `middle`: the function, in its module, after
    which the rows are written but not yet committed; None if another process than the driver does both. `flow`: the
    target's input."""

    sink: str
    read: Callable[[Place], Iterable[Row]]
    middle: tuple[str, str] | None
    flow: str = "numbers"


def _rows(table: pa.Table) -> Iterable[Row]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _read_topic(place: Place) -> Iterable[Row]:
    for message in read_committed(place.bootstrap_servers, place.topic, TARGET_PARTITIONS):
        yield (json.loads(message.value())["number"],)


def _read_iceberg(table: str) -> Callable[[Place], Iterable[Row]]:
    def read(place: Place) -> Iterable[Row]:
        lake = place.folder / "lake"
        target = IcebergTarget(mode="append", table=table, warehouse=str(lake), catalog=lake / "catalog.db")
        return _rows(target.open_catalog().load_table(table).scan().to_arrow())

    return read


def _read_postgresql(table: str) -> Callable[[Place], Iterable[Row]]:
    def read(place: Place) -> Iterable[Row]:
        with psycopg.connect(place.server) as connection:
            return connection.execute(f"select * from {table}").fetchall()

    return read


def _read_delta(name: str) -> Callable[[Place], Iterable[Row]]:
    return lambda place: _rows(DeltaTable(place.folder / name).to_pyarrow_table())


def _read_sqlite(table: str) -> Callable[[Place], Iterable[Row]]:
    def read(place: Place) -> Iterable[Row]:
        with closing(sqlite3.connect(place.folder / "shop.db")) as connection:
            return connection.execute(f"select * from {table}").fetchall()

    return read


_PARTS = ("moldau.spark.frames.parquet_parts", "write_parts")
_COPIED = ("moldau.products.pipelines.targets.postgresql", "_copied")
_UPDATE = "mode: update, key: key"
_CHANGES = "apply_as_deletes: number % 7 = 0, " + _UPDATE
_HISTORY = (
    "sequence_by: place, except_column_list: place, stored_as_scd_type: 2, track_history_column_list: tracked, "
    + _CHANGES
)
KINDS = {
    "topic": Kind("topic: {topic}", _read_topic, None),
    "files": Kind(
        "path: {folder}/files",
        lambda place: _rows(pq.read_table(place.folder / "files")),
        ("moldau.products.pipelines.targets.parquet", "_join"),
    ),
    "delta": Kind("delta: {folder}/delta, compact_every: 3", _read_delta("delta"), _PARTS),
    "delta-sums": Kind(
        "delta: {folder}/delta-sums, compact_every: 3, " + _UPDATE, _read_delta("delta-sums"), _PARTS, "sums"
    ),
    "iceberg": Kind("iceberg: shop.out, warehouse: {folder}/lake", _read_iceberg("shop.out"), _PARTS),
    "iceberg-sums": Kind(
        "iceberg: shop.sums, warehouse: {folder}/lake, compact_every: 3, " + _UPDATE,
        _read_iceberg("shop.sums"), _PARTS, "sums",
    ),
    "postgresql": Kind('postgresql: "{server}", table: numbers', _read_postgresql("numbers"), _COPIED),
    "postgresql-sums": Kind(
        'postgresql: "{server}", table: sums, ' + _UPDATE, _read_postgresql("sums"), _COPIED, "sums"
    ),
    "postgresql-changes": Kind(
        'postgresql: "{server}", table: changes, sequence_by: number, ' + _CHANGES,
        _read_postgresql("changes"), _COPIED, "changes",
    ),
    "delta-history": Kind(
        "delta: {folder}/delta-history, compact_every: 3, " + _HISTORY,
        _read_delta("delta-history"), _PARTS, "histories",
    ),
    "iceberg-history": Kind(
        "iceberg: shop.history, warehouse: {folder}/lake, compact_every: 3, " + _HISTORY,
        _read_iceberg("shop.history"), _PARTS, "histories",
    ),
    "postgresql-history": Kind(
        'postgresql: "{server}", table: history, ' + _HISTORY, _read_postgresql("history"), _COPIED, "histories"
    ),
    "sqlite-history": Kind(
        "sqlite: {folder}/shop.db, table: history, " + _HISTORY, _read_sqlite("history"), _PARTS, "histories"
    ),
}  # fmt: skip


def spec_of(kinds: Sequence[str], source: str, place: Place) -> str:
    """Each target has the name of its kind."""
    facts = msgspec.structs.asdict(place)
    targets = "".join(f"  {name}: {{from: {KINDS[name].flow}, {KINDS[name].sink.format(**facts)}}}\n" for name in kinds)
    flows = "".join(f"  {name}: {sql}\n" for name, sql in FLOWS.items() if f"from: {name}" in targets)
    return f"""
name: killed
bootstrap_servers: {place.bootstrap_servers}
checkpoint: {place.folder / "checkpoint"}
sources:
  records: {{topic: {source}, format: string}}
flows:
{flows}targets:
{targets}"""


def faults(kinds: Sequence[str], place: Place, records: int) -> list[str]:
    """The faults after that many records; empty if every record is in each target once."""
    return [
        f"{name}: {fault}"
        for name in kinds
        for fault in faults_of_rows(KINDS[name].flow, KINDS[name].read(place), records)
    ]


def faults_of_rows(flow: str, rows: Iterable[Row], records: int) -> list[str]:
    """The faults in the rows of a target after that many records."""
    wanted, has = Counter(rows_of_flow(flow, range(records))), Counter(rows)
    counts = {"missing": (wanted - has).total(), "too many": (has - wanted).total()}
    return [f"{count:,} rows {what}" for what, count in counts.items() if count]


def rows_of_flow(flow: str, numbers: Iterable[int]) -> Iterable[Row]:
    """The rows that FLOWS makes from the records with these numbers."""
    if flow == "numbers":
        return ((number,) for number in numbers)
    own: dict[int, list[int]] = defaultdict(list)
    for number in numbers:
        own[KEYS + number // 100 if number % 2 == 0 else number % KEYS].append(number)
    if flow == "sums":
        return ((key, len(mine), sum(mine)) for key, mine in own.items())
    if flow == "changes":
        return ((key, max(mine)) for key, mine in own.items() if max(mine) % 7)
    return _histories(own)


def _histories(own: Mapping[int, list[int]]) -> Iterable[Row]:
    for key, mine in own.items():
        changes = [Change(number ^ 1024, number % 7 == 0, number // 1500, number) for number in mine]
        for begin, (end, tracked, number) in history_of(changes).items():
            yield key, tracked, number, begin, end
