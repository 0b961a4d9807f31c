"""Who reads the output of a command that follows a cluster through a pipe sees each line when it is written."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing import Cluster

WAIT_S = 60


@contextmanager
def following(*words: str) -> Iterator[IO[bytes]]:
    """What a command prints that runs until it is ended."""
    command = [sys.executable, "-m", "moldau.cli.main", *words]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0, env=buffered)
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.terminate()
        process.wait(WAIT_S)
        process.stdout.close()


def next_line(output: IO[bytes]) -> dict[str, object]:
    ready, _, _ = select.select([output], [], [], WAIT_S)
    assert ready, "nothing was written"
    line: dict[str, object] = json.loads(output.readline())
    return line


def test_what_a_broker_learns_is_shown_while_events_are_followed() -> None:
    with Cluster() as cluster, following("events", "--follow", "--json", "-b", cluster.bootstrap_servers) as output:
        assert next_line(output)["event"] == "answers, and knows 0 topics"
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(WAIT_S)
        seen: list[object] = []
        while "topic orders has 2 partitions" not in seen:
            seen.append(next_line(output)["event"])


def test_records_are_shown_while_a_topic_is_followed() -> None:
    with Cluster() as cluster:
        cluster.create_topic("orders")
        with following("consume", "orders", "--from", "beginning", "--json", "-b", cluster.bootstrap_servers) as output:
            producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
            for value in ("one", "two"):
                producer.produce("orders", value)
                producer.flush(WAIT_S)
                assert next_line(output)["value"] == value
