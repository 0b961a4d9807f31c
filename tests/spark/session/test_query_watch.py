"""Metrics of streaming queries for people and Prometheus: from Spark's reports, and during a running session."""

from __future__ import annotations

import http.client
import io
import json

import pytest
from rich.console import Console

from moldau.spark import watch
from moldau.spark.session.query_states import MOST_QUERIES, QueryStates, metrics_page, state_line, states_table
from moldau.types import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def report(batch_id: int, end: object, latest: object = None, rows: int = 0, *, is_batch: bool = True) -> dict:
    return {
        "batchId": batch_id,
        "inputRowsPerSecond": 12.5,
        "processedRowsPerSecond": 1_000.0,
        "batchDuration": 1_500,
        "durationMs": {"addBatch": 3} if is_batch else {"latestOffset": 1},
        "sources": [{"endOffset": end, "latestOffset": latest, "numInputRows": rows}],
    }


def states_of(*reports: dict, name: str = "orders") -> QueryStates:
    states = QueryStates()
    states.started("run", name)
    for one in reports:
        states.progressed("run", one)
    return states


def test_a_state_adds_up_the_batches_and_shows_how_far_each_partition_is_behind():
    first = report(0, {"a": {"0": 5, "1": 9}, "@topic_ids": {"a": "x"}}, {"a": {"0": 15, "1": 10}}, rows=14)
    again, idle = report(0, {"a": {"0": 5, "1": 9}}), report(1, {"a": {"0": 5, "1": 9}}, None, is_batch=False)
    (state,) = states_of(first, again).all()
    assert (state.batches, state.records, state.batch_ms) == (1, 14, 1_500)
    assert {one: bounds.behind for one, bounds in state.partitions.items()} == {A0: 10, A1: 1}
    assert (state.behind, state.most_behind) == (11, (A0, 10))
    (state,) = states_of(first, idle).all()
    assert (state.batches, state.batch_id, state.behind, state.most_behind) == (1, 0, 11, (A0, 10))


@pytest.mark.parametrize("offset", [None, 7, "x", {"a": 7}, {"a": {"x": 7}}, {"a": {"0": "7"}}])
def test_a_source_that_is_no_topic_has_no_lag(offset: object):
    (state,) = states_of(report(0, offset, offset, rows=3)).all()
    assert (state.records, state.partitions) == (3, {})


def test_the_pipeline_for_prometheus_has_a_line_for_each_partition():
    spec = metrics_page(
        states_of(report(0, {"a": {"0": 5}}, {"a": {"0": 15}}, rows=5), name='my "query"').all()
    ).decode()
    assert '\nmoldau_spark_query_records_total{query="my \\"query\\""} 5\n' in spec
    assert '\nmoldau_spark_query_offsets_behind_latest{query="my \\"query\\"",topic="a",partition="0"} 10\n' in spec
    assert "# TYPE moldau_spark_query_batches_total counter\n" in spec


def test_an_end_is_shown_with_its_reason_and_the_number_of_queries_is_bounded():
    states = states_of(report(0, {"a": {"0": 5}}, {"a": {"0": 15}}))
    states.ended("run", "records were lost\n  at org.apache")
    states.ended("never-started", None)
    (state,) = states.all()
    assert (state.is_running, state.error) == (False, "records were lost")
    assert state_line(state).endswith("behind 10; records were lost")
    console = Console(file=io.StringIO(), width=200)
    console.print(states_table([state]))
    assert "records were lost" in console.file.getvalue()
    assert "a-0: 10" in console.file.getvalue()
    for number in range(MOST_QUERIES + 5):
        states.started(str(number), f"query {number}")
    names = [state.name for state in states.all()]
    assert len(names) == MOST_QUERIES
    assert "orders" not in names
    assert names[-1] == f"query {MOST_QUERIES + 4}"


def get(port: int, path: str, host: str | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


@pytest.mark.slow
def test_the_queries_of_a_session_are_watched_in_one_table_and_on_one_pipeline(
    spark, bootstrap_servers, new_topic, produce, tmp_path
):
    console = Console(file=io.StringIO(), width=200)
    topics = {name: new_topic() for name in ("watched-a", "watched-b")}
    with watch(spark, console=console, metrics_port=0) as watching:
        queries = []
        for name, topic in topics.items():
            produce(topic, [(None, b"x")] * 7)
            frame = spark.readStream.format("moldau").option("kafka.bootstrap.servers", bootstrap_servers)
            frame = frame.option("subscribe", topic).option("startingOffsets", "earliest")
            frame = frame.option("maxOffsetsPerTrigger", "5").load()
            writer = frame.writeStream.format("noop").queryName(name).trigger(availableNow=True)
            queries.append(writer.option("checkpointLocation", str(tmp_path / name)).start())
        for query in queries:
            query.awaitTermination()
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(60_000)
        port = watching.metrics_port
        status, spec = get(port, "/metrics")
        assert status == 200
        for name, topic in topics.items():
            assert f'moldau_spark_query_records_total{{query="{name}"}} 7\n' in spec
            assert f'moldau_spark_query_running{{query="{name}"}} 0\n' in spec
            behind = f'offsets_behind_latest{{query="{name}",topic="{topic}",partition="0"}}'
            assert f"moldau_spark_query_{behind} 0\n" in spec
        assert get(port, "/")[0] == 404
        assert get(port, "/metrics", "elsewhere.example:80")[0] == 403
        first = queries[0].recentProgress[0]["sources"][0]
        offsets = [json.loads(str(first[key]).replace("'", '"')) for key in ("endOffset", "latestOffset")]
        assert [offset[topics["watched-a"]] for offset in offsets] == [{"0": 5}, {"0": 7}]
    with pytest.raises(OSError, match="refused"):
        get(port, "/metrics")
    assert "watched-b: ended, batch 2, read 7 records" in console.file.getvalue()
