"""kill -9 during log cleaning: of the broker, and of the cleaner's process; and a stop in the middle."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.core.log.files.checkpoint import decode_offsets
from moldau.types import TopicPartition as Place
from tests.support.running_broker import RunningBroker

pytestmark = pytest.mark.slow

KEYS = 500
ROUNDS = 60
SLOW = "log.cleaner.io.max.bytes.per.second=2000000"
"""The topic is about 9 MB, which makes a round take some seconds."""


def start(data: Path, *settings: str) -> RunningBroker:
    arguments = ["--data-dir", str(data), "--listen", "127.0.0.1:0"]
    for setting in ("log.cleaner.backoff.ms=50", *settings):
        arguments += ["--set", setting]
    return RunningBroker(*arguments).wait_until_ready()


def fill(servers: str) -> dict[bytes, bytes]:
    admin = AdminClient({"bootstrap.servers": servers})
    config = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}
    admin.create_topics([NewTopic("table", 1, 1, config=config)])["table"].result(30)
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 20})
    last: dict[bytes, bytes] = {}
    for number in range(ROUNDS):
        for index in range(KEYS):
            key, value = f"key-{index}".encode(), f"{number} {index} ".encode() * 30
            producer.produce("table", key=key, value=value)
            last[key] = value
        assert producer.flush(30) == 0
    return last


def read(servers: str) -> list[tuple[bytes, bytes]]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition("table", 0, OFFSET_BEGINNING)])
    rows: list[tuple[bytes, bytes]] = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            break
        rows.append((message.key(), message.value()))
    consumer.close()
    return rows


def wait_until(condition: Callable[[], object], servers: str) -> None:
    """Sends a request to the broker between two looks."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "waiter"})
    for _ in range(2000):
        if condition():
            break
        consumer.poll(0.02)
    else:
        pytest.fail("it did not happen")
    consumer.close()


def cleaner_process(broker: RunningBroker) -> int | None:
    """The broker's child process, if one writes right now."""
    for name in Path(f"/proc/{broker.process.pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in name.read_text().split():
                if "cleaner_child" in Path(f"/proc/{child}/cmdline").read_text():
                    return int(child)
    return None


def is_cleaning(broker: RunningBroker, data: Path) -> bool:
    return cleaner_process(broker) is not None and any((data / "table-0").glob("*.cleaned"))


def is_clean(data: Path) -> bool:
    active = max(int(path.name[:20]) for path in (data / "table-0").glob("*.log"))
    with contextlib.suppress(FileNotFoundError):
        offsets = decode_offsets((data / "cleaner-offset-checkpoint").read_bytes())
        return offsets.get(Place("table", 0), -1) >= active > 0
    return False


def has_ended(process: int) -> bool:
    """It has ended, or is a zombie that was not waited for."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except FileNotFoundError:
        return True


def check_clean(data: Path, last: dict[bytes, bytes]) -> None:
    """After a start: cleaned to the end, nothing lost, nothing left over."""
    broker = start(data)
    wait_until(lambda: is_clean(data), broker.address)
    rows = read(broker.address)
    assert dict(rows) == last
    assert len(rows) < KEYS * ROUNDS / 3
    assert not [path for path in (data / "table-0").iterdir() if path.suffix in (".cleaned", ".swap")]
    assert broker.stop() == 0


def test_the_cleaners_process_dies_with_the_broker_and_nothing_is_lost(tmp_path: Path) -> None:
    broker = start(tmp_path, SLOW)
    last = fill(broker.address)
    wait_until(lambda: is_cleaning(broker, tmp_path), broker.address)
    child = cleaner_process(broker)
    assert child is not None
    broker.kill()
    while not has_ended(child):
        os.sched_yield()
    check_clean(tmp_path, last)


def test_the_broker_outlives_the_cleaners_process(tmp_path: Path) -> None:
    broker = start(tmp_path, SLOW)
    last = fill(broker.address)
    wait_until(lambda: is_cleaning(broker, tmp_path), broker.address)
    child = cleaner_process(broker)
    assert child is not None
    os.kill(child, signal.SIGKILL)
    wait_until(lambda: cleaner_process(broker) not in (None, child), broker.address)
    assert dict(read(broker.address)) == last
    assert broker.stop() == 0
    check_clean(tmp_path, last)


def test_a_stop_does_not_wait_for_the_cleaner(tmp_path: Path) -> None:
    broker = start(tmp_path, SLOW)
    last = fill(broker.address)
    wait_until(lambda: is_cleaning(broker, tmp_path), broker.address)
    child = cleaner_process(broker)
    assert child is not None
    assert broker.stop() == 0
    assert has_ended(child)
    check_clean(tmp_path, last)
