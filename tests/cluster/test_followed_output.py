"""A command that follows a cluster writes each line to a pipe at once."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing import Cluster
from tests.support.talking_process import TalkingProcess

WAIT_S = 60


@contextmanager
def following(*words: str) -> Iterator[TalkingProcess]:
    """A command that runs until it is ended, without a request to Python for unbuffered output."""
    process = TalkingProcess([sys.executable, "-m", "moldau.cli.main", *words], {"PYTHONUNBUFFERED": ""})
    try:
        yield process
    finally:
        process.kill()


def next_line(process: TalkingProcess) -> dict[str, object]:
    text = process.next_line(time.monotonic() + WAIT_S)
    assert text is not None, process.output
    line: dict[str, object] = json.loads(text)
    return line


def test_what_a_broker_learns_is_shown_while_events_are_followed() -> None:
    with Cluster() as cluster, following("events", "--follow", "--json", "-b", cluster.bootstrap_servers) as process:
        assert next_line(process)["event"] == "answers, and knows 0 topics"
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(WAIT_S)
        seen: list[object] = []
        while "topic orders has 2 partitions" not in seen:
            seen.append(next_line(process)["event"])


def test_records_are_shown_while_a_topic_is_followed() -> None:
    with Cluster() as cluster:
        cluster.create_topic("orders")
        with following(
            "consume", "orders", "--from", "beginning", "--json", "-b", cluster.bootstrap_servers
        ) as process:
            producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
            for value in ("one", "two"):
                producer.produce("orders", value)
                producer.flush(WAIT_S)
                assert next_line(process)["value"] == value
