"""kill -9 of the broker during writes: acknowledged records are there once, in order."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.core.config.listeners import Endpoint
from moldau.testing import history
from moldau.testing.ports import HeldPorts
from tests.support.running_broker import RunningBroker

TOPIC = "orders"
PARTITIONS = 2
KILLS = 12
"""`make torture` runs any number of kills."""


def produce_until_killed(broker: RunningBroker, recorder: history.Recorder, kill_after: int, first: int) -> int:
    """Writes records without a pause, and kills the broker after `kill_after` acknowledgements; gives the next
    number."""
    seen = 0

    def delivered(error: object, message: object) -> None:
        nonlocal seen
        seen += error is None

    producer = recorder.producer(
        {
            "bootstrap.servers": broker.address,
            "enable.idempotence": True,
            "linger.ms": 1,
            "batch.num.messages": 200,
            "log_level": 0,
            "on_delivery": delivered,
        }
    )
    number = first
    while seen < kill_after:
        try:
            producer.produce(TOPIC, b"record-%d" % number + b"." * (number % 300), partition=number % PARTITIONS)
            number += 1
        except BufferError:
            producer.poll(0.1)
        if number % 100 == 0:
            producer.poll(0)
    broker.kill()
    # Responses that the broker sent before its death may still be on their way: they count too.
    producer.poll(0.2)
    producer.purge()
    producer.flush(10)
    return number


@pytest.mark.slow
def test_no_acknowledged_record_is_lost_in_kills_under_load(tmp_path: Path) -> None:
    choices = random.Random(20_26)
    # One port for all lives, as in production. It is held: a connection of a parallel test cannot get it.
    ports = HeldPorts()
    (listener,) = ports.choose((Endpoint("PLAINTEXT", "127.0.0.1", 0),))
    arguments = ["--data-dir", str(tmp_path / "data"), "--listen", f"127.0.0.1:{listener.port}"]
    # Small segments: some kills hit a roll.
    arguments += ["--set", "log.segment.bytes=1048576"]
    broker = RunningBroker(*arguments).wait_until_ready()
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(timeout=30)
    with history.record(tmp_path / "history.jsonl") as recorder:
        number = 0
        for _ in range(KILLS):
            number = produce_until_killed(broker, recorder, choices.randrange(1, 8_000), number)
            recorder.fault("kill -9 of the broker")
            broker = RunningBroker(*arguments).wait_until_ready()
        reader = {"bootstrap.servers": broker.address, "check.crcs": True}
        next_offset = dict.fromkeys(range(PARTITIONS), 0)
        for message in recorder.read_to_end(reader, [TOPIC]):
            assert message.offset() == next_offset[message.partition()]
            next_offset[message.partition()] += 1
    assert broker.stop() == 0
    ports.release()
    verdict = history.judge(history.HistoryFile(tmp_path / "history.jsonl"))
    assert not verdict.findings, str(verdict)
    assert verdict.judged["records acknowledged"] > KILLS
