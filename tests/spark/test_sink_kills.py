"""A driver killed with -9 at each named point of a micro-batch, and started again: every record is there once."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from confluent_kafka import Producer

from moldau.columnar.reader import read_topic
from tests.exactly_once.spark_driver import AT_END, POINTS

RECORDS = 10_000
LIFE_S = 240
"""A bound for a driver that hangs, far above what one needs."""


@pytest.mark.slow
def test_a_driver_killed_at_each_point_writes_every_record_once(new_topic, bootstrap_servers, tmp_path):
    source, target = new_topic(2), new_topic(3)
    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 20})
    for number in range(RECORDS):
        producer.produce(source, b"%d" % number, b"key-%d" % (number % 500), number % 2)
    assert producer.flush(60) == 0

    def live(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tests.exactly_once.spark_driver", "--bootstrap-server", bootstrap_servers]
        command += ["--source", source, "--target", target, "--checkpoint", str(tmp_path), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=LIFE_S, check=False)

    for number, point in enumerate(POINTS):
        # the first batch that a life runs may be one that is written again; the point counts in it too
        life = live("--point", point, "--batch", str(number))
        assert life.returncode == -signal.SIGKILL, life.stderr[-4_000:]
    last = live()
    assert AT_END in last.stdout, last.stderr[-4_000:]
    values = [
        int(value) for batch in read_topic(bootstrap_servers, target) for value in batch.column("value").to_pylist()
    ]
    assert sorted(values) == list(range(RECORDS))
