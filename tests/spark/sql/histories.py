"""Random histories of two tables in topics, what statements of SQL make of them, and what DuckDB makes of them.

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


def tables_of(engine: Engine, servers: str, events: Sequence[Event], batches: int) -> dict[str, Table]:
    """The rows of each query after all batches of events, which come one after the other."""
    session = Session()
    queries = "".join(f"CREATE TABLE {name_of(name)} AS {text};" for name, text in STATEMENTS.items())
    for _ in engine.execute(TABLES + queries, session):
        pass
    for number in range(batches):
        write(servers, [event for event in events if event["batch"] == number])
        engine.wait_until_processed(WITHIN_S)
    return {name: dict(_rows(engine, name)) for name in STATEMENTS}


def _rows(engine: Engine, name: str) -> Iterator[tuple[tuple[object, ...], str]]:
    (answer,) = engine.execute(f"SELECT * FROM {name_of(name)}", Session())
    assert isinstance(answer, Rows)
    with closing(answer.stream) as stream:
        names = [column for column, _ in stream.columns]
        while not stream.is_over:
            for one in stream.read(1_000, 1.0):
                row = {name: value for name, value in zip(names, one.values, strict=True) if name[:4] != "key_"}
                yield tuple(row[key] for key in QUERIES[name].key), text_of(row)


def difference(found: Mapping[str, Table], events: Sequence[Event], batches: int) -> str | None:
    """Where a query has other rows than DuckDB; None: nowhere."""
    for name, tables in judged(events, batches).items():
        wanted, seen = tables[-1], found[name]
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
    with cluster_under_test() as servers, tempfile.TemporaryDirectory() as directory:
        spark = open_session("histories", cores=os.cpu_count())
        with Engine(spark, EngineSettings(ClusterAccess.of(servers), Path(directory))) as engine:
            found = difference(tables_of(engine, servers, events, arguments.batches), events, arguments.batches)
        spark.stop()
    print(f"{len(seeds)} histories from seed {arguments.seed}, {len(events)} events: {found or 'all as in DuckDB'}")
    raise SystemExit(found is not None)


if __name__ == "__main__":
    main()
