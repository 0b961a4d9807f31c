"""`moldau pipeline run`: topic to topic and to files, its group's lag, a clean stop, and a driver killed five times."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from rich.console import Console

from moldau.errors import MoldauError
from moldau.products.pipelines.page import parse_page
from moldau.products.pipelines.runner import run_pipeline

KILLS = 5
COMMAND = "import sys; from moldau.cli.main import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def run_page(spark, bootstrap_servers, tmp_path):
    """`run_page(text)` runs a page once in this process, with its name, cluster and checkpoint filled in."""

    def run(text: str, name: str = "pipe"):
        head = f"name: {name}\nbootstrap_servers: {bootstrap_servers}\ncheckpoint: state\n"
        page = parse_page(head + text, file_name="page.yaml", directory=tmp_path)
        with open(os.devnull, "w") as nowhere:
            return run_pipeline(page, once=True, console=Console(file=nowhere))

    return run


def committed(bootstrap_servers: str, group: str, topic: str, partitions: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group})
    asked = [TopicPartition(topic, number) for number in range(partitions)]
    found = [one.offset for one in consumer.committed(asked, timeout=30)]
    consumer.close()
    return found


def test_json_becomes_json_with_a_key_and_the_group_shows_no_lag(
    run_page, new_topic, new_name, produce, read_back, bootstrap_servers
):
    source, target, name = new_topic(2), new_topic(), new_name("p")
    produce(source, [(None, b'{"user":"ann","amount":2.5}'), (None, b"no json")], partition=0)
    produce(source, [(None, b'{"user":"bob","amount":1}')], partition=1)
    page = f"""
source: {{topic: {source}, format: json, schema: "user string, amount double"}}
sql: select user, amount * 2 as twice, _partition as partition from source where user is not null
sink: {{topic: {target}, key: user}}
"""
    state = run_page(page, name)
    assert sorted(read_back(target)) == [
        (b"ann", b'{"user":"ann","twice":5.0,"partition":0}'),
        (b"bob", b'{"user":"bob","twice":2.0,"partition":1}'),
    ]
    assert (state.records_read, state.lag, state.state) == (3, 0, "finished")
    assert committed(bootstrap_servers, f"moldau.{name}", source, 2) == [2, 1]
    produce(source, [(None, b'{"user":"cid","amount":0}')])
    assert run_page(page, name).records_read == 1
    assert len(read_back(target)) == 3


def test_text_goes_as_it_is(run_page, new_topic, produce, read_back):
    source, target = new_topic(), new_topic()
    produce(source, [(b"k", b"a b"), (None, b"c")])
    sql = "select _key as key, upper(value) as value from source"
    run_page(f"source: {{topic: {source}, format: string}}\nsql: {sql}\nsink: {{topic: {target}}}")
    assert read_back(target) == [(b"k", b"A B"), (None, b"C")]


def test_an_updating_aggregate_goes_to_a_topic(run_page, new_topic, produce, read_back):
    source, target = new_topic(), new_topic()
    page = f"""
source: {{topic: {source}, format: string}}
sql: select value as word, count(*) as times from source group by value
sink: {{topic: {target}, key: word, mode: update}}
"""
    produce(source, [(None, b"a"), (None, b"b"), (None, b"a")])
    run_page(page)
    produce(source, [(None, b"a")])
    run_page(page)
    counts = [(key, json.loads(value)["times"]) for key, value in read_back(target)]
    assert sorted(counts[:2]) == [(b"a", 2), (b"b", 1)]
    assert counts[2:] == [(b"a", 3)]


def test_windows_close_by_the_watermark_into_files(run_page, new_topic, produce, tmp_path):
    source = new_topic()
    for second in (0, 1, 1, 30):
        produce(source, [(None, b"x")], timestamp=1_700_000_000_000 + second * 1_000)
    run_page(f"""
source: {{topic: {source}, format: binary, watermark: 5 seconds}}
sql: |
  select window.start as start, count(*) as records from source group by window(_timestamp, '10 seconds')
sink: {{path: files}}
""")
    rows = [row for path in (tmp_path / "files").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    assert [row["records"] for row in rows] == [3]


@pytest.mark.parametrize(
    ("topic", "sql", "key", "refused"),
    [
        ("", "select value from source", "price", "'price', but the SQL gives value"),
        ("", "select price from source", "value", "price"),
        ("", "select value form", "value", "PARSE_SYNTAX_ERROR|cannot be resolved"),
        ("never-made", "select value from source", "value", "^topic 'never-made' does not exist$"),
    ],
)
def test_what_does_not_fit_together_is_said_in_a_sentence(run_page, new_topic, topic, sql, key, refused):
    source = f"{{topic: {topic or new_topic()}, format: string}}"
    with pytest.raises(MoldauError, match=refused):
        run_page(f"source: {source}\nsql: {sql}\nsink: {{topic: t, key: {key}}}")


# --- drivers in processes of their own ---


class Driver:
    """`moldau pipeline run PAGE` in a process of its own; its lines as they come."""

    def __init__(self, page: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-c", COMMAND, "pipeline", "run", str(page)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._watchdog = threading.Timer(240, self.process.kill)
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
def identity_page(bootstrap_servers, new_topic, new_name, tmp_path):
    source, target = new_topic(2), new_topic(2)
    name = new_name("killed")
    page = tmp_path / "page.yaml"
    page.write_text(f"""
name: {name}
bootstrap_servers: {bootstrap_servers}
source: {{topic: {source}, format: string}}
sql: select value from source
sink: {{topic: {target}}}
checkpoint: state
""")
    return page, source, target, name


@pytest.mark.slow
def test_a_driver_killed_five_times_loses_nothing(identity_page, bootstrap_servers, read_back):
    """Records come all the while; each driver is killed in the middle of its work, which its own lines tell."""
    page, source, target, name = identity_page
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
        for kill in range(KILLS):
            driver = Driver(page)
            reads = 0
            for line in driver.read():
                # the first kill falls into the first batch, each later one a little further on
                reads += "running" in line and ("batch 0" not in line or kill == 0)
                if reads > kill:
                    break
            assert driver.process.poll() is None, "".join(driver.lines)
            os.kill(driver.process.pid, signal.SIGKILL)
            driver.end()
    finally:
        stop.set()
        thread.join(60)
    assert producer.flush(30) == 0
    last = Driver(page)
    last.wait_for("lag 0,")
    last.process.send_signal(signal.SIGTERM)
    assert last.end() == 0, "".join(last.lines)
    assert "stopped" in last.lines[-1]
    written = [int(value) for _, value in read_back(target)]
    assert set(written) == set(range(sent))
    ends = committed(bootstrap_servers, f"moldau.{name}", source, 2)
    assert sum(ends) == sent


@pytest.mark.slow
def test_a_second_driver_is_refused_and_a_clean_stop_repeats_nothing(identity_page, produce, read_back):
    page, source, target, _ = identity_page
    produce(source, [(None, b"%d" % number) for number in range(1_000)])
    first = Driver(page)
    first.wait_for("lag 0,")
    second = Driver(page)
    assert second.end() == 1
    assert f"process {first.process.pid} runs a pipeline" in "".join(second.lines)
    first.process.send_signal(signal.SIGINT)
    assert first.end() == 0
    third = Driver(page)
    produce(source, [(None, b"1000")])
    third.wait_for("read 1 records")
    third.process.send_signal(signal.SIGTERM)
    assert third.end() == 0
    assert sorted(int(value) for _, value in read_back(target)) == list(range(1_001))
