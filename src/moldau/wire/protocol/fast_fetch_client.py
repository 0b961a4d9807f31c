"""Fetch responses by hand, for our own clients: the counterpart of `fast_fetch`, with records as views of the frame."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Final

from moldau.errors import ProtocolError
from moldau.wire.protocol.codec import decode_message
from moldau.wire.protocol.fast_fetch import (
    FLEXIBLE_FROM,
    LOG_START_OFFSET_FROM,
    RACK_FROM,
    SESSIONS_FROM,
    TOPIC_IDS_FROM,
    FetchAnswer,
    FetchResult,
    check_count,
    classic_topic,
    flexible_string,
)
from moldau.wire.protocol.messages.fetch import EpochEndOffset, FetchResponse, LeaderIdAndEpoch, SnapshotId
from moldau.wire.protocol.runtime import decode_uvarint, finish_uvarint, skip_tagged_fields

_unpack_int = Struct(">i").unpack_from
_NO_EPOCH: Final = EpochEndOffset()
_NO_LEADER: Final = LeaderIdAndEpoch()
_NO_SNAPSHOT: Final = SnapshotId()
_unpack_answer_4 = Struct(">ii").unpack_from
_unpack_answer_7 = Struct(">ihii").unpack_from
_unpack_answer_12 = Struct(">ihiB").unpack_from
_unpack_result_4 = Struct(">ihqqi").unpack_from
_unpack_result_5 = Struct(">ihqqqi").unpack_from
_unpack_result_12 = Struct(">ihqqqB").unpack_from
_unpack_aborted = Struct(">qq").unpack_from
_unpack_flexible_aborted = Struct(">qqB").unpack_from
_unpack_preferred = Struct(">iB").unpack_from


def decode_fetch_response(frame: memoryview, position: int, version: int) -> FetchAnswer:
    """The response whose body begins at `position`; its records are views of the frame. Raises ProtocolError only."""
    try:
        if version < FLEXIBLE_FROM:
            return _decode_classic_response(frame, position, version)
        return _decode_flexible_response(frame, position, version) or _decode_any_response(frame, position, version)
    except (StructError, IndexError) as error:
        raise ProtocolError("the bytes end too early") from error


def _decode_classic_response(frame: memoryview, position: int, version: int) -> FetchAnswer:
    error_code = session_id = 0
    if version >= SESSIONS_FROM:
        throttle_time_ms, error_code, session_id, topic_count = _unpack_answer_7(frame, position)
        position += 14
    else:
        throttle_time_ms, topic_count = _unpack_answer_4(frame, position)
        position += 8
    check_count(topic_count, 6, len(frame) - position)
    results: list[FetchResult] = []
    for _ in range(topic_count):
        topic, position = classic_topic(frame, position)
        count: int = _unpack_int(frame, position)[0]
        position += 4
        check_count(count, _smallest_classic_result(version), len(frame) - position)
        for _ in range(count):
            position = _classic_result(frame, position, version, topic, results)
    return FetchAnswer(throttle_time_ms, error_code, session_id, results)


def _smallest_classic_result(version: int) -> int:
    return 30 if version < LOG_START_OFFSET_FROM else 38 if version < RACK_FROM else 42


def _classic_result(frame: memoryview, position: int, version: int, topic: bytes, results: list[FetchResult]) -> int:
    log_start_offset = preferred_read_replica = -1
    if version >= LOG_START_OFFSET_FROM:
        partition, error_code, high_watermark, stable, log_start_offset, count = _unpack_result_5(frame, position)
        position += 34
    else:
        partition, error_code, high_watermark, stable, count = _unpack_result_4(frame, position)
        position += 26
    aborted: tuple[tuple[int, int], ...] | None = None
    if count != -1:
        check_count(count, 16, len(frame) - position)
        aborted = tuple(_unpack_aborted(frame, position + 16 * index) for index in range(count))
        position += 16 * count
    if version >= RACK_FROM:
        (preferred_read_replica,) = _unpack_int(frame, position)
        position += 4
    (size,) = _unpack_int(frame, position)
    position += 4
    end: int = position + max(size, 0)
    if end > len(frame):
        raise ProtocolError("records longer than the rest")
    results.append(
        FetchResult(
            topic, partition, error_code, high_watermark, stable, log_start_offset,
            None if size < 0 else frame[position:end], aborted, preferred_read_replica,
        )
    )  # fmt: skip
    return end


def _decode_flexible_response(frame: memoryview, position: int, version: int) -> FetchAnswer | None:
    """None where there are tagged fields: `_decode_any_response`."""
    throttle_time_ms, error_code, session_id, topic_count = _unpack_answer_12(frame, position)
    position += 11
    if topic_count > 127:
        topic_count, position = finish_uvarint(frame, position, topic_count)
    check_count(topic_count - 1, 18 if version >= TOPIC_IDS_FROM else 3, len(frame) - position)
    results: list[FetchResult] = []
    for _ in range(topic_count - 1):
        if version >= TOPIC_IDS_FROM:
            topic, position = bytes(frame[position : position + 16]), position + 16
        else:
            topic, position = flexible_string(frame, position)
        count, position = decode_uvarint(frame, position)
        check_count(count - 1, 37, len(frame) - position)
        for _ in range(count - 1):
            position = _flexible_result(frame, position, topic, results)
            if not position:
                return None
        if frame[position]:
            return None
        position += 1
    if frame[position]:
        return None
    return FetchAnswer(throttle_time_ms, error_code, session_id, results)


def _flexible_result(frame: memoryview, position: int, topic: bytes, results: list[FetchResult]) -> int:
    """The position behind one partition, or 0 if it has tagged fields."""
    partition, error_code, high_watermark, stable, log_start_offset, count = _unpack_result_12(frame, position)
    position += 31
    if count > 127:
        count, position = finish_uvarint(frame, position, count)
    aborted: list[tuple[int, int]] | None = None
    if count:
        check_count(count - 1, 17, len(frame) - position)
        aborted = []
        for _ in range(count - 1):
            producer_id, first_offset, tags = _unpack_flexible_aborted(frame, position)
            position += 17
            if tags:
                position = skip_tagged_fields(frame, position, tags)
            aborted.append((producer_id, first_offset))
    preferred_read_replica, size = _unpack_preferred(frame, position)
    position += 5
    if size > 127:
        size, position = finish_uvarint(frame, position, size)
    end: int = position + max(size - 1, 0)
    if frame[end]:
        return 0
    results.append(
        FetchResult(
            topic, partition, error_code, high_watermark, stable, log_start_offset,
            frame[position:end] if size else None, aborted if aborted is None else tuple(aborted),
            preferred_read_replica,
        )
    )  # fmt: skip
    return end + 1


def _decode_any_response(frame: memoryview, position: int, version: int) -> FetchAnswer:
    response, _ = decode_message(FetchResponse, version, frame, position)
    results = []
    for topic in response.responses:
        for data in topic.partitions:
            aborted = data.aborted_transactions
            diverging, leader, snapshot = data.diverging_epoch, data.current_leader, data.snapshot_id
            results.append(
                FetchResult(
                    bytes(topic.topic_id) if version >= TOPIC_IDS_FROM else topic.topic.encode(),
                    data.partition_index, data.error_code, data.high_watermark, data.last_stable_offset,
                    data.log_start_offset, data.records,
                    None if aborted is None else tuple((entry.producer_id, entry.first_offset) for entry in aborted),
                    data.preferred_read_replica,
                    None if diverging == _NO_EPOCH else (diverging.epoch, diverging.end_offset),
                    None if leader == _NO_LEADER else (leader.leader_id, leader.leader_epoch),
                    None if snapshot == _NO_SNAPSHOT else (snapshot.end_offset, snapshot.epoch),
                )
            )  # fmt: skip
    return FetchAnswer(
        response.throttle_time_ms, response.error_code, response.session_id, results, response.node_endpoints
    )
