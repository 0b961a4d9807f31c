"""A driver of a page killed with -9 at each named point of a batch, and started again: every record is in each target
once, or, in the mode update, the right rows are."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from confluent_kafka import Producer

from tests.exactly_once.page_driver import POINTS
from tests.exactly_once.spark_driver import AT_END
from tests.exactly_once.tables import KEYS, Place, faults, page_of

RECORDS = 10_000
LIFE_S = 400
"""A bound for a driver that hangs, far above what one needs."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "kinds",
    [
        ("postgresql", "postgresql-sums", "delta-history", "postgresql-history"),
        ("iceberg", "delta-sums", "iceberg-sums"),
        ("files", "delta", "postgresql-changes"),
    ],
    ids=" and ".join,
)
def test_a_target_has_every_record_once(kinds, new_topic, bootstrap_servers, postgresql, tmp_path):
    source, page = new_topic(2), tmp_path / "page.yaml"
    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 20})
    for number in range(RECORDS):
        producer.produce(source, b"%d" % number, b"%d" % (number % KEYS), number % 2)
    assert producer.flush(60) == 0
    place = Place(tmp_path, postgresql.url, bootstrap_servers, "no topic")
    page.write_text(page_of(kinds, source, place))

    def live(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tests.exactly_once.page_driver", str(page), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=LIFE_S, check=False)

    for number, point in enumerate(POINTS):
        # the first batch that a life runs may be one that is written again; the point counts in it too
        life = live("--point", point, "--batch", str(number))
        assert life.returncode == -signal.SIGKILL, life.stderr[-4_000:]
    last = live()
    assert AT_END in last.stdout, last.stderr[-4_000:]
    assert faults(kinds, place, RECORDS) == []
