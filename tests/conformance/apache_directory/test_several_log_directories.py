"""Two log directories move from one broker to the other and back: each partition stays in its directory, and grows.

Has the requirements of test_open_with_apache_kafka.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.client.protocol.access import ClusterAccess
from moldau.transport.access import open_connection
from moldau.wire.protocol.messages.log_dirs import DescribeLogDirsRequest
from tests.support.apache_kafka import NEEDS_APACHE_KAFKA, apache_kafka, create_topics, produce, read_all

pytestmark = NEEDS_APACHE_KAFKA


@contextmanager
def moldau(directories: Sequence[Path]) -> Iterator[str]:
    """The command with both directories, stopped cleanly at the end."""
    paths = ",".join(str(directory) for directory in directories)
    command = [sys.executable, "-m", "moldau.cli.main", "up", "--listen", "127.0.0.1:0", "--set", f"log.dirs={paths}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert process.stdout is not None
    try:
        yield next(line.split()[1] for line in process.stdout if line.startswith("ready "))
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0


def places(servers: str) -> dict[tuple[str, int], str]:
    """The log directory of each test partition, by name."""
    host, _, port = servers.rpartition(":")
    with open_connection(ClusterAccess(host), host, int(port)) as connection:
        answer = connection.request(DescribeLogDirsRequest(topics=None))
    return {
        (topic.name, partition.partition_index): Path(result.log_dir).name
        for result in answer.results
        for topic in result.topics
        for partition in topic.partitions
        if not topic.name.startswith("__")
    }


@pytest.mark.parametrize("first", ["moldau", "apache"])
def test_partitions_stay_in_their_directories(tmp_path: Path, first: str) -> None:
    directories = tmp_path / "one", tmp_path / "two"
    paths = {"log.dirs": ",".join(str(directory) for directory in directories)}
    known: dict[tuple[str, int], str] = {}
    content = None
    for turn in range(3):
        is_moldau = (turn % 2 == 0) == (first == "moldau")
        broker = moldau(directories) if is_moldau else apache_kafka(tmp_path / f"kafka{turn}", directories[0], paths)
        with broker as servers:
            if turn == 0:
                create_topics(servers)
            else:
                found = read_all(servers)
                assert found == content
                assert {place: path for place, path in places(servers).items() if place in known} == known
            produce(servers, f"turn{turn}")
            admin = AdminClient({"bootstrap.servers": servers})
            admin.create_topics([NewTopic(f"turn{turn}", 2, 1)])[f"turn{turn}"].result(30)
            content = read_all(servers)
            known = places(servers)
            assert sorted(dict.fromkeys(known.values())) == ["one", "two"]
