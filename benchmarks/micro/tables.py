"""Changes a second through the operators over changing tables, and the bytes of their state.

    python -m benchmarks.micro.tables [--keys 100000] [--changes 100000] [--batches 3] [--only newest,join]

First each key comes once, in one micro-batch. Then each batch has changes of keys at random: 90 % new rows, 10 %
deletes. The last batches have 100 changes each: their time is that of a micro-batch that is nearly empty. `local[2]`,
RocksDB, the checkpoint in a temporary folder; the rows go nowhere (`noop`).
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from moldau.spark import open_session
from moldau.spark.tables.aggregates import Aggregate, aggregate
from moldau.spark.tables.buckets import DELETED, Side
from moldau.spark.tables.joins import join
from moldau.spark.tables.lookups import look_up
from moldau.spark.tables.newest import newest, upserts
from moldau.spark.tables.references import join_by_reference
from moldau.spark.tables.start import for_tables

COLUMNS = "side int, id bigint, ref bigint, name string, amount bigint, price double, gone boolean, place bigint"
SMALL, SMALL_BATCHES = 100, 4
OF_ONE_TABLE = ("newest", "aggregate", "upserts")
"""The other half of the changes is of the other table."""


def write(path: Path, number: int, ids: np.ndarray, keys: int, rng: np.random.Generator) -> None:
    count = len(ids)
    gone = rng.random(count) < 0.1 if number else np.zeros(count, bool)
    table = pa.table({
        "side": pa.array(rng.integers(0, 2, count), pa.int32()) if number else pa.array(ids // keys, pa.int32()),
        "id": ids % keys,
        "ref": rng.integers(0, keys, count),
        "name": pa.array([f"name of the row {one}" for one in ids]),
        "amount": rng.integers(0, 1_000, count),
        "price": rng.random(count),
        "gone": gone,
        "place": np.arange(count) + number * 10_000_000,
    })  # fmt: skip
    pq.write_table(table, path / f"{number}.parquet")
    os.utime(path / f"{number}.parquet", (1_000_000 + number,) * 2)


def operators() -> dict[str, Callable[[Side, Side], DataFrame]]:
    by_ref = (Aggregate("count", None, "n"), Aggregate("sum", "amount", "total"), Aggregate("avg", "price", "mean"))
    return {
        "newest": lambda left, right: newest(left),
        "aggregate": lambda left, right: aggregate(newest(left).withColumn("g", f.expr("ref % 1000")), ["g"], by_ref),
        "join": lambda left, right: join(left, right, "left"),
        "reference": lambda left, right: join_by_reference(left, ("ref",), right, "left"),
        "upserts": lambda left, right: upserts(newest(left), ["id"]),
        "lookup": lambda left, right: look_up(Side(left.rows.drop(DELETED, "place"), ("ref",), name="l"), right),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    spark = open_session("tables", cores=2)
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "given"
        given.mkdir()
        write(given, 0, np.arange(2 * arguments.keys), arguments.keys, rng)
        sizes = [arguments.changes] * arguments.batches + [SMALL] * SMALL_BATCHES
        for number, size in enumerate(sizes, start=1):
            write(given, number, rng.integers(0, arguments.keys, size), arguments.keys, rng)
        for name, operator in operators().items():
            if arguments.only and name not in arguments.only.split(","):
                continue
            stream = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(given))
            sides = [
                Side(
                    stream.where(f"side = {side}").drop("side").withColumnRenamed("gone", DELETED), ("id",), "place",
                    "lr"[side],
                )
                for side in (0, 1)
            ]  # fmt: skip
            writer = operator(*sides).writeStream.format("noop").outputMode("update").trigger(availableNow=True)
            before = cpu_seconds()
            with for_tables(spark):
                query = writer.option("checkpointLocation", f"{folder}/{name}").start()
            query.awaitTermination()
            rows = [2 * arguments.keys, *sizes]
            if name in OF_ONE_TABLE:
                rows = [size // 2 for size in rows]
            show(name, rows, [progress for progress in query.recentProgress if progress["numInputRows"]])
            print(f"  {(cpu_seconds() - before) / sum(rows) * 1e6:,.0f} us of CPU for each change, in all processes")
    spark.stop()


def cpu_seconds() -> float:
    """Of the JVM and the Python workers."""
    times = [process.cpu_times() for process in psutil.Process().children(recursive=True)]
    return sum(one.user + one.system for one in times)


def show(name: str, rows: list[int], batches: list) -> None:
    seconds = [batch["durationMs"]["addBatch"] / 1000 for batch in batches]
    large = range(1, len(batches) - SMALL_BATCHES)
    rate = sum(rows[one] for one in large) / sum(seconds[one] for one in large) if large else 0
    state = sum(one["memoryUsedBytes"] for one in batches[-1]["stateOperators"])
    disk = sum(one["customMetrics"].get("rocksdbSstFileSize", 0) for one in batches[-1]["stateOperators"])
    kept = sum(one["numRowsTotal"] for one in batches[-1]["stateOperators"])
    print(
        f"{name}: first batch {rows[0] / seconds[0]:,.0f} rows/s, then {rate:,.0f} changes/s, "
        f"100 changes in {min(seconds[-SMALL_BATCHES:]):.2f} s; {kept:,} rows of state, {disk:,} bytes on disk, "
        f"{state:,} in memory; batches {', '.join(f'{one:.2f}' for one in seconds)} s",
        flush=True,
    )


if __name__ == "__main__":
    main()
