"""Broker CPU and page faults of large Fetch and Produce requests: prepared frames, sent again and again.

The topic's files are in the page cache. Each connection waits for a response before it sends the next request.
"""

from __future__ import annotations

import socket
import time

from benchmarks.loaders.canned import request_frame
from benchmarks.loaders.one_record import PRODUCE_VERSION, drive, receive_answer
from benchmarks.peers import Peer, PeerError
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.records.builder import build_batch

FILL_BATCH_BYTES = 16 << 10
VALUE_BYTES = 1_000


def batch_of(size: int) -> bytes:
    """A batch with as many records of VALUE_BYTES as fit into `size` bytes."""
    now_ms = int(time.time() * 1000)
    records = [(None, bytes(VALUE_BYTES), now_ms, ())] * (size // (VALUE_BYTES + 10))
    return build_batch(records)


def produce_frame(topic: str, batch: bytes, partition: int = 0) -> bytes:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    return request_frame(0, PRODUCE_VERSION, ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]))


def fetch_frame(topic: str, partitions: int, partition_bytes: int) -> bytes:
    """Fetches `partition_bytes` from the beginning of each partition."""
    rows = tuple(
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=partition_bytes)
        for index in range(partitions)
    )
    body = FetchRequest(max_wait_ms=0, min_bytes=0, topics=(FetchTopic(topic=topic, partitions=rows),))
    return request_frame(1, 11, body)


def fill(peer: Peer, topic: str, partitions: int, request_bytes: int) -> None:
    """Writes twice the size of a Fetch into each partition, in batches of FILL_BATCH_BYTES."""
    batch = batch_of(FILL_BATCH_BYTES)
    with socket.create_connection(("127.0.0.1", peer.port)) as client:
        for partition in range(partitions):
            frame = produce_frame(topic, batch, partition)
            for _ in range(2 * request_bytes // len(batch) + 1):
                receive_answer(client, frame)


def measure(
    peer: Peer,
    topic: str,
    *,
    request: str,
    request_bytes: int,
    partitions: int,
    connections: tuple[int, ...],
    requests: int,
) -> dict[str, float]:
    """Broker CPU in microseconds and minor page faults per request, by number of connections. `request`: fetch or
    produce. Raises PeerError if a Fetch response is too short."""
    is_fetch = request == "fetch"
    frame = fetch_frame(topic, partitions, request_bytes) if is_fetch else produce_frame(topic, batch_of(request_bytes))
    least_bytes = partitions * (request_bytes - FILL_BATCH_BYTES) if is_fetch else 0
    figures = {}
    for count in connections:
        sockets: dict[int, socket.socket] = {}
        response_bytes = 0
        for _ in range(count):
            client = socket.create_connection(("127.0.0.1", peer.port))
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sockets[client.fileno()] = client
            response_bytes = len(receive_answer(client, frame))
        if response_bytes < least_bytes:
            raise PeerError(f"an answer of {response_bytes} bytes in place of {least_bytes} at least")
        cpu, faults = peer.cpu_seconds(), peer.minor_faults()
        drive(sockets, frame, response_bytes, requests=requests, in_flight=1)
        figures[f"cpu_us_by_{count}"] = (peer.cpu_seconds() - cpu) / requests * 1e6
        figures[f"faults_by_{count}"] = (peer.minor_faults() - faults) / requests
        for client in sockets.values():
            client.close()
    return figures
