"""Many partitions on one node: seconds to create, to restart after kill -9 and after a clean stop; the cost of idling.

    python benchmarks/micro/many_topics.py [--topics 10000] [--partitions 2] [--directory DIR] [--idle 10] [--json]

A broker in its own process creates the topics and gets one batch of 1 KiB in each partition. It is killed and started
again (timed until a client reads the last record of the last topic), idles for `--idle` seconds, is stopped by SIGTERM
and started once more. Needs Linux (/proc) for CPU, memory and descriptors.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any

from moldau.client.blocking.connection import ClientConnection
from moldau.client.protocol.access import ClusterAccess
from moldau.transport.access import open_connection
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from moldau.wire.records.builder import build_batch

TOPICS_IN_A_REQUEST = 500
START_TIMEOUT_S = 300
FETCH_VERSION = PRODUCE_VERSION = 12
CREATE_VERSION = 7
READY = (
    "import sys; from moldau.core.config.broker_settings import parse_broker_settings as parse; "
    "from moldau.shell.node.main import run_node; "
    "run_node(parse({'node.id': '1', 'listeners': 'PLAINTEXT://127.0.0.1:' + sys.argv[2]}), data_directory=sys.argv[1])"
)


class Broker:
    """The process; `start` returns when it answers."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", READY, self.directory, str(self.port)])

    def end(self, number: int) -> float:
        """The seconds until the process has ended."""
        assert self.process is not None
        begin = time.perf_counter()
        self.process.send_signal(number)
        self.process.wait()
        return time.perf_counter() - begin

    def connect(self) -> ClientConnection:
        deadline = time.perf_counter() + START_TIMEOUT_S
        while True:
            try:
                return open_connection(
                    ClusterAccess("127.0.0.1", request_timeout_ms=START_TIMEOUT_S * 1_000), "127.0.0.1", self.port
                )
            except Exception:
                if time.perf_counter() > deadline:
                    raise
                time.sleep(0.02)

    def cpu_seconds(self) -> float:
        assert self.process is not None
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self) -> int:
        assert self.process is not None
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS"))

    def descriptors(self) -> int:
        assert self.process is not None
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def name_of(number: int) -> str:
    return f"topic-{number:05}"


def create(client: ClientConnection, topics: int, partitions: int) -> None:
    for first in range(0, topics, TOPICS_IN_A_REQUEST):
        rows = tuple(
            CreatableTopic(name=name_of(number), num_partitions=partitions, replication_factor=1)
            for number in range(first, min(first + TOPICS_IN_A_REQUEST, topics))
        )
        request = CreateTopicsRequest(topics=rows, timeout_ms=START_TIMEOUT_S * 1_000)
        answer = client.request(request, max_version=CREATE_VERSION)
        assert all(topic.error_code == 0 for topic in answer.topics), answer


def fill(client: ClientConnection, topics: int, partitions: int) -> None:
    batch = build_batch([(None, b"v" * 950, int(time.time() * 1_000), ())])
    for first in range(0, topics, TOPICS_IN_A_REQUEST):
        rows = tuple(
            TopicProduceData(
                name=name_of(number),
                partition_data=tuple(PartitionProduceData(index, batch) for index in range(partitions)),
            )
            for number in range(first, min(first + TOPICS_IN_A_REQUEST, topics))
        )
        request = ProduceRequest(acks=-1, timeout_ms=START_TIMEOUT_S * 1_000, topic_data=rows)
        answer = client.request(request, max_version=PRODUCE_VERSION)
        codes = [row.error_code for topic in answer.responses for row in topic.partition_responses]
        assert not any(codes), codes


def read_last(client: ClientConnection, topics: int, partitions: int) -> None:
    asked = FetchPartition(partition=partitions - 1, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0, max_bytes=1 << 20, topics=(FetchTopic(topic=name_of(topics - 1), partitions=(asked,)),)
    )
    answer = client.request(request, max_version=FETCH_VERSION)
    found = answer.responses[0].partitions[0]
    assert found.error_code == 0, found
    assert found.records, found


def measure(directory: str, topics: int, partitions: int, idle_s: float) -> dict[str, Any]:
    results: dict[str, Any] = {"topics": topics, "partitions": topics * partitions}
    broker = Broker(directory)
    broker.start()
    try:
        with broker.connect() as client:
            begin = time.perf_counter()
            create(client, topics, partitions)
            results["create_s"] = time.perf_counter() - begin
            begin = time.perf_counter()
            fill(client, topics, partitions)
            results["first_batches_s"] = time.perf_counter() - begin
            results["descriptors"] = broker.descriptors()
        broker.end(signal.SIGKILL)
        results["start_after_kill_s"] = timed_start(broker, topics, partitions)
        time.sleep(2)
        begin, used = time.perf_counter(), broker.cpu_seconds()
        time.sleep(idle_s)
        results["idle_cpu_percent"] = 100 * (broker.cpu_seconds() - used) / (time.perf_counter() - begin)
        results["memory_mb"] = broker.memory_bytes() / 1e6
        results["descriptors_after_start"] = broker.descriptors()
        results["clean_stop_s"] = broker.end(signal.SIGTERM)
        results["start_after_clean_stop_s"] = timed_start(broker, topics, partitions)
        results["second_clean_stop_s"] = broker.end(signal.SIGTERM)
    finally:
        if broker.process is not None and broker.process.poll() is None:
            broker.end(signal.SIGKILL)
    return results


def timed_start(broker: Broker, topics: int, partitions: int) -> float:
    begin = time.perf_counter()
    broker.start()
    with broker.connect() as client:
        read_last(client, topics, partitions)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=2, help="of each topic")
    parser.add_argument("--idle", type=float, default=10, metavar="SECONDS")
    parser.add_argument("--directory", help="where the data goes; default: a new one, removed at the end")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    directory = arguments.directory or tempfile.mkdtemp(prefix="moldau-many-topics-")
    try:
        results = measure(directory, arguments.topics, arguments.partitions, arguments.idle)
    finally:
        if arguments.directory is None:
            shutil.rmtree(directory, ignore_errors=True)
    if arguments.json:
        print(json.dumps(results))
        return
    for name, value in results.items():
        print(f"{name:28} {value:10.2f}" if isinstance(value, float) else f"{name:28} {value:>10}")


if __name__ == "__main__":
    main()
