"""Random histories of two tables and a stream, what statements of SQL make of them, and what DuckDB makes of them.

`python -m tests.spark.sql.histories --seed 7 --count 2000` runs fresh ones; the history is a column of each key, so all
run in the same queries.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
from confluent_kafka import Producer

from moldau.client.protocol.access import ClusterAccess
from moldau.products.sql.engine.answers import Rows
from moldau.products.sql.engine.engine import Engine, EngineSettings
from moldau.products.sql.engine.session import Session
from moldau.spark import open_session
from tests.spark.tables.histories import COLUMNS, QUERIES, Event, Table, history_of, judged, text_of
from tests.support.cluster_under_test import cluster_under_test

TABLES = "".join(
    f"CREATE TABLE {side} (history BIGINT PRIMARY KEY, id BIGINT PRIMARY KEY, ref BIGINT, kind STRING, amount BIGINT, "
    f"price DOUBLE) WITH (kafka_topic = '{side}', key_format = 'JSON', partitions = 2);"
    for side in "lr"
)
_BOTH = ", ".join(f"{side}.{name} AS {side}_{name}" for side in "lr" for name in COLUMNS)
_ON_KEY = "l.history = r.history AND l.id = r.id"
_ON_REF = "l.history = r.history AND l.ref = r.id"
_KEYS = "COALESCE(l.history, r.history) AS key_history, COALESCE(l.id, r.id) AS key_id"
STATEMENTS = {
    "newest": f"SELECT {', '.join(COLUMNS)} FROM l",
    "groups": "SELECT history, ref, count(*) AS n, count(amount) AS amounts, sum(amount) AS total, "
    "avg(amount) AS mean, sum(price) AS prices, min(price) AS least, max(kind) AS greatest, "
    "count(DISTINCT kind) AS kinds FROM l GROUP BY history, ref",
    "having": "SELECT history, ref, sum(amount) AS total FROM l GROUP BY history, ref HAVING sum(amount) > 9",
    "inner join": f"SELECT {_BOTH} FROM l JOIN r ON {_ON_KEY}",
    "left join": f"SELECT {_BOTH} FROM l LEFT JOIN r ON {_ON_KEY}",
    "right join": f"SELECT {_BOTH} FROM l RIGHT JOIN r ON {_ON_KEY}",
    "full join": f"SELECT {_KEYS}, {_BOTH} FROM l FULL JOIN r ON {_ON_KEY}",
    "inner by reference": f"SELECT {_BOTH} FROM l JOIN r ON {_ON_REF}",
    "left by reference": f"SELECT {_BOTH} FROM l LEFT JOIN r ON {_ON_REF}",
    "groups of a join": "SELECT l.history AS history, r.kind AS kind, count(*) AS n, sum(l.amount) AS total "
    f"FROM l JOIN r ON {_ON_REF} GROUP BY l.history, r.kind",
    "join of a join": "SELECT l.history AS history, l.id AS id, r.kind AS kind, again.amount AS amount FROM l "
    f"LEFT JOIN r ON {_ON_REF} LEFT JOIN r again ON again.history = l.history AND again.id = l.id",
}
"""The queries of `tests.spark.tables.histories` in SQL."""

STREAM = "CREATE STREAM s (history BIGINT, kind STRING, amount BIGINT) WITH (kafka_topic = 's', partitions = 2);"
SPAN_S = 1000
"""The event times of a batch lie in a span of this length, or in the next one. The grace period of the windows is
twice as long. So these rows are never late, in whatever micro-batches Spark reads them, and rows of an earlier span, in
batch 3 and later, always are."""
_GRACE = f"GRACE PERIOD {2 * SPAN_S} SECONDS"
_TUMBLING = f"FROM s WINDOW TUMBLING (SIZE 60 SECONDS, {_GRACE})"
_OF_WINDOW = "count(*) AS n, sum(amount) AS total, min(amount) AS least, max(kind) AS greatest"
_TIMES = "WINDOWSTART AS start_ms, WINDOWEND AS end_ms"
WINDOWED = {
    "tumbling": f"SELECT history, {_TIMES}, {_OF_WINDOW} {_TUMBLING} GROUP BY history",
    "tumbling final": f"SELECT history, {_TIMES}, {_OF_WINDOW} {_TUMBLING} GROUP BY history EMIT FINAL",
    "tumbling having": f"SELECT history, {_TIMES}, sum(amount) AS total {_TUMBLING} GROUP BY history "
    "HAVING sum(amount) > 5",
    "hopping": f"SELECT history, kind, {_TIMES}, count(*) AS n, sum(amount) AS total "
    f"FROM s WINDOW HOPPING (SIZE 60 SECONDS, ADVANCE BY 20 SECONDS, {_GRACE}) GROUP BY history, kind",
    "session final": f"SELECT history, kind, {_TIMES}, count(*) AS n, sum(amount) AS total "
    f"FROM s WINDOW SESSION (30 SECONDS, {_GRACE}) GROUP BY history, kind EMIT FINAL",
}
_JUDGED_WINDOW = "count(*) as n, sum(amount)::bigint as total, min(amount) as least, max(kind) as greatest"
_IN_MINUTE = "at_ms // 60000 * 60000 as start_ms, at_ms // 60000 * 60000 + 60000 as end_ms"
_JUDGED_MINUTE = f"select history, {_IN_MINUTE}, {_JUDGED_WINDOW} from s group by all"
WINDOWED_JUDGES = {
    "tumbling": _JUDGED_MINUTE,
    "tumbling final": _JUDGED_MINUTE,
    "tumbling having": f"select history, {_IN_MINUTE}, sum(amount)::bigint as total from s group by all "
    "having total > 5",
    "hopping": "select history, kind, at_ms // 20000 * 20000 - back * 20000 as start_ms, start_ms + 60000 as end_ms, "
    "count(*) as n, sum(amount)::bigint as total from s, range(3) hops(back) group by all",
    "session final": "select history, kind, min(at_ms) as start_ms, max(at_ms) + 30000 as end_ms, count(*) as n, "
    "sum(amount)::bigint as total from (select *, sum(is_first) over (partition by history, kind order by at_ms "
    "rows unbounded preceding) as session from (select *, (at_ms - lag(at_ms) over (partition by history, kind "
    "order by at_ms) <= 30000 is not true)::int as is_first from s)) group by history, kind, session",
}
STREAM_SCHEMA = pa.schema([(name, pa.int64()) for name in ("history", "batch", "at_ms", "amount")])
STREAM_SCHEMA = STREAM_SCHEMA.append(pa.field("kind", pa.string())).append(pa.field("late", pa.bool_()))
TICKS = -1
"""The history of rows that only move the watermark."""
WITHIN_S = 600.0


def name_of(query: str) -> str:
    return "t_" + query.replace(" ", "_")


def write(servers: str, events: Sequence[Event]) -> None:
    """Each event as a record of the topic of its side, in the order of their places."""
    producer = Producer({"bootstrap.servers": servers})
    for event in sorted(events, key=lambda one: one["place"]):
        key = json.dumps({"history": event["history"], "id": event["id"]})
        value = (
            None if event["gone"] else json.dumps({name: event[name] for name in ("ref", "kind", "amount", "price")})
        )
        producer.produce(event["side"], value=value, key=key)
        producer.poll(0)
    assert producer.flush(60) == 0


def stream_rows_of(seed: int, batches: int) -> Iterator[Event]:
    """Rows of a stream, some of them late. `at_ms`: event time in ms."""
    rng = random.Random(seed)
    for _ in range(rng.randint(1, 30)):
        batch = rng.randrange(batches)
        late = batch >= 3 and rng.random() < 0.2
        span = batch - 1 if late else batch + rng.randint(1, 2)  # not 0: a producer takes 0 ms as now
        at = (span * SPAN_S + rng.randrange(4) * 200 + rng.randrange(90)) * 1000 + rng.choice([0, 0, 999])
        yield {
            "history": seed, "batch": batch, "at_ms": at, "late": late,
            "kind": rng.choice([None, "a", "b"]), "amount": rng.choice([None, *range(-3, 12)]),
        }  # fmt: skip


def write_rows(servers: str, rows: Sequence[Event]) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for row in rows:
        value = json.dumps({name: row[name] for name in ("history", "kind", "amount")})
        producer.produce("s", value=value, timestamp=row["at_ms"])
        producer.poll(0)
    assert producer.flush(60) == 0


def tables_of(
    engine: Engine, servers: str, events: Sequence[Event], rows: Sequence[Event], batches: int
) -> dict[str, Table]:
    """The rows of each query after all batches, which come one after the other."""
    session = Session()
    queries = "".join(f"CREATE TABLE {name_of(name)} AS {text};" for name, text in {**STATEMENTS, **WINDOWED}.items())
    for _ in engine.execute(TABLES + STREAM + queries, session):
        pass
    for number in range(batches):
        write(servers, [event for event in events if event["batch"] == number])
        write_rows(servers, [row for row in rows if row["batch"] == number] + [tick(number)])
        engine.wait_until_processed(WITHIN_S)
    write_rows(servers, [tick(1_000_000)])
    engine.wait_until_processed(WITHIN_S)
    return {name: dict(_rows(engine, name)) for name in (*STATEMENTS, *WINDOWED)}


def tick(batch: int) -> Event:
    return {"history": TICKS, "at_ms": ((batch + 2) * SPAN_S + SPAN_S * 9 // 10) * 1000, "kind": None, "amount": None}


def key_of(name: str) -> tuple[str, ...]:
    if name in QUERIES:
        return QUERIES[name].key
    return ("history", "start_ms", "end_ms") if "tumbling" in name else ("history", "kind", "start_ms", "end_ms")


def _rows(engine: Engine, name: str) -> Iterator[tuple[tuple[object, ...], str]]:
    (answer,) = engine.execute(f"SELECT * FROM {name_of(name)}", Session())
    assert isinstance(answer, Rows)
    with closing(answer.stream) as stream:
        names = [column for column, _ in stream.columns]
        while not stream.is_over:
            for one in stream.read(1_000, 1.0):
                named = zip(names, one.values, strict=True)
                row = {name: value for name, value in named if name[:4] not in ("key_", "WIND")}
                if row.get("history") != TICKS:
                    yield tuple(row[key] for key in key_of(name)), text_of(row)


def judged_windows(rows: Sequence[Event]) -> dict[str, Table]:
    connection = duckdb.connect()
    connection.register("given", pa.Table.from_pylist(list(rows), STREAM_SCHEMA))
    connection.execute("create table s as select * from given where not late")
    found: dict[str, Table] = {}
    for name, query in WINDOWED_JUDGES.items():
        windows = connection.sql(query).to_arrow_table().to_pylist()
        found[name] = {tuple(row[one] for one in key_of(name)): text_of(row) for row in windows}
    return found


def difference(found: Mapping[str, Table], events: Sequence[Event], rows: Sequence[Event], batches: int) -> str | None:
    """Where a query has other rows than DuckDB; None: nowhere."""
    tables = {name: after_each[-1] for name, after_each in judged(events, batches).items()}
    for name, wanted in {**tables, **judged_windows(rows)}.items():
        seen = found[name]
        if seen != wanted:
            key = next(one for one in {**seen, **wanted} if seen.get(one) != wanted.get(one))
            return f"{name}, {key}: {seen.get(key)}, but DuckDB has {wanted.get(key)}"
    return None


def events_of(seeds: Sequence[int], batches: int) -> list[Event]:
    return [event for seed in seeds for event in history_of(seed, batches)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--batches", type=int, default=5)
    arguments = parser.parse_args()
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    events = events_of(seeds, arguments.batches)
    rows = [row for seed in seeds for row in stream_rows_of(seed, arguments.batches)]
    with cluster_under_test() as servers, tempfile.TemporaryDirectory() as directory:
        spark = open_session("histories", cores=os.cpu_count())
        with Engine(spark, EngineSettings(ClusterAccess.of(servers), Path(directory))) as engine:
            seen = tables_of(engine, servers, events, rows, arguments.batches)
            found = difference(seen, events, rows, arguments.batches)
        spark.stop()
    counts = f"{len(events)} changes of tables, {len(rows)} rows of the stream"
    print(f"{len(seeds)} histories from seed {arguments.seed}, {counts}: {found or 'all as in DuckDB'}")
    raise SystemExit(found is not None)


if __name__ == "__main__":
    main()
