"""A pipeline of several sources, flows and targets: one Spark session, one query for each target."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, TopicPartition
from rich.console import Console

from moldau.columnar.reader import read_topic
from moldau.products.pipelines.checkpoints.checkpoint import CheckpointError
from moldau.products.pipelines.core.case import Row
from moldau.products.pipelines.core.failures import PipelineFailedError
from moldau.products.pipelines.core.start import LATEST
from moldau.products.pipelines.core.statement import relations_of
from moldau.products.pipelines.looking.outlook import preview
from moldau.products.pipelines.running.checkpoint_versions import reset
from moldau.products.pipelines.running.flow import load_sources, make_views, rows_of
from moldau.products.pipelines.running.refreshing import KeptTables
from moldau.products.pipelines.running.runner import run_pipeline
from moldau.products.pipelines.spec.spec import parse_spec
from moldau.testing import Cluster
from tests.spark.streams import add_partitions, delete_records
from tests.support.sql_statements import STATEMENTS


@pytest.fixture
def run_text(spark, tmp_path: Path):
    """Runs a pipeline once, as the command does; gives the last states."""

    def run(text: str, **options: float):
        spec = parse_spec(text, file_name="spec.yaml", directory=tmp_path)
        with open(os.devnull, "w") as nowhere:
            return run_pipeline(spec, once=True, console=Console(file=nowhere), **options)

    return run


def values(servers: str, topic: str) -> list[dict[str, object]]:
    rows = [row for batch in read_topic(servers, topic) for row in batch.column("value").to_pylist()]
    return [json.loads(row) for row in rows]


def committed(servers: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    consumer.close()
    return found.offset


@pytest.mark.slow
def test_one_flow_goes_to_two_targets_and_into_another_flow(
    run_text, new_topic, new_name, produce, bootstrap_servers, tmp_path: Path
):
    orders, counts, name = new_topic(), new_topic(), new_name("shop").replace(".", "-")
    sent = [b'{"user":"ann","amount":120}', b'{"user":"bob","amount":5}', b"no JSON", b'{"user":"ann","amount":300}']
    produce(orders, [(None, value) for value in sent])
    spec = f"""
name: {name}
bootstrap_servers: {bootstrap_servers}
sources:
  orders: {{topic: {orders}, format: json, schema: "user string, amount double"}}
flows:
  big: select user, amount from orders where amount >= 100
  counts: select user, count(*) as n from big group by user
targets:
  lake: {{from: big, path: out/big}}
  counts: {{topic: {counts}, key: user, mode: update}}
checkpoint: state
"""
    states = run_text(spec)
    assert [(state.name, state.state, state.lag, state.dead_letters) for state in states] == [
        (f"{name}.lake", "finished", 0, 1),
        (f"{name}.counts", "finished", 0, None),
    ]
    assert sorted(row["amount"] for row in pq.read_table(tmp_path / "out" / "big").to_pylist()) == [120, 300]
    assert values(bootstrap_servers, counts) == [{"user": "ann", "n": 2}]
    assert [committed(bootstrap_servers, f"moldau.{name}.{one}", orders) for one in ("lake", "counts")] == [4, 4]
    assert (tmp_path / "state" / "lake" / "commits" / "0").exists()
    produce(orders, [(None, b'{"user":"ann","amount":100}')])
    assert [state.records_read for state in run_text(spec)] == [1, 1]
    assert values(bootstrap_servers, counts)[-1] == {"user": "ann", "n": 3}


@pytest.mark.slow
def test_topics_of_several_clusters_are_read_and_written_by_name_and_pattern(
    run_text, new_topic, new_name, produce, bootstrap_servers
):
    name = new_name("two")
    here, joined = new_topic(), new_topic()
    new_topic(name=f"{name}-eu"), new_topic(name=f"{name}-us")
    produce(here, [(b"1", b"ann")])
    produce(f"{name}-eu", [(b"1", b"x")])
    produce(f"{name}-us", [(b"1", b"y")])
    with Cluster() as other:
        there, both = other.topic(), other.topic()
        other.produce(there, "far", key="1")
        states = run_text(f"""
name: {name}
bootstrap_servers: {bootstrap_servers}
sources:
  here: {{topic: {here}, format: string}}
  there: {{topic: {there}, format: string, bootstrap_servers: "{other.bootstrap_servers}"}}
  all_of_them: {{pattern: "{name}-(eu|us)", format: string}}
flows:
  joined: select here.value as here, there.value as there from here join there on here._key = there._key
  both: select value from all_of_them
targets:
  joined: {{topic: {joined}}}
  both: {{topic: {both}, bootstrap_servers: "{other.bootstrap_servers}"}}
checkpoint: state
""")
        assert [(state.state, state.lag) for state in states] == [("finished", 0), ("finished", 0)]
        assert values(bootstrap_servers, joined) == [{"here": "ann", "there": "far"}]
        assert other.lag(f"moldau.{name}.joined") == 0
        assert sorted(record.value or b"" for record in other.records(both)) == [b"x", b"y"]
    assert [committed(bootstrap_servers, f"moldau.{name}.both", f"{name}-{one}") for one in ("eu", "us")] == [1, 1]


def test_a_topic_is_mirrored_to_the_same_name_on_another_cluster(
    run_text, new_topic, new_name, produce, read_back, bootstrap_servers
):
    name, topic, more = new_name("mirror"), new_topic(), new_topic()
    produce(more, [(None, b"d"), (None, b"e")])
    with Cluster() as other:
        other.create_topic(topic, 2)
        other.produce(topic, "a", "b", partition=0)
        other.produce(topic, "c", partition=1)
        (state,) = run_text(f"""
name: {name}
bootstrap_servers: {bootstrap_servers}
sources:
  far: {{topic: {topic}, format: string, bootstrap_servers: "{other.bootstrap_servers}"}}
  near: {{topic: {more}, format: string}}
flows:
  all_of_them: select value from far union all select value from near
targets:
  mirror: {{from: all_of_them, topic: {topic}}}
checkpoint: state
retry_timeout: 2 seconds
""")
        assert (state.state, state.lag) == ("finished", 0)
        group = f"moldau.{name}.mirror"
        assert other.lag(group, by_partition=True) == {(topic, 0): 0, (topic, 1): 0}
    assert sorted(value for _, value in read_back(topic)) == [b"a", b"b", b"c", b"d", b"e"]
    assert committed(bootstrap_servers, group, more) == 2
    assert committed(bootstrap_servers, group, topic) == OFFSET_INVALID


@pytest.mark.slow
def test_a_stream_is_joined_with_the_newest_record_of_each_key(
    run_text, new_topic, new_name, produce, bootstrap_servers, tmp_path: Path
):
    orders, users, out, name = new_topic(), new_topic(2), new_topic(), new_name("join").replace(".", "-")
    spec = f"""
name: {name}
bootstrap_servers: {bootstrap_servers}
sources:
  orders: {{topic: {orders}, format: json, schema: "user string, n int"}}
  users: {{topic: {users}, format: json, schema: "city string", as: table}}
flows:
  placed: select orders.n, users.city from orders left join users on orders.user = users._key
targets:
  placed: {{topic: {out}}}
checkpoint: state
"""

    def order(user: str, n: int) -> None:
        produce(orders, [(None, json.dumps({"user": user, "n": n}).encode())])

    produce(users, [(b"ann", b'{"city":"Prag"}'), (b"bob", b'{"city":"Brno"}')])
    produce(users, [(b"ann", b'{"city":"Linz"}'), (b"bob", None), (b"eve", b"no JSON")])
    for n, user in enumerate(("ann", "bob", "eve")):
        order(user, n)
    assert [(state.lag, state.dead_letters) for state in run_text(spec)] == [(0, 0)]
    assert {row["n"]: row.get("city") for row in values(bootstrap_servers, out)} == {0: "Linz", 1: None, 2: None}
    (shown,) = preview(parse_spec(spec, file_name="spec.yaml", directory=tmp_path), "users", 5)
    assert (shown["_key"], shown["city"]) == ("ann", "Linz")
    produce(users, [(b"bob", b'{"city":"Wien"}')], partition=1)
    order("bob", 3)
    run_text(spec)
    assert values(bootstrap_servers, out)[-1] == {"n": 3, "city": "Wien"}


@pytest.mark.slow
def test_a_table_is_read_by_each_batch_or_kept_as_long_as_it_is_told(spark, new_topic, produce, bootstrap_servers):
    """Within one query: how batches see a table that grows between them."""
    orders, users = new_topic(), new_topic()
    text = f"""
name: kept
bootstrap_servers: {bootstrap_servers}
sources:
  orders: {{topic: {orders}, format: string}}
  fresh: {{topic: {users}, format: string, as: table}}
  kept: {{topic: {users}, format: string, as: table, refresh: 1 hour}}
  aged: {{topic: {users}, format: string, as: table, refresh: 1 millisecond}}
flows:
  counted: >
    select orders.value, (select count(*) from fresh) as fresh, (select count(*) from kept) as kept,
    (select count(*) from aged) as aged from orders
targets:
  counted: {{path: out}}
"""
    spec = parse_spec(text, file_name="spec.yaml", directory=Path("/pages"))
    views = make_views(spark, spec, load_sources(spark, spec, {}))
    seen: list[Row] = []
    with closing(KeptTables(spec, views)) as tables:
        produce(users, [(b"1", b"x")])  # before the start: the first batch may have no orders
        query = views["counted"].writeStream.foreachBatch(lambda batch, _: seen.extend(rows_of(batch))).start()
        try:
            for n in (1, 2):
                produce(orders, [(None, str(n).encode())])
                query.processAllAvailable()
                produce(users, [(str(n + 1).encode(), b"x")])
                tables.refresh()
        finally:
            query.stop()
    assert seen == [
        {"value": "1", "fresh": 1, "kept": 1, "aged": 1},
        {"value": "2", "fresh": 2, "kept": 1, "aged": 2},
    ]


@pytest.mark.slow
def test_a_target_that_fails_is_tried_again_and_its_neighbour_goes_on(
    run_text, new_topic, new_name, produce, bootstrap_servers, tmp_path: Path
):
    topic, out, name = new_topic(), new_topic(), new_name("fails").replace(".", "-")
    produce(topic, [(None, b"1"), (None, b"no number")])
    spec = f"""
name: {name}
bootstrap_servers: {bootstrap_servers}
sources:
  numbers: {{topic: {topic}, format: string}}
flows:
  checked: select if(cast(value as string) rlike '^[0-9]+$', value, raise_error('no number here')) as value from numbers
targets:
  bad: {{from: checked, topic: {out}}}
  good: {{from: numbers, path: out}}
checkpoint: state
"""
    with pytest.raises(PipelineFailedError, match=r"^spec\.yaml:9: `targets\.bad`: (.|\n)*no number here"):
        run_text(spec, retry_first_seconds=0.01)
    assert sorted(row["value"] for row in pq.read_table(tmp_path / "out").to_pylist()) == ["1", "no number"]
    assert committed(bootstrap_servers, f"moldau.{name}.good", topic) == 2


@pytest.mark.slow
def test_a_failure_names_the_flow_its_line_and_the_record_that_failed(
    run_text, new_topic, new_name, produce, bootstrap_servers
):
    topic, name = new_topic(2), new_name("zero").replace(".", "-")
    spec = f"""
name: {name}
bootstrap_servers: {bootstrap_servers}
sources:
  numbers: {{topic: {topic}, format: json, schema: n int}}
flows:
  small: select n from numbers where n < 10
  inverse: |
    select n,
      10 / n as inverse
    from small
targets:
  inverse: {{path: out}}
checkpoint: state
"""
    produce(topic, [(None, b'{"n":1}'), (None, b'{"n":2}')], partition=0)
    run_text(spec)
    produce(topic, [(None, b'{"n":3}')], partition=0)
    produce(topic, [(None, b'{"n":0}'), (None, b'{"n":4}')], partition=1)
    with pytest.raises(PipelineFailedError) as failure:
        run_text(spec, retry_first_seconds=0.01)
    told = str(failure.value)
    assert told.startswith("spec.yaml:13: `targets.inverse`: [DIVIDE_BY_ZERO] Division by zero.")
    where = "in `flows.inverse` (spec.yaml:8), line 2 of its SQL: `10 / n as inverse`"
    assert told.endswith(f"; {where}; in batch 1, at the record {topic}-1 offset 0")


@pytest.mark.slow
def test_dead_letters_of_a_source_continue_when_its_first_reader_is_removed(
    run_text, new_topic, new_name, produce, bootstrap_servers
):
    """The second reader is further than the first one, but has recorded only the dead letters of its other source."""
    numbers, others, name = new_topic(), new_topic(), new_name("letters").replace(".", "-")
    produce(numbers, [(None, b'{"n": 1}')])
    produce(others, [(None, b'{"n": 2}'), (None, b"bad other")])
    head = f"""
name: {name}
bootstrap_servers: {bootstrap_servers}
checkpoint: state
sources:
  numbers: {{topic: {numbers}, format: json, schema: n int, dead_letters: {numbers}-letters}}
  others: {{topic: {others}, format: json, schema: n int, dead_letters: {others}-letters}}
flows:
  all: select n from numbers union all select n from others
"""
    both = "  checked: select if(n = 13, raise_error('not this one'), n) as n from numbers\n"
    both += "targets:\n  first: {from: checked, path: first}\n  all: {path: all}\n"
    run_text(head + both)
    produce(numbers, [(None, b'{"n": 13}'), (None, b"bad number")])
    with pytest.raises(PipelineFailedError, match="not this one"):
        run_text(head + both, retry_first_seconds=0.01)
    run_text(head + "targets:\n  all: {path: all}\n")
    letters = [
        [row for batch in read_topic(bootstrap_servers, f"{one}-letters") for row in batch.column("value").to_pylist()]
        for one in (numbers, others)
    ]
    assert letters == [[b"bad number"], [b"bad other"]]


@pytest.mark.slow
def test_after_a_reset_a_run_begins_where_it_was_told(run_text, new_topic, new_name, produce, read_back,
                                                      bootstrap_servers, tmp_path: Path):  # fmt: skip
    topic, out, name = new_topic(2), new_topic(), new_name("again").replace(".", "-")
    produce(topic, [(None, b"a"), (None, b"b"), (None, b"c")], partition=0)
    produce(topic, [(None, b"d")], partition=1)
    spec = f"""
name: {name}
bootstrap_servers: {bootstrap_servers}
source: {{topic: {topic}, format: string}}
sql: select value from source
sink: {{topic: {out}}}
checkpoint: state
"""
    run_text(spec)
    changed = spec.replace("select value", "select upper(value) as value")
    with pytest.raises(CheckpointError, match=r"`sql` .* changed .* `moldau pipeline reset`"):
        run_text(changed)
    reset(parse_spec(changed, file_name="spec.yaml", directory=tmp_path), {topic: {"0": 2, "1": 0}})
    (state,) = run_text(changed)
    assert (state.records_read, state.lag) == (2, 0)
    assert sorted(value for _, value in read_back(out)) == [b"C", b"D", b"a", b"b", b"c", b"d"]


@pytest.mark.slow
def test_a_reset_does_not_rule_a_target_that_was_added_later(run_text, new_name, bootstrap_servers, tmp_path: Path):
    name = new_name("added").replace(".", "-")
    with Cluster() as other:
        topic = other.topic()
        other.produce(topic, "a", "b")
        spec = f"""
name: {name}
bootstrap_servers: {other.bootstrap_servers}
sources:
  rows: {{topic: {topic}, format: string}}
targets:
  first: {{from: rows, path: first}}
checkpoint: state
"""

        def run(*added: str) -> list[int]:
            more = "".join(f"  {target}: {{from: rows, path: {target}}}\n" for target in added)
            return [state.records_read for state in run_text(spec.replace("checkpoint:", f"{more}checkpoint:"))]

        reset(parse_spec(spec, file_name="spec.yaml", directory=tmp_path), LATEST)
        other.produce(topic, "c")
        add_partitions(other, topic, 2)
        other.produce(topic, "d", partition=1)
        assert run("second") == [2, 4]
        delete_records(other, topic, before=3)
        other.produce(topic, "e", partition=0)
        assert run("second", "third") == [1, 1, 2]


@pytest.mark.parametrize("sql", STATEMENTS)
def test_spark_finds_the_relations_that_we_find(spark, sql: str):
    """Spark's parser is the oracle: its unresolved relations of one part, after it has resolved the WITH
    definitions."""
    parsed = spark._jsparkSession.sessionState().sqlParser().parsePlan(sql)
    plan = spark._jvm.org.apache.spark.sql.catalyst.analysis.CTESubstitution.apply(parsed).toString()
    named = {part.partition("]")[0] for part in plan.split("UnresolvedRelation [")[1:]}
    assert {one for one in named if "," not in one} == set(relations_of(sql))


@pytest.mark.slow
def test_a_recreated_topic_ends_the_pipeline_unless_it_may_skip_lost_records(
    run_text, new_name, bootstrap_servers, tmp_path: Path
):
    name = new_name("anew").replace(".", "-")
    with Cluster() as other:
        topic = other.topic()
        other.produce(topic, '{"value":"a"}', '{"value":"b"}', '{"value":"c"}')
        spec = f"""
name: {name}
bootstrap_servers: {other.bootstrap_servers}
source: {{topic: {topic}, format: json, schema: value string}}
sql: select value from source
sink: {{path: out}}
checkpoint: state
"""
        assert run_text(spec)[0].records_read == 3
        other.delete_topic(topic)
        other.create_topic(topic)
        # more than were read of the old topic, and the first one does not parse
        other.produce(topic, "no JSON", '{"value":"d"}', '{"value":"e"}', '{"value":"f"}')
        advice = r"write `lost_records: skip` in their source, or begin again with `moldau pipeline reset`"
        with pytest.raises(PipelineFailedError, match=f"topic {topic} was deleted and created again.*, {advice}$"):
            run_text(spec, retry_first_seconds=0.01)
        (state,) = run_text(spec.replace("format: json", "format: json, lost_records: skip"))
        assert (state.records_read, state.dead_letters, state.lag) == (4, 1, 0)
    assert sorted(row["value"] for row in pq.read_table(tmp_path / "out").to_pylist()) == list("abcdef")
