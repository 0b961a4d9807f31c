"""Hostile bytes for a live broker, made from valid requests; a canary must notice nothing.

One seed gives one sequence of frames, some tens on each connection; responses are read and dropped. The caller watches
the broker's process.
"""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Iterator

from moldau.wire.protocol.api_keys import API_VERSIONS
from moldau.wire.protocol.codec import encode_message
from moldau.wire.protocol.headers import RequestHeader, encode_request_header
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.records.builder import build_batch
from tests.unit.wire.protocol.fuzz import random_message

FRAMES_PER_CONNECTION = 20
EDGES = (-(2**31), -(2**15), -2, -1, 0, 1, 127, 128, 2**15 - 1, 2**16, 2**31 - 1)


def valid_requests() -> list[bytes]:
    """One request of every served (API, version), and larger ones of those that carry records."""
    topic = "fuzzed"
    batches = [
        build_batch([(b"k", b"v" * 50, int(time.time() * 1000), (("h", b"x"),))] * 3, compression=codec)
        for codec in ("none", "gzip", "snappy", "lz4", "zstd")
    ]
    requests: list[bytes] = []
    for key, row in API_VERSIONS.items():
        for version in range(row.min_version, row.max_version + 1):
            header = bytes(encode_request_header(RequestHeader(key, version, 1, "fuzz")))
            requests.append(header + bytes(encode_message(row.request(), version)))
            for batch in batches if row.request is ProduceRequest and version <= 12 else ():
                data = (TopicProduceData(name=topic, partition_data=(PartitionProduceData(records=batch),)),)
                requests.append(header + bytes(encode_message(ProduceRequest(acks=1, topic_data=data), version)))
            if row.request is FetchRequest and version <= 12:
                wanted = (FetchTopic(topic=topic, partitions=(FetchPartition(partition_max_bytes=1 << 20),)),)
                requests.append(header + bytes(encode_message(FetchRequest(max_wait_ms=1, topics=wanted), version)))
            if row.request is MetadataRequest and version >= 4:
                names = (MetadataRequestTopic(name=topic), MetadataRequestTopic(name="a/b"))
                requests.append(header + bytes(encode_message(MetadataRequest(topics=names), version)))
    return requests


def mutated(chance: random.Random, original: bytes) -> bytes:
    """A few changes of the kinds that break parsers: bits, lengths, cuts, repeats, foreign bytes."""
    data = bytearray(original)
    for _ in range(chance.randrange(0, 5)):
        if not data:
            break
        at = chance.randrange(len(data))
        kind = chance.randrange(6)
        if kind == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data[at : at + 4] = struct.pack(">i", chance.choice(EDGES))
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            data[at:at] = data[at : at + chance.randrange(1, 64)]
        elif kind == 4:
            data[at:at] = chance.randbytes(chance.randrange(1, 32))
        else:
            data[at : at + 2] = struct.pack(">h", max(-(2**15), min(2**15 - 1, chance.choice(EDGES))))
    return bytes(data)


def frames(seed: int) -> Iterator[bytes]:
    """Endless frames with their lengths; now and then the length is wrong, or the frame is cut."""
    chance, originals = random.Random(seed), valid_requests()
    served = [(key, row, v) for key, row in API_VERSIONS.items() for v in range(row.min_version, row.max_version + 1)]
    while True:
        if chance.random() < 0.5:
            original = chance.choice(originals)
        else:
            # Valid in its form, but with nonsense values.
            key, row, version = chance.choice(served)
            body = encode_message(random_message(row.request, version, chance), version)
            original = bytes(encode_request_header(RequestHeader(key, version, 1, "fuzz"))) + body
        payload = mutated(chance, original)
        length = len(payload)
        if chance.random() < 0.02:
            length = chance.choice(EDGES)
        frame = struct.pack(">i", length) + payload
        yield frame[: chance.randrange(len(frame))] if chance.random() < 0.02 else frame


def attack(address: str, seed: int, count: int) -> int:
    """Sends `count` frames; gives the number of connections that the broker closed. Raises if it no longer accepts
    one."""
    host, _, port = address.rpartition(":")
    source = frames(seed)
    closed = sent = 0
    while sent < count:
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(min(FRAMES_PER_CONNECTION, count - sent)):
                sent += 1
                if not exchange(connection, next(source)):
                    closed += 1
                    break
    return closed


def exchange(connection: socket.socket, frame: bytes) -> bool:
    """Sends one frame and reads the responses so far; False if the connection ended."""
    try:
        connection.settimeout(20)
        connection.sendall(frame)
        connection.settimeout(0.002)
        while connection.recv(65536):
            pass
        return False
    except TimeoutError:
        return True
    except OSError:
        return False
