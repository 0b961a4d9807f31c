"""Bytes that are not a request: the connection closes, and nothing else is returned."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random

import msgspec

from moldau.simulation.workloads.refusals.case import PLAIN, FrameCase
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey
from moldau.wire.protocol.codec import encode_message
from moldau.wire.protocol.framing import frame
from moldau.wire.protocol.headers import RequestHeader, encode_request_header
from moldau.wire.protocol.messages.acls import AclCreation, CreateAclsRequest
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.protocol.messages.topics import CreatableTopic, CreateTopicsRequest

CORRELATION_ID = 77
CLIENT_ID = b"refused"
UNSERVED_KEYS = (-1, 4, 5, 6, 7, 52, 56, 71, 999)
UNSERVED_VERSIONS = ((0, 0), (0, 2), (0, 99), (1, 3), (1, -1), (3, 14), (22, 6))
TAGGED = 9
"""A version of Metadata whose header has tagged fields."""


class CrowdCase(msgspec.Struct, frozen=True):
    """One connection more than an address may have. It must be closed, and the earlier ones served."""

    data: bytes = frame(struct.pack(">hhih", 18, 0, CORRELATION_ID, 0))


def frame_cases(random: Random) -> Iterator[FrameCase]:
    """All cases. For each API, one request that `random` cuts off at some byte."""
    for length in (-1, -(1 << 31), 104_857_601, 0x16030100, 0x47455420):
        yield FrameCase(f"a frame of {length} bytes", struct.pack(">i", length) + b"\x01\x02")
    for length in (0, 1, 7):
        yield FrameCase(f"a frame of {length} bytes", frame(bytes(length)))
    for key in UNSERVED_KEYS:
        yield FrameCase(f"key {key}", frame(_header(key, 0)))
    for key, version in UNSERVED_VERSIONS:
        yield FrameCase(f"key {key} version {version}", frame(_header(key, version)))
    yield FrameCase("a client id beyond the frame", frame(struct.pack(">hhih", 3, 4, CORRELATION_ID, 99) + b"x"))
    head = _header(3, TAGGED)
    for name, rest in (
        ("no tagged fields", b""),
        ("cut tagged fields", b"\x05\x01"),
        ("endless tagged fields", b"\xff\xff\xff\xff\xff\xff"),
    ):
        yield FrameCase(name, frame(head + rest))
    for name, rest in (
        ("an array beyond the frame", struct.pack(">i", 1 << 30)),
        ("an array of -5", struct.pack(">i", -5)),
        ("a string beyond the frame", struct.pack(">ih", 1, 30_000)),
        ("a string of -5", struct.pack(">ih", 1, -5)),
    ):
        yield FrameCase(name, frame(_header(3, 4) + rest))
    for version in (-1, API_VERSIONS[ApiKey.API_VERSIONS].max_version + 1, 32_767):
        unknown = struct.pack(
            ">iihihhh", 16, CORRELATION_ID, 35, 1, 18, 0, API_VERSIONS[ApiKey.API_VERSIONS].max_version
        )
        data = frame(_header(18, version))
        yield FrameCase(f"ApiVersions {version}", data, unknown, is_closed=False)
    yield from _requests()
    yield from _cut_requests(random)


def _header(key: int, version: int) -> bytes:
    return struct.pack(">hhih", key, version, CORRELATION_ID, len(CLIENT_ID)) + CLIENT_ID


def _requests() -> Iterator[FrameCase]:
    """Whole requests after which the connection closes."""
    acl = CreateAclsRequest((AclCreation(0, "x", 3, "User:x", "*", 3, 3),))
    yield FrameCase("CreateAcls of kind 0", _framed(ApiKey.CREATE_ACLS, 1, acl))
    for name, topic, acks in (("an unknown topic", "refused.unknown", 0), ("no batch", PLAIN, 0)):
        data = TopicProduceData(topic, partition_data=(PartitionProduceData(0, b""),))
        yield FrameCase(f"acks=0, {name}", _framed(ApiKey.PRODUCE, 7, ProduceRequest(None, acks, 5_000, (data,))))


def _cut_requests(random: Random) -> Iterator[FrameCase]:
    topics = CreateTopicsRequest((CreatableTopic("refused.cut", 1, 1),))
    for key, row in API_VERSIONS.items():
        version = random.randint(row.min_version, row.max_version)
        request = topics if key == ApiKey.CREATE_TOPICS else row.request()
        header = encode_request_header(RequestHeader(key, version, CORRELATION_ID, "refused"))
        body = encode_message(request, version)
        if body:
            yield FrameCase(f"{key.name} v{version}, cut", frame(header, body[: random.randrange(len(body))]))


def _framed(key: ApiKey, version: int, request: msgspec.Struct) -> bytes:
    header = encode_request_header(RequestHeader(key, version, CORRELATION_ID, "refused"))
    return frame(header, encode_message(request, version))
