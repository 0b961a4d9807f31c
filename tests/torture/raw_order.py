"""Raw connections that pipeline many requests, also while the broker starts: the responses come in order."""

from __future__ import annotations

import random
import socket
import struct
import threading

from moldau.wire.protocol.codec import encode_message
from moldau.wire.protocol.framing import frame
from moldau.wire.protocol.headers import RequestHeader, encode_request_header
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.records.builder import build_batch
from tests.torture.ledger import Ledger

ORDERED = "ordered"
ANSWER_TIMEOUT_S = 30
PRODUCE_VERSION, METADATA_VERSION, API_VERSIONS_VERSION = 9, 9, 3


def encoded(api_key: int, version: int, correlation_id: int, body: object) -> bytes:
    header = RequestHeader(
        api_key=api_key, api_version=version, correlation_id=correlation_id, client_id="moldau-torture"
    )
    return frame(encode_request_header(header), encode_message(body, version))  # type: ignore[arg-type]


class RawOrder(threading.Thread):
    """Each connection writes its number and a counter into the topic `ordered`; the final check compares their
    order."""

    def __init__(self, number: int, port: int, seed: str, ledger: Ledger, stop: threading.Event) -> None:
        super().__init__(name=f"raw connection {number}", daemon=True)
        self.number, self.port, self.ledger, self.has_to_stop = number, port, ledger, stop
        self.choices = random.Random(f"{seed} raw {number}")
        self.written = 0

    def run(self) -> None:
        while not self.has_to_stop.wait(self.choices.uniform(0.001, 0.05)):
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                    connection.settimeout(ANSWER_TIMEOUT_S)
                    for _ in range(self.choices.randrange(1, 20)):
                        self.exchange(connection)
            except TimeoutError:
                self.ledger.problem(f"{self.name}: no answer within {ANSWER_TIMEOUT_S} s on a connection that is open")
            except OSError:
                # The broker was killed, or does not run yet: the next connection tries again at once.
                self.ledger.count("raw connections that were cut")

    def exchange(self, connection: socket.socket) -> None:
        first = self.choices.randrange(1 << 20)
        requests = [self.request(first + index) for index in range(self.choices.randrange(1, 40))]
        connection.sendall(b"".join(requests))
        for index in range(len(requests)):
            (size,) = struct.unpack(">i", self.receive(connection, 4))
            (correlation_id,) = struct.unpack_from(">i", self.receive(connection, size))
            if correlation_id != first + index:
                self.ledger.problem(f"{self.name}: request {first + index} was awaited, {correlation_id} was answered")
                raise OSError("out of order")
            self.ledger.count("raw answers in order")

    def receive(self, connection: socket.socket, size: int) -> bytes:
        received = b""
        while len(received) < size:
            more = connection.recv(size - len(received))
            if not more:
                raise OSError("closed")
            received += more
        return received

    def request(self, correlation_id: int) -> bytes:
        kind = self.choices.randrange(4)
        if kind == 0:
            return encoded(3, METADATA_VERSION, correlation_id, MetadataRequest(topics=None))
        if kind == 1:
            body = ApiVersionsRequest(client_software_name="torture", client_software_version="1")
            return encoded(18, API_VERSIONS_VERSION, correlation_id, body)
        self.written += 1
        value = b"%d:%d" % (self.number, self.written)
        batch = build_batch([(None, value, 1_700_000_000_000, ())])
        data = [TopicProduceData(name=ORDERED, partition_data=[PartitionProduceData(index=0, records=batch)])]
        acks = self.choices.choice((1, -1))
        return encoded(
            0, PRODUCE_VERSION, correlation_id, ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=data)
        )
