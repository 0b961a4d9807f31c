"""Random histories of two tables, what the operators make of them, and what DuckDB makes of their last rows.

`python -m tests.spark.tables.histories --seed 7 --count 500` runs fresh ones, all in one query.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from moldau.spark import open_session
from moldau.spark.tables.aggregates import Aggregate, aggregate
from moldau.spark.tables.buckets import DELETED, Side
from moldau.spark.tables.joins import join
from moldau.spark.tables.newest import newest
from moldau.spark.tables.references import join_by_reference
from moldau.spark.tables.start import for_tables

SCHEMA = pa.schema([
    ("side", pa.string()), ("history", pa.int64()), ("batch", pa.int64()), ("place", pa.int64()), ("id", pa.int64()),
    ("gone", pa.bool_()), ("ref", pa.int64()), ("kind", pa.string()), ("amount", pa.int64()), ("price", pa.float64()),
])  # fmt: skip
"""`side`: "l" or "r". `place`: the order of the rows of a key. `ref`: the id of a row of the other side."""

Event = dict[str, Any]
Table = dict[tuple[Any, ...], str]
"""Rows as JSON, by their keys."""


class Query(msgspec.Struct, frozen=True):
    """`key`: the columns of the result's key. `judge`: the same in DuckDB's SQL over the tables `l` and `r`, which have
    the column `cut`, the number of a batch: their rows after it."""

    key: tuple[str, ...]
    judge: str


COLUMNS = ("history", "id", "ref", "kind", "amount", "price")
BOTH = ", ".join(f"{side}.{name} as {side}_{name}" for side in "lr" for name in COLUMNS)
ON_KEY = "l.cut = r.cut and l.history = r.history and l.id = r.id"
ON_REF = "l.cut = r.cut and l.history = r.history and l.ref = r.id"
AGGREGATES = (
    Aggregate("count", None, "n"), Aggregate("count", "amount", "amounts"), Aggregate("sum", "amount", "total"),
    Aggregate("avg", "amount", "mean"), Aggregate("sum", "price", "prices"), Aggregate("min", "price", "least"),
    Aggregate("max", "kind", "greatest"), Aggregate("count_distinct", "kind", "kinds"),
)  # fmt: skip
OF_GROUP = (
    "count(*) as n, count(amount) as amounts, sum(amount)::bigint as total, avg(amount) as mean, sum(price) as prices, "
    "min(price) as least, max(kind) as greatest, count(distinct kind) as kinds"
)
QUERIES = {
    "newest": Query(("history", "id"), f"select cut, {', '.join(COLUMNS)} from l"),
    "groups": Query(("history", "ref"), f"select cut, history, ref, {OF_GROUP} from l group by all"),
    "having": Query(
        ("history", "ref"),
        "select cut, history, ref, sum(amount)::bigint as total from l group by all having total > 9",
    ),
    **{
        f"{how} join": Query(
            ("l_history", "l_id", "r_history", "r_id"),
            f"select coalesce(l.cut, r.cut) as cut, {BOTH} from l {how} join r on {ON_KEY}",
        )
        for how in ("inner", "left", "right", "full")
    },
    **{
        f"{how} by reference": Query(("l_history", "l_id"), f"select l.cut, {BOTH} from l {how} join r on {ON_REF}")
        for how in ("inner", "left")
    },
    "groups of a join": Query(
        ("history", "kind"),
        f"select l.cut, l.history, r.kind, count(*) as n, sum(l.amount)::bigint as total from l join r on {ON_REF} "
        "group by all",
    ),
    "join of a join": Query(
        ("history", "id"),
        "select l.cut, l.history, l.id, r.kind, again.amount "
        f"from l left join r on {ON_REF} "
        "left join r again on again.cut = l.cut and again.history = l.history and again.id = l.id",
    ),
}


def history_of(seed: int, batches: int) -> Iterator[Event]:
    """Inserts, updates and deletes (also of missing rows) of few keys, in some of the batches."""
    rng = random.Random(seed)
    count = rng.randint(1, 40)
    cuts = sorted(rng.choices(range(batches), k=count))
    for place, batch in enumerate(cuts):
        event: Event = dict.fromkeys(SCHEMA.names)
        event |= {"side": rng.choice("lr"), "history": seed, "batch": batch, "place": place, "id": rng.randrange(4)}
        event["gone"] = rng.random() < rng.choice([0.1, 0.5])
        if not event["gone"]:
            event["ref"] = rng.choice([None, 0, 1, 2, 3])
            event["kind"] = rng.choice([None, "a", "b", "ä"])
            event["amount"] = rng.choice([None, *range(-3, 12)])
            event["price"] = rng.choice([None, 0.25, 0.5, -4.0])
        yield event


def results(sides: DataFrame) -> dict[str, DataFrame]:
    """The changes of each query. `sides`: a stream of events."""
    given = {
        name: Side(
            sides.where(f.col("side") == name).select(*COLUMNS, f.col("gone").alias(DELETED), "place"),
            ("history", "id"), order="place", name=name,
        )
        for name in "lr"
    }  # fmt: skip
    left, right = given["l"], given["r"]
    both = [f"{side}.{name} as {side}_{name}" for side in "lr" for name in COLUMNS]
    by_reference = {
        how: join_by_reference(left, ("history", "ref"), right, how)  # type: ignore[arg-type]
        for how in ("inner", "left")
    }
    pairs = by_reference["inner"].selectExpr("l.history", "r.kind", "l.amount", DELETED)
    firsts = by_reference["left"].selectExpr("l.history", "l.id", "r.kind", DELETED)
    again = join(Side(firsts, ("history", "id"), name="j"), right, "left")
    counted = (Aggregate("count", None, "n"), Aggregate("sum", "amount", "total"))
    return {
        "newest": newest(left),
        "groups": aggregate(newest(left), ("history", "ref"), AGGREGATES),
        "having": aggregate(newest(left), ("history", "ref"), counted[1:]).where("total > 9"),
        **{
            f"{how} join": join(left, right, how).selectExpr(*both, DELETED)  # type: ignore[arg-type]
            for how in ("inner", "left", "right", "full")
        },
        **{f"{how} by reference": rows.selectExpr(*both, DELETED) for how, rows in by_reference.items()},
        "groups of a join": aggregate(pairs, ("history", "kind"), counted),
        "join of a join": again.selectExpr("j.history", "j.id", "j.kind", "r.amount", DELETED),
    }


def judged(events: Sequence[Event], batches: int) -> dict[str, list[Table]]:
    """The rows of each query after each batch, from DuckDB."""
    connection = duckdb.connect()
    connection.register("events", pa.Table.from_pylist(list(events), SCHEMA))
    connection.execute(f"create table cuts as select unnest(range({batches})) as cut")
    for side in "lr":
        connection.execute(
            f"create table {side} as select * from events join cuts on batch <= cut where side = '{side}' "
            "qualify row_number() over (partition by cut, history, id order by place desc) = 1"
        )
        connection.execute(f"delete from {side} where gone")
    tables: dict[str, list[Table]] = {}
    for name, query in QUERIES.items():
        tables[name] = [{} for _ in range(batches)]
        for row in connection.sql(query.judge).to_arrow_table().to_pylist():
            cut = row.pop("cut")
            tables[name][cut][tuple(row[one] for one in query.key)] = text_of(row)
    return tables


def text_of(row: Mapping[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, ensure_ascii=False)


class Watched:
    """A batch's changes as Spark gives them, and the tables that they make. It fails at a change that is none."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[str, str, bool]]] = []
        self.tables: dict[str, list[Table]] = {name: [] for name in QUERIES}

    def see(self, batch: DataFrame, number: int) -> None:
        rows = [(row.query, text_of(json.loads(row.row)), row.deleted) for row in batch.collect()]
        self.batches[number:] = [rows]
        for name, query in QUERIES.items():
            table = dict(self.tables[name][number - 1]) if number else {}
            changes = [(text, is_gone) for one, text, is_gone in rows if one == name]
            for text, is_gone in sorted(changes, key=lambda change: not change[1]):
                key = tuple(json.loads(text)[one] for one in query.key)
                if is_gone:
                    assert table.pop(key, None) == text, f"batch {number}: {name} removes what is not there: {text}"
                else:
                    assert key not in table, f"batch {number}: {name} adds a second row {text}, has {table[key]}"
                    table[key] = text
            self.tables[name][number:] = [table]


def write_batches(events: Sequence[Event], batches: int, directory: Path) -> None:
    """A file for each batch, read in this order. Its rows are in any order: `place` orders them."""
    rng = random.Random(0)
    for number in range(batches):
        rows = [event for event in events if event["batch"] == number]
        rng.shuffle(rows)
        path = directory / f"{number}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)
        os.utime(path, (1_000_000 + number,) * 2)


def stream_of(spark: SparkSession, directory: Path) -> DataFrame:
    columns = (
        "side string, history bigint, batch bigint, place bigint, id bigint, gone boolean, ref bigint, kind string"
    )
    reader = spark.readStream.schema(f"{columns}, amount bigint, price double").option("maxFilesPerTrigger", "1")
    return reader.parquet(str(directory))


def as_texts(changes: Mapping[str, DataFrame]) -> DataFrame:
    """All changes in one frame: the name of the query, the row as JSON, whether it is removed."""
    whole = None
    for name, rows in changes.items():
        columns = [one for one in rows.columns if one != DELETED]
        text = f.to_json(f.struct(*columns), {"ignoreNullFields": "false"})
        one = rows.select(f.lit(name).alias("query"), text.alias("row"), f.col(DELETED).alias("deleted"))
        whole = one if whole is None else whole.union(one)
    assert whole is not None
    return whole


def run(frame: DataFrame, watched: Watched, checkpoint: Path, mode: str = "update") -> Any:
    """Runs a query over all batches that are there; gives the progress of the last one."""
    with for_tables(frame.sparkSession):
        query = (
            frame.writeStream.outputMode(mode)
            .foreachBatch(watched.see)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
    assert query.awaitTermination(600), "the query does not end"
    return query.lastProgress


def first_difference(watched: Watched, wanted: Mapping[str, list[Table]]) -> str | None:
    """Where a query first has other rows than DuckDB; None: nowhere."""
    for name, tables in wanted.items():
        for number, table in enumerate(tables):
            seen = watched.tables[name][number]
            if seen != table:
                key = next(one for one in {**seen, **table} if seen.get(one) != table.get(one))
                return f"{name}, batch {number}, {key}: {seen.get(key)}, but DuckDB has {table.get(key)}"
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--batches", type=int, default=10)
    arguments = parser.parse_args()
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    events = [event for seed in seeds for event in history_of(seed, arguments.batches)]
    spark = open_session("histories", cores=2)
    with tempfile.TemporaryDirectory() as directory:
        watched = Watched()
        (Path(directory) / "events").mkdir()
        write_batches(events, arguments.batches, Path(directory) / "events")
        stream = stream_of(spark, Path(directory) / "events")
        run(as_texts(results(stream)), watched, Path(directory) / "checkpoint")
    found = first_difference(watched, judged(events, arguments.batches))
    spark.stop()
    print(f"{len(seeds)} histories from seed {arguments.seed}, {len(events)} events: {found or 'all as in DuckDB'}")
    raise SystemExit(found is not None)


if __name__ == "__main__":
    main()
