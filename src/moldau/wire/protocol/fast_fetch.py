"""Fetch by hand, for the broker's hot path and for our own clients: the same bytes as the codec, in flat lists.

Records are never copied: a request has none, a response is encoded as a list of buffers in which the records stand as
they were given, and decoded into views of the frame. A topic is the UTF-8 of its name, or from version 13 its 16-byte
id. Entries and results stand in the order of the wire; those of one topic stand side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Final

import msgspec

from moldau.errors import ProtocolError
from moldau.types import ZERO_UUID, Buffer, Uuid
from moldau.wire.protocol.codec import decode_message
from moldau.wire.protocol.messages.fetch import FetchRequest, NodeEndpoint
from moldau.wire.protocol.runtime import (
    MAX_ELEMENTS,
    encode_string_length,
    encode_uvarint,
    finish_string_length,
    finish_uvarint,
)

MIN_VERSION: Final = 4
MAX_VERSION: Final = 18
LOG_START_OFFSET_FROM: Final = 5
SESSIONS_FROM: Final = 7
LEADER_EPOCH_FROM: Final = 9
RACK_FROM: Final = 11
FLEXIBLE_FROM: Final = 12
TOPIC_IDS_FROM: Final = 13
REPLICA_STATE_FROM: Final = 15
NODE_ENDPOINTS_FROM: Final = 16
NO_HIGH_WATERMARK: Final = 2**63 - 1


class FetchEntry(msgspec.Struct, frozen=True):
    """One partition of a request; -1 where the version does not carry the field."""

    topic: bytes
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int
    replica_directory_id: Uuid = ZERO_UUID
    high_watermark: int = NO_HIGH_WATERMARK


class FetchQuestion(msgspec.Struct, frozen=True):
    """A whole request. `forgotten`: (topic, partitions) that leave the session."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    entries: list[FetchEntry]
    forgotten: list[tuple[bytes, tuple[int, ...]]]
    rack_id: str = ""
    replica_epoch: int = -1
    cluster_id: str | None = None


class FetchResult(msgspec.Struct, frozen=True):
    """One partition of a response. Pairs: diverging epoch (epoch, end offset), current leader (id, epoch), snapshot
    (end offset, epoch), aborted transactions (producer id, first offset)."""

    topic: bytes
    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Buffer | None = b""
    aborted_transactions: Sequence[tuple[int, int]] | None = ()
    preferred_read_replica: int = -1
    diverging_epoch: tuple[int, int] | None = None
    current_leader: tuple[int, int] | None = None
    snapshot_id: tuple[int, int] | None = None


class FetchAnswer(msgspec.Struct, frozen=True):
    """A whole response."""

    throttle_time_ms: int
    error_code: int
    session_id: int
    results: list[FetchResult]
    node_endpoints: tuple[NodeEndpoint, ...] = ()


# -- requests

_unpack_head_4 = Struct(">iiiibi").unpack_from
_unpack_head_7 = Struct(">iiiibiii").unpack_from
_unpack_head_12 = Struct(">iiiibiiB").unpack_from
_unpack_head_15 = Struct(">iiibiiB").unpack_from
_unpack_partition_4 = Struct(">iqi").unpack_from
_unpack_partition_5 = Struct(">iqqi").unpack_from
_unpack_partition_9 = Struct(">iiqqi").unpack_from
_unpack_partition_12 = Struct(">iiqiqiB").unpack_from
_unpack_short = Struct(">h").unpack_from
_unpack_int = Struct(">i").unpack_from


def decode_fetch_request(frame: memoryview, position: int, version: int) -> FetchQuestion:
    """The request whose body begins at `position`. Keeps no view of the frame. Raises ProtocolError only."""
    try:
        if version < FLEXIBLE_FROM:
            return _decode_classic_request(frame, position, version)
        return _decode_flexible_request(frame, position, version) or _decode_any_request(frame, position, version)
    except (StructError, IndexError) as error:
        raise ProtocolError("the bytes end too early") from error


def _decode_classic_request(frame: memoryview, position: int, version: int) -> FetchQuestion:
    session_id, session_epoch = 0, -1
    if version >= SESSIONS_FROM:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, topic_count = (
            _unpack_head_7(frame, position)
        )
        position += 29
    else:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, topic_count = _unpack_head_4(frame, position)
        position += 21
    check_count(topic_count, 6, len(frame) - position)
    entries: list[FetchEntry] = []
    for _ in range(topic_count):
        topic, position = classic_topic(frame, position)
        (count,) = _unpack_int(frame, position)
        position = _classic_partitions(frame, position + 4, version, topic, count, entries)
    forgotten: list[tuple[bytes, tuple[int, ...]]] = []
    rack_id = ""
    if version >= SESSIONS_FROM:
        (topic_count,) = _unpack_int(frame, position)
        position += 4
        check_count(topic_count, 6, len(frame) - position)
        for _ in range(topic_count):
            topic, position = classic_topic(frame, position)
            (count,) = _unpack_int(frame, position)
            position += 4
            check_count(count, 4, len(frame) - position)
            forgotten.append((topic, Struct(f">{count}i").unpack_from(frame, position)))
            position += 4 * count
    if version >= RACK_FROM:
        rack, position = classic_topic(frame, position)
        rack_id = rack.decode()
    return FetchQuestion(
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch,
        entries, forgotten, rack_id,
    )  # fmt: skip


def classic_topic(frame: memoryview, position: int) -> tuple[bytes, int]:
    (size,) = _unpack_short(frame, position)
    position += 2
    end = position + size
    if size < 0 or end > len(frame):
        raise ProtocolError("string null or longer than the rest")
    return _utf8(frame[position:end]), end


def _classic_partitions(
    frame: memoryview, position: int, version: int, topic: bytes, count: int, entries: list[FetchEntry]
) -> int:
    if version >= LEADER_EPOCH_FROM:
        check_count(count, 28, len(frame) - position)
        for _ in range(count):
            partition, leader_epoch, offset, log_start_offset, max_bytes = _unpack_partition_9(frame, position)
            position += 28
            entries.append(FetchEntry(topic, partition, leader_epoch, offset, -1, log_start_offset, max_bytes))
    elif version >= LOG_START_OFFSET_FROM:
        check_count(count, 24, len(frame) - position)
        for _ in range(count):
            partition, offset, log_start_offset, max_bytes = _unpack_partition_5(frame, position)
            position += 24
            entries.append(FetchEntry(topic, partition, -1, offset, -1, log_start_offset, max_bytes))
    else:
        check_count(count, 16, len(frame) - position)
        for _ in range(count):
            partition, offset, max_bytes = _unpack_partition_4(frame, position)
            position += 16
            entries.append(FetchEntry(topic, partition, -1, offset, -1, -1, max_bytes))
    return position


def _decode_flexible_request(frame: memoryview, position: int, version: int) -> FetchQuestion | None:
    """The request of a consumer; None, for `_decode_any_request`, if it has tagged fields or forgets partitions."""
    limit = len(frame)
    replica_id = -1
    if version >= REPLICA_STATE_FROM:
        max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, topic_count = _unpack_head_15(
            frame, position
        )
        position += 22
    else:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, topic_count = (
            _unpack_head_12(frame, position)
        )
        position += 26
    if topic_count > 127:
        topic_count, position = finish_uvarint(frame, position, topic_count)
    check_count(topic_count - 1, 18 if version >= TOPIC_IDS_FROM else 3, limit - position)
    entries: list[FetchEntry] = []
    for _ in range(topic_count - 1):
        if version >= TOPIC_IDS_FROM:
            topic, position = bytes(frame[position : position + 16]), position + 16
        else:
            topic, position = flexible_string(frame, position)
        count = frame[position]
        position += 1
        if count > 127:
            count, position = finish_uvarint(frame, position, count)
        check_count(count - 1, 33, limit - position)
        for _ in range(count - 1):
            partition, leader_epoch, offset, fetched_epoch, log_start_offset, max_bytes, tags = _unpack_partition_12(
                frame, position
            )
            if tags:
                return None
            position += 33
            entries.append(
                FetchEntry(topic, partition, leader_epoch, offset, fetched_epoch, log_start_offset, max_bytes)
            )
        if frame[position]:
            return None
        position += 1
    if frame[position] != 1:
        return None
    rack, position = flexible_string(frame, position + 1)
    if frame[position]:
        return None
    return FetchQuestion(
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch,
        entries, [], rack.decode(),
    )  # fmt: skip


def _decode_any_request(frame: memoryview, position: int, version: int) -> FetchQuestion:
    request, _ = decode_message(FetchRequest, version, frame, position)
    has_ids = version >= TOPIC_IDS_FROM
    entries = [
        FetchEntry(
            topic.topic_id if has_ids else topic.topic.encode(),
            entry.partition,
            entry.current_leader_epoch,
            entry.fetch_offset,
            entry.last_fetched_epoch,
            entry.log_start_offset,
            entry.partition_max_bytes,
            entry.replica_directory_id,
            entry.high_watermark,
        )
        for topic in request.topics
        for entry in topic.partitions
    ]
    forgotten = [
        (bytes(topic.topic_id) if has_ids else topic.topic.encode(), topic.partitions)
        for topic in request.forgotten_topics_data
    ]
    state = request.replica_state
    return FetchQuestion(
        state.replica_id if version >= REPLICA_STATE_FROM else request.replica_id,
        request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level,
        request.session_id, request.session_epoch, entries, forgotten, request.rack_id,
        state.replica_epoch, request.cluster_id,
    )  # fmt: skip


def flexible_string(frame: memoryview, position: int) -> tuple[bytes, int]:
    size = frame[position]
    position += 1
    if size > 127:
        size, position = finish_string_length(frame, position, size)
    end = position + size - 1
    if not size or end > len(frame):
        raise ProtocolError("string null or longer than the rest")
    return _utf8(frame[position:end]), end


def _utf8(text: memoryview) -> bytes:
    raw = bytes(text)
    return raw if raw.isascii() else raw.decode("utf-8", "replace").encode()


def check_count(count: int, size: int, remaining: int) -> None:
    if count < 0 or count * size > remaining or count > MAX_ELEMENTS:
        raise ProtocolError(f"array of {count}")


# -- responses, the broker's side

_pack_int = Struct(">i").pack
_pack_short = Struct(">h").pack
_pack_aborted = Struct(">qq").pack
_pack_flexible_aborted = Struct(">qqx").pack
_pack_epoch_and_offset = Struct(">BBiqx").pack
_pack_id_and_epoch = Struct(">BBiix").pack
_pack_offset_and_epoch = Struct(">BBqix").pack
_pack_partition_4 = Struct(">ihqqi").pack
_pack_partition_5 = Struct(">ihqqqi").pack
_pack_partition_12 = Struct(">ihqqq").pack
_pack_partition_12_plain = Struct(">ihqqqBi").pack
_pack_head_4 = Struct(">iiii").pack
_pack_head_7 = Struct(">iiihii").pack
_pack_head_12 = Struct(">iixihi").pack


def encode_fetch_response(
    version: int,
    correlation_id: int,
    results: Sequence[FetchResult],
    *,
    throttle_time_ms: int = 0,
    error_code: int = 0,
    session_id: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[Buffer]:
    """The whole framed response (length, header, body) as buffers to be written one after the other."""
    if version >= FLEXIBLE_FROM:
        parts = _encode_flexible(version, results, node_endpoints)
        size = sum(map(len, parts)) + 15
        head = _pack_head_12(size, correlation_id, throttle_time_ms, error_code, session_id)
    else:
        count, parts = _encode_classic(version, results)
        size = sum(map(len, parts)) + 12
        if version >= SESSIONS_FROM:
            head = _pack_head_7(size + 6, correlation_id, throttle_time_ms, error_code, session_id, count)
        else:
            head = _pack_head_4(size, correlation_id, throttle_time_ms, count)
    parts[0] = head + parts[0]
    return parts


def _by_topic(results: Sequence[FetchResult]) -> list[tuple[bytes, list[FetchResult]]]:
    topics: list[tuple[bytes, list[FetchResult]]] = []
    for result in results:
        if not topics or topics[-1][0] != result.topic:
            topics.append((result.topic, []))
        topics[-1][1].append(result)
    return topics


def _encode_classic(version: int, results: Sequence[FetchResult]) -> tuple[int, list[Buffer]]:
    topics = _by_topic(results)
    parts: list[Buffer] = []
    small: list[bytes] = [b""]
    for topic, group in topics:
        small += (_pack_short(len(topic)), topic, _pack_int(len(group)))
        for result in group:
            aborted = result.aborted_transactions
            aborted_count = -1 if aborted is None else len(aborted)
            if version >= LOG_START_OFFSET_FROM:
                small.append(
                    _pack_partition_5(
                        result.partition, result.error_code, result.high_watermark, result.last_stable_offset,
                        result.log_start_offset, aborted_count,
                    )
                )  # fmt: skip
            else:
                small.append(
                    _pack_partition_4(
                        result.partition, result.error_code, result.high_watermark, result.last_stable_offset,
                        aborted_count,
                    )
                )  # fmt: skip
            for producer_id, first_offset in aborted or ():
                small.append(_pack_aborted(producer_id, first_offset))
            if version >= RACK_FROM:
                small.append(_pack_int(result.preferred_read_replica))
            records = result.records
            small.append(_pack_int(-1 if records is None else len(records)))
            if records:
                parts += (b"".join(small), records)
                small = []
    if small:
        parts.append(b"".join(small))
    return len(topics), parts


def _encode_flexible(
    version: int, results: Sequence[FetchResult], node_endpoints: Sequence[NodeEndpoint]
) -> list[Buffer]:
    topics = _by_topic(results)
    parts: list[Buffer] = []
    small = [encode_uvarint(len(topics) + 1)]
    for topic, group in topics:
        if version < TOPIC_IDS_FROM:
            small.append(encode_string_length(len(topic) + 1))
        small += (topic, encode_uvarint(len(group) + 1))
        for result in group:
            _encode_flexible_partition(result, small)
            records = result.records
            if records is None:
                small.append(b"\x00")
            else:
                small.append(encode_uvarint(len(records) + 1))
                if records:
                    parts += (b"".join(small), records)
                    small = []
            small.append(_tagged_fields(result))
        small.append(b"\x00")
    if version >= NODE_ENDPOINTS_FROM and node_endpoints:
        small.append(_encode_node_endpoints(node_endpoints))
    else:
        small.append(b"\x00")
    parts.append(b"".join(small))
    return parts


def _encode_flexible_partition(result: FetchResult, small: list[bytes]) -> None:
    """All of a partition before its records."""
    aborted = result.aborted_transactions
    if not aborted:
        small.append(
            _pack_partition_12_plain(
                result.partition, result.error_code, result.high_watermark, result.last_stable_offset,
                result.log_start_offset, 0 if aborted is None else 1, result.preferred_read_replica,
            )
        )  # fmt: skip
        return
    small.append(
        _pack_partition_12(
            result.partition, result.error_code, result.high_watermark, result.last_stable_offset,
            result.log_start_offset, 0,
        )[:-1]
    )  # fmt: skip
    small.append(encode_uvarint(len(aborted) + 1))
    for producer_id, first_offset in aborted:
        small.append(_pack_flexible_aborted(producer_id, first_offset))
    small.append(_pack_int(result.preferred_read_replica))


def _tagged_fields(result: FetchResult) -> bytes:
    fields = []
    if result.diverging_epoch is not None:
        fields.append(_pack_epoch_and_offset(0, 13, *result.diverging_epoch))
    if result.current_leader is not None:
        fields.append(_pack_id_and_epoch(1, 9, *result.current_leader))
    if result.snapshot_id is not None:
        fields.append(_pack_offset_and_epoch(2, 13, *result.snapshot_id))
    if not fields:
        return b"\x00"
    return encode_uvarint(len(fields)) + b"".join(fields)


def _encode_node_endpoints(node_endpoints: Sequence[NodeEndpoint]) -> bytes:
    parts = [encode_uvarint(len(node_endpoints) + 1)]
    for node in node_endpoints:
        host = node.host.encode()
        parts += (_pack_int(node.node_id), encode_string_length(len(host) + 1), host, _pack_int(node.port))
        rack = None if node.rack is None else node.rack.encode()
        parts += (b"\x00",) if rack is None else (encode_string_length(len(rack) + 1), rack)
        parts.append(b"\x00")
    body = b"".join(parts)
    return b"\x01\x00" + encode_uvarint(len(body)) + body
