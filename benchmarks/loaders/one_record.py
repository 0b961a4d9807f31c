"""One-record Produce requests over many connections, each waiting for its response: the broker's cost of a request.

The loader is one epoll loop with a prepared frame. Its ceiling is the rate at which it alone would fill a core: a row
within 10 % of the ceiling measures the loader, not the broker.
"""

from __future__ import annotations

import select
import socket
import struct
import time

from benchmarks.peers import Peer
from moldau.wire.protocol.codec import encode_message
from moldau.wire.protocol.framing import frame
from moldau.wire.protocol.headers import RequestHeader, encode_request_header
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.records.builder import build_batch

PRODUCE_VERSION = 9
RECEIVE_BYTES = 256 << 10


def produce_frame(topic: str, value_bytes: int) -> bytes:
    batch = build_batch([(None, bytes(value_bytes), int(time.time() * 1000), ())])
    partition = PartitionProduceData(index=0, records=batch)
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=[partition])]
    )
    header = RequestHeader(api_key=0, api_version=PRODUCE_VERSION, correlation_id=1, client_id="moldau-bench")
    return frame(encode_request_header(header), encode_message(request, PRODUCE_VERSION))


def measure(
    peer: Peer, topic: str, *, connections: int, requests: int, value_bytes: int, in_flight: int = 1
) -> dict[str, float]:
    """Gives requests/s, broker CPU in microseconds per request, and the loader's own ceiling in requests/s."""
    request = produce_frame(topic, value_bytes)
    sockets: dict[int, socket.socket] = {}
    for _ in range(connections):
        client = socket.create_connection(("127.0.0.1", peer.port))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sockets[client.fileno()] = client
        # One request on each: a connection for which the listen backlog has no room would wait a second.
        response_bytes = _response_bytes(client, request)
    cpu_before, own_before, begin = peer.cpu_seconds(), time.process_time(), time.perf_counter()
    answered = drive(sockets, request, response_bytes, requests=requests, in_flight=in_flight)
    seconds, own = time.perf_counter() - begin, time.process_time() - own_before
    cpu = peer.cpu_seconds() - cpu_before
    for client in sockets.values():
        client.close()
    return {"rate": answered / seconds, "cpu_us_per_request": cpu / answered * 1e6, "loader_ceiling": answered / own}


def drive(
    sockets: dict[int, socket.socket], request: bytes, response_bytes: int, *, requests: int, in_flight: int
) -> int:
    """Keeps `in_flight` requests in flight on each connection until `requests` are answered; gives their number.

    Raises OSError if the broker closes a connection or is silent for 30 s.
    """
    with select.epoll() as poller:
        for descriptor, client in sockets.items():
            poller.register(descriptor, select.EPOLLIN)
            client.sendall(request * in_flight)
        sent, answered = len(sockets) * in_flight, 0
        received = bytearray(RECEIVE_BYTES)
        pending = dict.fromkeys(sockets, 0)
        while answered < requests:
            events = poller.poll(30)
            if not events:
                raise TimeoutError("the broker has not answered for 30 s")
            for descriptor, _ in events:
                client = sockets[descriptor]
                read = client.recv_into(received)
                if not read:
                    raise ConnectionError("the broker closed a connection")
                complete, pending[descriptor] = divmod(pending[descriptor] + read, response_bytes)
                answered += complete
                again = min(complete, max(0, requests - sent))
                if again:
                    client.sendall(request if again == 1 else request * again)
                    sent += again
    return answered


def receive_answer(client: socket.socket, request: bytes) -> bytes:
    """Sends one request; gives the whole response frame. Raises ConnectionError if the broker closes the connection."""
    client.sendall(request)
    answer = bytearray()
    while len(answer) < 4 or len(answer) < 4 + struct.unpack_from(">i", answer)[0]:
        part = client.recv(RECEIVE_BYTES)
        if not part:
            raise ConnectionError("the broker closed a connection")
        answer += part
    return bytes(answer)


def _response_bytes(client: socket.socket, request: bytes) -> int:
    """Checks that a response has no error; gives the size of its frame, which is the same for each."""
    answer = receive_answer(client, request)
    # size, correlation id, tags | topics, name, partitions, index | error code
    at = 4 + 4 + 1 + 1
    at += 1 + answer[at] - 1 + 1 + 4
    (error_code,) = struct.unpack_from(">h", answer, at)
    if error_code:
        raise RuntimeError(f"the broker answered error {error_code}")
    return len(answer)
