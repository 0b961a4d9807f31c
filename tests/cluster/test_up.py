"""`moldau up`: reports what runs, stops cleanly, rejects wrong options."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tests.support.running_broker import RunningBroker


def write_one(address: str) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": address})
    producer.produce("events", b"one", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors == [None]


def read_one(address: str) -> bytes:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["events"])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    assert not message.error()
    return message.value()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_says_how_durable_it_is_and_stops_with_exit_0(tmp_path: Path, how: signal.Signals) -> None:
    broker = RunningBroker("--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0").wait_until_ready()
    write_one(broker.address)
    assert read_one(broker.address) == b"one"
    assert broker.stop(how) == 0
    text = "".join(broker.output)
    assert str(tmp_path / "data") in text
    assert "Traceback" not in text
    host, _, port = broker.address.partition(":")
    assert host == "127.0.0.1"
    assert int(port) > 0


def test_records_are_there_after_a_stop_and_after_a_kill(tmp_path: Path) -> None:
    arguments = ["--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    broker = RunningBroker(*arguments).wait_until_ready()
    write_one(broker.address)
    assert broker.stop() == 0
    broker = RunningBroker(*arguments).wait_until_ready()
    assert read_one(broker.address) == b"one"
    broker.kill()
    broker = RunningBroker(*arguments).wait_until_ready()
    # The group of `read_one` has committed the end of the log: another group must read the record again.
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "other", "auto.offset.reset": "earliest"})
    consumer.subscribe(["events"])
    message = consumer.poll(30)
    consumer.close()
    assert message.value() == b"one"
    assert broker.stop() == 0


def test_nothing_is_left_of_an_in_memory_broker(tmp_path: Path) -> None:
    broker = RunningBroker("--in-memory", "--listen", "127.0.0.1:0", cwd=tmp_path).wait_until_ready()
    write_one(broker.address)
    assert broker.stop() == 0
    assert list(tmp_path.iterdir()) == []


def refusal(*arguments: str) -> str:
    command = [sys.executable, "-m", "moldau.cli.main", "up", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_a_second_broker_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    broker = RunningBroker("--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0").wait_until_ready()
    assert str(tmp_path / "data") in refusal("--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    write_one(broker.address)
    assert broker.stop() == 0


def test_a_taken_port_is_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        told = refusal("--data-dir", str(tmp_path / "data"), "--listen", f"127.0.0.1:{port}")
    assert told == f"moldau: port {port} on 127.0.0.1 is taken: another program listens there already"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--set", "num.partitions=none"], "num.partitions"),
        (["--set", "num.partitions"], "NAME=VALUE"),
        (
            ["--set", "log.retention.hrs=1"],
            "log.retention.hrs is not a setting of Kafka 4.4 or of Moldau; did you mean",
        ),
        (["--set", "frobnicate=1"], "--set: frobnicate is not a setting of Kafka 4.4 or of Moldau"),
        (["--listen", "127.0.0.1"], "HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "99999"),
        (["--config", "/nowhere/server.properties"], "/nowhere/server.properties"),
    ],
)
def test_impossible_settings_are_refused_by_name(tmp_path: Path, arguments: list[str], word: str) -> None:
    assert word in refusal("--data-dir", str(tmp_path / "data"), *arguments)


def test_settings_come_from_a_properties_file_and_set_wins(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("# a comment\nnum.partitions=5\nauto.create.topics.enable=true\n")
    arguments = ["--in-memory", "--listen", "127.0.0.1:0", "--config", str(config), "--set", "num.partitions=3"]
    broker = RunningBroker(*arguments).wait_until_ready()
    write_one(broker.address)
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "g"})
    assert len(consumer.list_topics("events", timeout=30).topics["events"].partitions) == 3
    consumer.close()
    assert broker.stop() == 0
