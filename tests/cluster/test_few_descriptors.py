"""A broker with few file descriptors refuses connections, but keeps its log directory."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.running_broker import RunningBroker

LIMIT = 256
PARTITIONS = 300
MAX_CONNECTIONS = 600


def is_refused(connection: socket.socket) -> bool:
    connection.settimeout(1)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


@pytest.mark.slow
def test_connections_do_not_take_the_descriptors_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = subprocess.Popen

    def limited(command: list[str], **options: object) -> subprocess.Popen[str]:
        shell = ["sh", "-c", f'ulimit -n {LIMIT} && exec "$@"', "sh", *command]
        return start(shell, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(subprocess, "Popen", limited)
    broker = RunningBroker("--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--no-console")
    broker.wait_until_ready()
    monkeypatch.undo()
    if sys.platform == "linux":
        assert resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE) == (LIMIT, LIMIT)
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic("wide", PARTITIONS, 1)])["wide"].result(30)
    producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True})
    failures: list[object] = []

    def produce_everywhere() -> None:
        for partition in range(PARTITIONS):
            producer.produce(
                "wide",
                b"value",
                partition=partition,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        assert producer.flush(30) == 0
        assert failures == []

    produce_everywhere()
    host, _, port = broker.address.rpartition(":")
    connections: list[socket.socket] = []

    def connect_on_and_on() -> None:
        """Takes every free descriptor at once."""
        while len(connections) < MAX_CONNECTIONS:
            connections.append(socket.create_connection((host, int(port)), timeout=10))

    connecting = threading.Thread(target=connect_on_and_on)
    connecting.start()
    try:
        for _ in range(3):
            produce_everywhere()
    finally:
        connecting.join(60)
    assert is_refused(connections[-1])
    assert not is_refused(connections[0])
    for connection in connections:
        connection.close()
    assert broker.stop() == 0
    assert not [line for line in broker.output if "ERROR" in line or "Traceback" in line], broker.output
