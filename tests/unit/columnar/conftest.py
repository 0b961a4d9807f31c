"""A broker for the reader and the writer, and a connection to it that breaks."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from moldau.testing import Cluster


class BreakingWire:
    """A relay on loopback that breaks a connection each time `bytes_until_break` more bytes came from the broker."""

    def __init__(self) -> None:
        self.target_port = 0
        self.bytes_until_break: int | None = None
        self.breaks = 0
        self._left = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def break_every(self, count: int | None) -> None:
        self.bytes_until_break = count
        self._left = count or 0

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target_port))
                self._sockets += [near, far]
                for source, sink, is_answer in ((near, far, False), (far, near, True)):
                    thread = threading.Thread(target=self._relay, args=(source, sink, is_answer), daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _relay(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if is_answer and self.bytes_until_break is not None:
                    self._left -= len(data)
                    if self._left < 0:
                        self._left = self.bytes_until_break
                        self.breaks += 1
                        sink.sendall(data[: len(data) // 2])
                        break
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._sockets:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        for thread in self._threads:
            thread.join(10)


class Broker:
    """A cluster of one, and requests of tests to it."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        self._made = 0

    def create_topic(self, partitions: int = 1, name: str | None = None) -> str:
        self._made += 1
        name = name or f"topic-{self._made}"
        self._admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
        return name

    def add_partitions(self, topic: str, count: int) -> None:
        """`count`: of all partitions, afterwards."""
        self._admin.create_partitions([NewPartitions(topic, count)])[topic].result(30)

    def delete_records(self, topic: str, before_offset: int) -> None:
        asked = [TopicPartition(topic, 0, before_offset)]
        next(iter(self._admin.delete_records(asked).values())).result(30)

    def delete_topic(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(30)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Cluster() as cluster:
        yield Broker(cluster.bootstrap_servers)


@pytest.fixture
def wire() -> Iterator[tuple[BreakingWire, Broker]]:
    """A broker that is reached only through a wire that the test can break."""
    relay = BreakingWire()
    try:
        with Cluster(settings={"advertised.listeners": f"PLAINTEXT://127.0.0.1:{relay.port}"}) as cluster:
            relay.target_port = int(cluster.bootstrap_servers.rpartition(":")[2])
            yield relay, Broker(f"127.0.0.1:{relay.port}")
    finally:
        relay.close()
