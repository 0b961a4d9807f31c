"""The messages of `moldau up` to its operator: how the last run ended, in the chosen format."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.running_broker import RunningBroker
from tests.support.talking_process import running


def start(directory: Path, *arguments: str) -> RunningBroker:
    broker = RunningBroker("--data-dir", str(directory), "--listen", "127.0.0.1:0", "--no-console", *arguments)
    return broker.wait_until_ready()


def write_one(broker: RunningBroker) -> None:
    producer = Producer({"bootstrap.servers": broker.address})
    producer.produce("events", b"one")
    assert producer.flush(30) == 0


@pytest.mark.slow
def test_a_new_directory_a_clean_and_an_unclean_shutdown_are_told_apart(tmp_path: Path) -> None:
    broker = start(tmp_path / "data")
    write_one(broker)
    assert broker.stop() == 0
    assert any("data is new" in line for line in broker.output)
    broker = start(tmp_path / "data")
    broker.kill()
    assert any("left by a clean shutdown: 1 log opened as it is in" in line for line in broker.output)
    broker = start(tmp_path / "data")
    assert broker.stop() == 0
    assert any("left by an unclean shutdown: 1 log recovered in" in line for line in broker.output)


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "data" / ".lock").mkdir(parents=True)
    broker = RunningBroker("--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--no-console")
    broker.process.wait(timeout=60)
    assert broker.stop() == 1
    assert broker.output == [f"moldau: {tmp_path}/data: open .lock: Is a directory\n"]


def test_the_log_can_be_read_by_programs(tmp_path: Path) -> None:
    broker = start(tmp_path / "data", "--log-format", "json")
    write_one(broker)
    assert broker.stop() == 0
    lines = [json.loads(line) for line in broker.output if line.startswith("{")]
    kinds = {line["kind"]: line for line in lines}
    assert kinds["start"]["shutdown"] == "none"
    assert kinds["node started"]["node"] == 1
    assert kinds["topic created"]["topic"] == "events"
    assert kinds["node stopped"]["level"] == "INFO"


def test_the_printed_address_has_metrics_and_readiness(tmp_path: Path) -> None:
    broker = start(tmp_path / "data")
    words = next(line.split() for line in broker.output if line.split()[:1] == ["metrics"])
    with urllib.request.urlopen(words[1], timeout=30) as answer:
        assert b"kafka_server_kafkaserver_brokerstate 3\n" in answer.read()
    with urllib.request.urlopen(words[1].replace("/metrics", "/ready"), timeout=30) as answer:
        assert answer.read() == b"ready\n"
    assert broker.stop() == 0


def test_a_data_directory_that_is_a_file_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    broker = RunningBroker("--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--no-console")
    broker.process.wait(timeout=60)
    assert broker.stop() == 1
    assert broker.output[-1] == f"moldau: {tmp_path}/data is a file, not a directory\n"


@pytest.mark.slow
@pytest.mark.parametrize("brokers", ["1", "3"])
def test_a_node_serves_also_where_nobody_reads_what_it_says(brokers: str, tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)  # as with `| head -1`
    words = (
        "up",
        "--no-console",
        "--brokers",
        brokers,
        "--data-dir",
        str(tmp_path / "data"),
        "--listen",
        "127.0.0.1:0",
    )
    command = [sys.executable, "-m", "moldau.cli.main", *words]
    told = ""
    with running(command, stdout=write_end, stderr=subprocess.PIPE) as process:
        os.close(write_end)
        assert process.stderr is not None
        bound = threading.Timer(60, process.kill)
        bound.start()
        for line in process.stderr:
            told += line
            if "standard output takes nothing: Broken pipe" in line:
                process.terminate()
        bound.cancel()
        assert process.wait(60) == 0, told
    assert told.count(" stopped\n") == int(brokers), told
