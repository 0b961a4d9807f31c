"""Broker CPU for one request of each kind: the same prepared frames are sent again and again.

Each row has one connection with a few requests in flight. The loader is that of the one-record rows, so a row shows the
broker's part of a request: reading the frame, dispatch, the handler, and writing the response.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

import msgspec

from benchmarks.loaders.one_record import drive, produce_frame, receive_answer
from benchmarks.peers import Peer
from moldau.wire.protocol.codec import encode_message
from moldau.wire.protocol.framing import frame
from moldau.wire.protocol.headers import RequestHeader, encode_request_header
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

IN_FLIGHT = 4


def request_frame(api_key: int, version: int, body: msgspec.Struct) -> bytes:
    header = RequestHeader(api_key=api_key, api_version=version, correlation_id=1, client_id="moldau-bench")
    return frame(encode_request_header(header), encode_message(body, version))


def fetch_frame(topic: str) -> bytes:
    """Fetches the first batch of the topic, one record, without waiting."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    body = FetchRequest(max_wait_ms=0, min_bytes=0, topics=(FetchTopic(topic=topic, partitions=(partition,)),))
    return request_frame(1, 11, body)


def list_offsets_frame(topic: str) -> bytes:
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    body = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=(partition,)),))
    return request_frame(2, 5, body)


FRAMES: dict[str, Callable[[str], bytes]] = {
    "produce": lambda topic: produce_frame(topic, 100),
    "fetch": fetch_frame,
    "list_offsets": list_offsets_frame,
    "metadata": lambda topic: request_frame(3, 9, MetadataRequest(topics=(MetadataRequestTopic(name=topic),))),
    "api_versions": lambda _: request_frame(
        18, 3, ApiVersionsRequest(client_software_name="bench", client_software_version="1")
    ),
}


def measure(peer: Peer, topic: str, *, requests: int) -> dict[str, float]:
    """Broker CPU in microseconds per request, by kind of request."""
    figures = {}
    for name, make in FRAMES.items():
        with socket.create_connection(("127.0.0.1", peer.port)) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            request = make(topic)
            response_bytes = len(receive_answer(client, request))
            before = peer.cpu_seconds()
            drive({client.fileno(): client}, request, response_bytes, requests=requests, in_flight=IN_FLIGHT)
            figures[f"{name}_cpu_us"] = (peer.cpu_seconds() - before) / requests * 1e6
    return figures
