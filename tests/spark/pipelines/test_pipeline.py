"""`moldau pipeline run`: topic to topic and to files, its group's lag, a clean stop, and killed drivers."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from moldau.cli.commands import build_parser
from moldau.cli.main import main
from moldau.cli.pipelines import pipeline as pipeline_command
from moldau.client.protocol.access import ClusterAccess
from moldau.errors import MoldauError
from moldau.products.console.cluster import Cluster as LookedAt
from moldau.products.pipelines.checkpoints.lease import Lease
from moldau.products.pipelines.core.commit_metadata import CommitMetadata, PipelineMetadata
from moldau.products.pipelines.looking.board.board import Board
from moldau.products.pipelines.looking.report import RunReport
from moldau.products.pipelines.running.flow import Claim, Run, load_sources, make_result, make_views, start_query
from moldau.products.pipelines.spec.spec import parse_spec
from moldau.testing import Cluster
from tests.spark.running_queries import active_queries

LIFE_S = 240
"""The time limit of a driver that hangs, far above what one needs."""
COMMAND = "import sys; from moldau.cli.main import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def cluster_records(bootstrap_servers):
    """All records of a topic by partition and offset, read without Spark."""

    def read(topic: str) -> list[Message]:
        settings = {"bootstrap.servers": bootstrap_servers, "group.id": "reader", "enable.partition.eof": True}
        consumer = Consumer(settings)
        numbers = sorted(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in numbers])
        found, ended = [], 0
        # by the end offsets that the consumer reports: transaction markers have offsets too
        while ended < len(numbers):
            (message,) = consumer.consume(1, timeout=30)
            if message.error() is None:
                found.append(message)
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF
                ended += 1
        consumer.close()
        return sorted(found, key=lambda one: (one.partition(), one.offset()))

    return read


def committed(bootstrap_servers: str, group: str, topic: str, partitions: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group})
    asked = [TopicPartition(topic, number) for number in range(partitions)]
    found = [one.offset for one in consumer.committed(asked, timeout=30)]
    consumer.close()
    return found


@pytest.mark.slow
def test_json_becomes_json_with_a_key_and_the_group_shows_no_lag(
    run_spec, new_topic, new_name, produce, read_back, bootstrap_servers
):
    source, target, name = new_topic(2), new_topic(), new_name("p")
    produce(source, [(None, b'{"user":"ann","amount":2.5}'), (None, b'{"user":null}')], partition=0)
    produce(source, [(None, b'{"user":"bob","amount":1}')], partition=1)
    spec = f"""
source: {{topic: {source}, format: json, schema: "user string, amount double"}}
sql: select user, amount * 2 as twice, _partition as partition from source where user is not null
sink: {{topic: {target}, key: user}}
"""
    (state,) = run_spec(spec, name)
    assert sorted(read_back(target)) == [
        (b"ann", b'{"user":"ann","twice":5.0,"partition":0}'),
        (b"bob", b'{"user":"bob","twice":2.0,"partition":1}'),
    ]
    assert (state.records_read, state.lag, state.state) == (3, 0, "finished")
    assert committed(bootstrap_servers, f"moldau.{name}", source, 2) == [2, 1]
    produce(source, [(None, b'{"user":"cid","amount":0}')])
    assert run_spec(spec, name)[0].records_read == 1
    assert len(read_back(target)) == 3


@pytest.mark.slow
def test_text_goes_as_it_is(run_spec, new_topic, produce, read_back):
    source, target = new_topic(), new_topic()
    produce(source, [(b"k", b"a b"), (None, b"c")])
    sql = "select _key as key, upper(value) as value from source"
    run_spec(f"source: {{topic: {source}, format: string}}\nsql: {sql}\nsink: {{topic: {target}}}")
    assert read_back(target) == [(b"k", b"A B"), (None, b"C")]


@pytest.mark.slow
def test_an_updating_aggregate_goes_to_a_topic(run_spec, new_topic, produce, read_back):
    source, target = new_topic(), new_topic()
    spec = f"""
source: {{topic: {source}, format: string}}
sql: select value as word, count(*) as times from source group by value
sink: {{topic: {target}, key: word, mode: update}}
"""
    produce(source, [(None, b"a"), (None, b"b"), (None, b"a")])
    run_spec(spec)
    produce(source, [(None, b"a")])
    run_spec(spec)
    counts = [(key, json.loads(value)["times"]) for key, value in read_back(target)]
    assert sorted(counts[:2]) == [(b"a", 2), (b"b", 1)]
    assert counts[2:] == [(b"a", 3)]


def test_a_batch_whose_task_was_lost_is_written_anew_and_once(
    spark, new_topic, produce, read_back, bootstrap_servers, tmp_path
):
    source, target, lost = new_topic(), new_topic(2), tmp_path / "lost"
    produce(source, [(b"k%d" % number, b"v") for number in range(50)])
    spec = parse_spec(
        f"""
name: lost-task
bootstrap_servers: {bootstrap_servers}
source: {{topic: {source}, format: string}}
sql: select _key as key, value from source
sink: {{topic: {target}}}
checkpoint: state
""",
        file_name="spec.yaml",
        directory=tmp_path,
    )

    def lose_the_first_task(batches):
        if not lost.exists():
            lost.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from batches

    (query,) = spec.queries
    result = make_result(spec, query, make_views(spark, spec, load_sources(spark, spec, {})))
    result = result.mapInArrow(lose_the_first_task, "key string, value string")
    with Lease(spec.checkpoint) as lease:
        run = Run(once=True, may_start_batch=lambda: None)
        start_query(result, spec, query, run, Claim("1", lease), metadata="").awaitTermination()
    assert lost.exists()
    assert sorted(key for key, _ in read_back(target)) == sorted(b"k%d" % number for number in range(50))


@pytest.mark.slow
def test_its_groups_say_which_pipeline_it_is_and_where_its_board_is(run_spec, new_topic, produce, bootstrap_servers):
    source, target = new_topic(), new_topic()
    produce(source, [(None, b'{"a": 1}')] * 5 + [(None, b"no json")])
    text = f"""
sources: {{source: {{topic: {source}, format: json, schema: a int}}}}
targets:
  again: {{from: source, topic: {target}}}
  twice: {{from: source, topic: {target}, delivery: at_least_once}}
  files: {{from: source, path: out}}
"""
    run_spec(text, name="noted", board_port=9700)
    cluster = LookedAt(ClusterAccess(bootstrap_servers))
    for name in ("again", "twice", "files"):
        group = cluster.group(f"moldau.noted.{name}")
        note = PipelineMetadata(f"noted.{name}", socket.gethostname(), 9700, ("noted.dead-letters",), "noted")
        assert (group.lag, group.commit_metadata) == (0, CommitMetadata(0, note))
    produce(source, [(None, b'{"a": 2}')])
    run_spec(text, name="noted")
    assert cluster.group("moldau.noted.again").commit_metadata == CommitMetadata(
        1, PipelineMetadata("noted.again", socket.gethostname(), None, ("noted.dead-letters",), "noted")
    )
    cluster.close()


@pytest.mark.slow
def test_windows_close_by_the_watermark_into_files(run_spec, new_topic, produce, tmp_path):
    source = new_topic()
    for second in (0, 1, 1, 30):
        produce(source, [(None, b"x")], timestamp=1_700_000_000_000 + second * 1_000)
    run_spec(f"""
source: {{topic: {source}, format: binary, watermark: 5 seconds}}
sql: |
  select window.start as start, count(*) as records from source group by window(_timestamp, '10 seconds')
sink: {{path: files}}
""")
    assert [row["records"] for row in pq.read_table(tmp_path / "files").to_pylist()] == [3]


@pytest.mark.slow
def test_a_batch_takes_so_many_records_as_the_pipeline_says(run_spec, new_topic, produce, tmp_path):
    source = new_topic()
    produce(source, [(None, b"%d" % number) for number in range(10)])
    spec = f"""
source: {{topic: {source}, format: string, max_records_per_batch: 4}}
sql: select value from source
sink: {{path: files}}
"""
    run_spec(spec)
    assert [pq.read_table(file).num_rows for file in sorted((tmp_path / "files").glob("*.parquet"))] == [4, 4, 2]
    produce(source, [(None, b"%d" % number) for number in range(10)])
    run_spec(spec.replace(": 4", ": 10"))  # the checkpoint accepts any bound
    assert len(list((tmp_path / "files").glob("*.parquet"))) == 4


@pytest.mark.slow
def test_windows_may_go_by_a_column_of_the_record(run_spec, new_topic, produce, tmp_path):
    source = new_topic()
    for second in (0, 1, 30):
        produce(source, [(None, b'{"at":"2026-01-01T00:00:%02dZ","n":1}' % second)], timestamp=1_700_000_000_000)
    spec = """
source: {{topic: {source}, format: json, schema: "at {kind}, n int", event_time: at, watermark: 5 seconds}}
sql: select window.start as start, count(*) as records from source group by window(at, '10 seconds')
sink: {{path: files}}
"""
    with pytest.raises(MoldauError, match=r"`event_time` names `at`, which is of type string"):
        run_spec(spec.format(source=source, kind="string"))
    # no batch was planned, so the checkpoint accepts the corrected pipeline
    run_spec(spec.format(source=source, kind="timestamp"))
    assert [row["records"] for row in pq.read_table(tmp_path / "files").to_pylist()] == [2]


@pytest.mark.slow
def test_what_does_not_parse_is_counted_and_kept_with_its_address(
    run_spec, new_topic, new_name, produce, cluster_records
):
    source, target, name = new_topic(2), new_topic(), new_name("p")
    good = b'{"user":"ann","amount":2.5}'
    bad = [b"no json", b"", b"[1]", b'{"user":"bob","amount":"much"}', b"\xff\xfe", None]
    produce(source, [(None, good), *((b"k", value) for value in bad)], partition=1, headers=[("h", b"x")])
    spec = f"""
source: {{topic: {source}, format: json, schema: "user string, amount double"}}
sql: select user, amount from source
sink: {{topic: {target}}}
"""
    (state,) = run_spec(spec, name)
    assert (state.records_read, state.dead_letters, state.lag) == (7, 6, 0)
    assert [record.value() for record in cluster_records(target)] == [good]
    letters = cluster_records(f"{name}.dead-letters")
    assert [(letter.partition(), letter.key(), letter.value()) for letter in letters] == [
        (0, b"k", value) for value in bad
    ]
    headers = [dict(letter.headers()) for letter in letters]
    assert [one["moldau.offset"] for one in headers] == [b"%d" % offset for offset in range(1, 7)]
    assert headers[0] | {"moldau.reason": b"the value is no JSON", "h": b"x", "moldau.topic": source.encode(),
                         "moldau.partition": b"1", "moldau.pipeline": name.encode()} == headers[0]  # fmt: skip
    assert headers[3]["moldau.reason"] == b"the JSON does not fit the schema: user string, amount double"
    assert headers[5]["moldau.reason"] == b"the record has no value"
    produce(source, [(None, b"{"), (None, good)])
    assert run_spec(spec, name)[0].dead_letters == 1
    assert len(cluster_records(f"{name}.dead-letters")) == 7


def test_another_query_on_an_old_checkpoint_is_refused_with_the_way_out(run_spec, new_topic, produce):
    source, target = new_topic(), new_topic()
    produce(source, [(None, b"a")])
    spec = "source: {{topic: {0}, format: string}}\nsql: |\n  {2}\nsink: {{topic: {1}}}"
    run_spec(spec.format(source, target, "select value from source"))
    run_spec(spec.format(source, target, "select value\n    from source"))
    with pytest.raises(MoldauError, match=r"`sql` of pipeline 'pipe' changed.*name another directory"):
        run_spec(spec.format(source, target, "select upper(value) as value from source"))


def test_a_batch_is_one_parquet_file_however_often_it_is_written(spark, tmp_path):
    from moldau.products.pipelines.targets.parquet import ParquetTarget

    directory = tmp_path / "files"
    (directory / ".unfinished-p-1").mkdir(parents=True)
    (directory / ".unfinished-p-1" / "part").write_text("of a killed driver")
    target = ParquetTarget(str(directory), "p", "1")
    target.write(spark.range(0, 1_000, 1, 3), 0)
    target.write(spark.range(0, 1_000, 1, 2), 0)
    target.write(spark.range(0), 1)
    target.write(spark.range(1_000, 1_500, 1, 1), 2)
    assert sorted(path.name for path in directory.iterdir()) == ["p-1-0000000000.parquet", "p-1-0000000002.parquet"]
    assert sorted(row["id"] for row in pq.read_table(directory).to_pylist()) == list(range(1_500))
    assert spark.read.parquet(str(directory)).count() == 1_500


@pytest.mark.parametrize(
    ("topic", "sql", "key", "refused"),
    [
        ("", "select value from source", "price", "'price', but the SQL gives value"),
        ("", "select count(*) as n from source", "n", r"^spec\.yaml:6: `sink`: .*append"),
        ("", "select price from source", "price", "^spec.yaml:5: `sql`: .*price"),
        ("", "select value value value from source", "value", "^spec.yaml:5: `sql`: .*PARSE_SYNTAX_ERROR"),
        ("", "select value form", "value", r"^spec\.yaml:5: `sql` reads no source and no flow; there is source"),
        (
            "never-made",
            "select value from source",
            "value",
            "^topic 'never-made' does not exist on .*; to create it: ",
        ),
    ],
)
def test_what_does_not_fit_together_is_said_in_a_sentence(run_spec, new_topic, topic, sql, key, refused):
    source = f"{{topic: {topic or new_topic()}, format: string}}"
    with pytest.raises(MoldauError, match=refused):
        run_spec(f"source: {source}\nsql: {sql}\nsink: {{topic: {new_topic()}, key: {key}}}")


@pytest.mark.slow
def test_the_board_shows_a_run_and_its_numbers(run_spec, new_topic, produce, bootstrap_servers, tmp_path):
    source, target = new_topic(), new_topic()
    produce(source, [(None, b"x"), (None, b"y")])
    text = f"source: {{topic: {source}, format: string}}\nsql: select value from source\nsink: {{topic: {target}}}\n"
    spec = parse_spec(
        f"name: pipe\nbootstrap_servers: {bootstrap_servers}\n{text}", file_name="spec.yaml", directory=tmp_path
    )
    with Board(spec, 0) as board, RunReport("pipe", tmp_path / "run.png") as report:
        assert run_spec(text, onlookers=[board, report])[0].records_read == 2
        status = json.loads(urllib.request.urlopen(f"{board.address}status.json", timeout=60).read())
        markup = urllib.request.urlopen(board.address, timeout=60).read().decode()
        metrics = urllib.request.urlopen(f"{board.address}metrics", timeout=60).read().decode()
    assert (report.samples["pipe"][-1].records, report.samples["pipe"][-1].phases_ms["work"] > 0) == (2, True)
    assert (tmp_path / "run.png").exists()
    (query,) = status["queries"]
    assert (status["pipeline"], query["name"], query["state"], query["records_read"]) == ("pipe", "pipe", "finished", 2)
    assert query["phases_ms"]["work"] > 0
    assert "<svg" in markup
    assert f"topic {source}" in markup
    assert 'moldau_spark_query_records_total{query="pipe"} 2\n' in metrics


@pytest.mark.slow
def test_a_broker_that_stays_away_ends_the_pipeline_with_one_sentence(spark, tmp_path, capsys):
    """Once `retry_timeout` is over; the exit code is 1."""
    with Cluster() as cluster:
        source, target = cluster.topic(), cluster.topic()
        cluster.produce(source, "a")
        spec = tmp_path / "spec.yaml"
        spec.write_text(f"""
name: lost
bootstrap_servers: {cluster.bootstrap_servers}
source: {{topic: {source}, format: string}}
sql: select value from source
sink: {{topic: {target}}}
checkpoint: state
retry_timeout: 2 seconds
""")

        def take_the_broker_away() -> None:
            try:
                cluster.wait_for(topic=target, records=1, timeout=240)
            finally:
                cluster.stop()

        thread = threading.Thread(target=take_the_broker_away)
        thread.start()
        try:
            code = pipeline_command.run_spec(build_parser().parse_args(["pipeline", "run", str(spec)]))
        finally:
            thread.join(240)
    shown = capsys.readouterr()
    assert code == 1
    # pyspark's own accumulator server prints a traceback if a job is interrupted at the wrong moment
    (sentence,) = [line for line in shown.err.splitlines() if line.startswith("moldau")]
    assert re.match(r"moldau pipeline: .*cannot reach 127\.0\.0\.1:\d+: connection refused", sentence), sentence
    assert shown.out.count("trying for another") <= 1, shown.out
    assert active_queries(spark) == []


# --- drivers in their own processes ---


class Driver:
    """`moldau pipeline run SPEC` in its own process; its lines as they come."""

    def __init__(self, spec: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-c", COMMAND, "pipeline", "run", str(spec)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONFAULTHANDLER": "1"},
        )
        self.lines: list[str] = []
        # the thread stacks of a driver that does not end are among the lines
        self._watchdog = threading.Timer(LIFE_S, self.process.send_signal, (signal.SIGABRT,))
        self._watchdog.start()

    def read(self) -> Iterator[str]:
        for line in self.process.stdout or ():
            self.lines.append(line)
            yield line

    def wait_for(self, what: str) -> str:
        for line in self.read():
            if what in line:
                return line
        raise AssertionError(f"never said {what!r}: {''.join(self.lines)}")

    def end(self) -> int:
        for _ in self.read():
            pass
        self._watchdog.cancel()
        return self.process.wait(120)


@pytest.fixture
def identity_spec(bootstrap_servers, new_topic, new_name, tmp_path):
    source, target = new_topic(2), new_topic(2)
    name = new_name("killed")
    spec = tmp_path / "spec.yaml"
    spec.write_text(f"""
name: {name}
bootstrap_servers: {bootstrap_servers}
source: {{topic: {source}, format: string}}
sql: select value from source
sink: {{topic: {target}}}
checkpoint: state
""")
    return spec, source, target, name


@pytest.mark.slow
def test_a_driver_that_is_killed_in_its_work_writes_every_record_once(
    spark, identity_spec, bootstrap_servers, read_back, capsys
):
    """Records come all the time. One driver is killed in its first batch, and one some batches later, as its own lines
    show; their JVMs notice that by themselves. The last driver is this process."""
    spec, source, target, name = identity_spec
    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 5})
    stop, sent = threading.Event(), 0

    def feed() -> None:
        nonlocal sent
        while not stop.wait(0.01):
            for _ in range(20):
                producer.produce(source, b"%d" % sent)
                sent += 1
            producer.poll(0)

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        for is_due in (lambda line: "running" in line, lambda line: "running" in line and "batch 0" not in line):
            driver = Driver(spec)
            assert any(is_due(line) for line in driver.read()), "".join(driver.lines)
            assert driver.process.poll() is None, "".join(driver.lines)
            os.kill(driver.process.pid, signal.SIGKILL)
            driver.end()
    finally:
        stop.set()
        thread.join(60)
    assert producer.flush(30) == 0
    assert main(["pipeline", "run", "--once", str(spec)]) == 0, capsys.readouterr()
    written = [int(value) for _, value in read_back(target)]
    assert sorted(written) == list(range(sent))
    ends = committed(bootstrap_servers, f"moldau.{name}", source, 2)
    assert sum(ends) == sent


@pytest.mark.slow
def test_a_second_driver_is_refused_and_a_clean_stop_repeats_nothing(
    identity_spec, bootstrap_servers, produce, read_back
):
    """A service manager, or a shell that kills a job, sends SIGTERM to the driver and its JVM at once; Ctrl-C is
    SIGINT."""
    spec, source, target, name = identity_spec
    produce(source, [(None, b"%d" % number) for number in range(1_000)])
    first = Driver(spec)
    first.wait_for("lag 0,")
    second = Driver(spec)
    assert second.end() == 1, "".join(second.lines)
    assert f"process {first.process.pid} runs a pipeline" in "".join(second.lines)
    first.process.send_signal(signal.SIGINT)
    assert first.end() == 0, "".join(first.lines)
    third = Driver(spec)
    produce(source, [(None, b"1000")])
    third.wait_for("read 1 records")
    os.killpg(third.process.pid, signal.SIGTERM)
    assert third.end() == 0, "".join(third.lines)
    assert all("stopped" in driver.lines[-1] for driver in (first, third))
    assert sorted(int(value) for _, value in read_back(target)) == list(range(1_001))
    assert sum(committed(bootstrap_servers, f"moldau.{name}", source, 2)) == 1_001
