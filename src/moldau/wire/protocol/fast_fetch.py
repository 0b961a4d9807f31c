"""Hand-written codec of Fetch for the broker's hot path: the same bytes as the codec, in flat tuples.

Records are never copied: an encoded response is a list of buffers that includes the given ones. A topic is the UTF-8 of
its name, or from version 13 its 16-byte id. Entries and results are in the order of the wire, those of one topic next
to each other. (Clients decode responses with the codec, which is as fast and returns views as well.)
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Final, cast

from moldau.errors import ProtocolError
from moldau.ports import LaterBytes
from moldau.types import Buffer, Pausing, whole
from moldau.wire.protocol.codec import decode_message
from moldau.wire.protocol.elsewhere import (
    CurrentLeader,
    LeaderNode,
    PreferredReadReplica,
    encode_current_leader,
    encode_leader_nodes,
)
from moldau.wire.protocol.grouping import by_topic
from moldau.wire.protocol.messages.fetch import FetchRequest
from moldau.wire.protocol.runtime import (
    MAX_ELEMENTS,
    encode_string_length,
    encode_uvarint,
    finish_string_length,
    finish_uvarint,
    utf8_of,
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
NO_SESSION_ID: Final = 0
FINAL_EPOCH: Final = -1

FetchEntry = tuple[bytes, int, int, int, int, int, int]
"""Topic, partition index, current leader epoch, fetch offset, last fetched epoch, log start offset, partition max
bytes; -1 for an epoch or offset that the version does not carry."""

ForgottenPartition = tuple[bytes, int]
"""Topic and partition index that the fetch session removes."""

Reader = tuple[int, int]
"""Replica id (-1: a consumer) and the epoch of that broker's registration (-1: not sent)."""
CONSUMER: Final[Reader] = (-1, -1)

FetchQuestion = tuple[Reader, int, int, int, int, int, int, list[FetchEntry], Sequence[ForgottenPartition], str]
"""Reader, max wait ms, min bytes, max bytes, isolation level, session id, session epoch, entries, forgotten partitions,
and the reader's rack ("": not sent)."""

AbortedTransactions = tuple[tuple[int, int], ...]
"""(producer id, first offset) of each transaction whose records a reader of committed records must skip."""

Part = Buffer | LaterBytes
Elsewhere = tuple[int, int] | CurrentLeader | PreferredReadReplica | None
"""Why no records are sent: the place where the logs diverge (epoch, end offset; from version 12), the leader (from
version 16), or the replica to read (from version 11)."""
FetchResult = tuple[bytes, int, int, int, int, int, Elsewhere, Part | None, AbortedTransactions | None]
"""Topic, partition index, error code, high watermark, last stable offset, log start offset, why no records are sent,
records, aborted transactions (null if not requested). Without records an empty batch list is sent, as in Kafka."""

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
    """The request at `position`. Keeps no view of the frame. Raises only ProtocolError.

    The cluster id, and the directory and high watermark of a replica are skipped.
    """
    try:
        if version < FLEXIBLE_FROM:
            return _decode_classic(frame, position, version)
        return _decode_flexible(frame, position, version) or _decode_any(frame, position, version)
    except (StructError, IndexError) as error:
        raise ProtocolError("the bytes end too early") from error


def _decode_classic(frame: memoryview, position: int, version: int) -> FetchQuestion:
    session_id, session_epoch = NO_SESSION_ID, FINAL_EPOCH
    if version >= SESSIONS_FROM:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, topic_count = (
            _unpack_head_7(frame, position)
        )
        position += 29
    else:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, topic_count = _unpack_head_4(frame, position)
        position += 21
    _check_count(topic_count, 6, len(frame) - position)
    entries: list[FetchEntry] = []
    for _ in range(topic_count):
        topic, position = _classic_string(frame, position)
        (count,) = _unpack_int(frame, position)
        position = _classic_partitions(frame, position + 4, version, topic, count, entries)
    forgotten: Sequence[ForgottenPartition] = ()
    if version >= SESSIONS_FROM:
        forgotten, position = _classic_forgotten(frame, position)
    rack = ""
    if version >= RACK_FROM:
        rack = str(_classic_string(frame, position)[0], "utf-8")
    bounds = max_wait_ms, min_bytes, max_bytes, isolation_level
    return (replica_id, -1), *bounds, session_id, session_epoch, entries, forgotten, rack


def _classic_string(frame: memoryview, position: int) -> tuple[bytes, int]:
    (size,) = _unpack_short(frame, position)
    position += 2
    end = position + size
    if size < 0 or end > len(frame):
        raise ProtocolError("string null or longer than the rest")
    return utf8_of(frame[position:end]), end


def _classic_partitions(
    frame: memoryview, position: int, version: int, topic: bytes, count: int, entries: list[FetchEntry]
) -> int:
    if version >= LEADER_EPOCH_FROM:
        _check_count(count, 28, len(frame) - position)
        for _ in range(count):
            partition, leader_epoch, offset, log_start_offset, max_bytes = _unpack_partition_9(frame, position)
            position += 28
            entries.append((topic, partition, leader_epoch, offset, -1, log_start_offset, max_bytes))
    elif version >= LOG_START_OFFSET_FROM:
        _check_count(count, 24, len(frame) - position)
        for _ in range(count):
            partition, offset, log_start_offset, max_bytes = _unpack_partition_5(frame, position)
            position += 24
            entries.append((topic, partition, -1, offset, -1, log_start_offset, max_bytes))
    else:
        _check_count(count, 16, len(frame) - position)
        for _ in range(count):
            partition, offset, max_bytes = _unpack_partition_4(frame, position)
            position += 16
            entries.append((topic, partition, -1, offset, -1, -1, max_bytes))
    return position


def _classic_forgotten(frame: memoryview, position: int) -> tuple[Sequence[ForgottenPartition], int]:
    (topic_count,) = _unpack_int(frame, position)
    position += 4
    if topic_count == 0:
        return (), position
    _check_count(topic_count, 6, len(frame) - position)
    forgotten: list[ForgottenPartition] = []
    for _ in range(topic_count):
        topic, position = _classic_string(frame, position)
        (count,) = _unpack_int(frame, position)
        position += 4
        _check_count(count, 4, len(frame) - position)
        for _ in range(count):
            forgotten.append((topic, _unpack_int(frame, position)[0]))
            position += 4
    return forgotten, position


def _decode_flexible(frame: memoryview, position: int, version: int) -> FetchQuestion | None:
    """The request of a consumer; None, for `_decode_any`, if it has tagged fields or forgets partitions."""
    reader = CONSUMER
    if version >= REPLICA_STATE_FROM:
        max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, topic_count = _unpack_head_15(
            frame, position
        )
        position += 22
    else:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, topic_count = (
            _unpack_head_12(frame, position)
        )
        reader = (replica_id, -1)
        position += 26
    if topic_count > 127:
        topic_count, position = finish_uvarint(frame, position, topic_count)
    _check_count(topic_count - 1, 18 if version >= TOPIC_IDS_FROM else 3, len(frame) - position)
    entries: list[FetchEntry] = []
    for _ in range(topic_count - 1):
        if version >= TOPIC_IDS_FROM:
            topic, position = bytes(frame[position : position + 16]), position + 16
        else:
            topic, position = _flexible_string(frame, position)
        count = frame[position]
        position += 1
        if count > 127:
            count, position = finish_uvarint(frame, position, count)
        _check_count(count - 1, 33, len(frame) - position)
        for _ in range(count - 1):
            partition, leader_epoch, offset, fetched_epoch, log_start_offset, partition_bytes, tags = (
                _unpack_partition_12(frame, position)
            )
            if tags:
                return None
            position += 33
            entries.append((topic, partition, leader_epoch, offset, fetched_epoch, log_start_offset, partition_bytes))
        if frame[position]:
            return None
        position += 1
    if frame[position] != 1:
        return None
    rack, position = _flexible_string(frame, position + 1)
    if frame[position]:
        return None
    bounds = max_wait_ms, min_bytes, max_bytes, isolation_level
    return reader, *bounds, session_id, session_epoch, entries, (), str(rack, "utf-8") if rack else ""


def _decode_any(frame: memoryview, position: int, version: int) -> FetchQuestion:
    request, _ = decode_message(FetchRequest, version, frame, position)
    return whole(fetch_question(request, version))


def fetch_question(request: FetchRequest, version: int) -> Pausing[FetchQuestion]:
    """The content of a decoded request."""
    entries: list[FetchEntry] = []
    for topic in request.topics:
        name = bytes(topic.topic_id) if version >= TOPIC_IDS_FROM else topic.topic.encode()
        for entry in topic.partitions:
            entries.append(
                (
                    name,
                    entry.partition,
                    entry.current_leader_epoch,
                    entry.fetch_offset,
                    entry.last_fetched_epoch,
                    entry.log_start_offset,
                    entry.partition_max_bytes,
                )
            )
            yield
    forgotten: list[ForgottenPartition] = []
    for left in request.forgotten_topics_data:
        name = bytes(left.topic_id) if version >= TOPIC_IDS_FROM else left.topic.encode()
        for partition in left.partitions:
            forgotten.append((name, partition))
            yield
    state = request.replica_state
    return (
        (state.replica_id, state.replica_epoch) if version >= REPLICA_STATE_FROM else (request.replica_id, -1),
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
        entries,
        forgotten,
        request.rack_id,
    )


def _flexible_string(frame: memoryview, position: int) -> tuple[bytes, int]:
    size = frame[position]
    position += 1
    if size > 127:
        size, position = finish_string_length(frame, position, size)
    end = position + size - 1
    if not size or end > len(frame):
        raise ProtocolError("string null or longer than the rest")
    return utf8_of(frame[position:end]), end


def _check_count(count: int, size: int, remaining: int) -> None:
    if count < 0 or count * size > remaining or count > MAX_ELEMENTS:
        raise ProtocolError(f"array of {count}")


# -- responses: their one-partition form is a template for each length of topic name

_NO_REPLICA: Final = -1
_ONE_4: Final = ">iiiih{0}siihqqii"
_ONE_5: Final = ">iiiih{0}siihqqqii"
_ONE_7: Final = ">iiihiih{0}siihqqqii"
_ONE_11: Final = ">iiihiih{0}siihqqqiii"
_ONE_12: Final = ">iixihiBB{0}sBihqqqBi"
_ONE_13: Final = ">iixihiB16sBihqqqBi"

_templates: dict[tuple[int, int], Struct] = {}

_pack_int = Struct(">i").pack
_pack_short = Struct(">h").pack
_pack_head_4 = Struct(">iiii").pack
_pack_head_7 = Struct(">iiihii").pack
_pack_head_12 = Struct(">iixihi").pack
_pack_partition_4 = Struct(">ihqqii").pack
_pack_partition_5 = Struct(">ihqqqii").pack
_pack_partition_11 = Struct(">ihqqqiii").pack
_pack_partition_12 = Struct(">ihqqqBi").pack
_pack_transaction = Struct(">qq").pack
_pack_transaction_12 = Struct(">qqx").pack
_pack_diverging_epoch = Struct(">BBBiqx").pack


def encode_fetch_response(
    version: int,
    correlation_id: int,
    error_code: int,
    session_id: int,
    results: Sequence[FetchResult],
    *,
    throttle_time_ms: int = 0,
    nodes: Sequence[LeaderNode] = (),
) -> list[Part]:
    """The framed response (length, header, body) as buffers, to be written in order.

    `error_code` and `session_id` are sent from version 7. `nodes`: of the leaders in `results`.
    """
    if len(results) == 1 and results[0][6] is None and not results[0][8] and len(results[0][0]) < 127:
        return _encode_one(version, correlation_id, throttle_time_ms, error_code, session_id, results[0])
    if version >= FLEXIBLE_FROM:
        parts = _encode_flexible(version, results, nodes)
        head = _pack_head_12(sum(map(len, parts)) + 15, correlation_id, throttle_time_ms, error_code, session_id)
    else:
        topic_count, parts = _encode_classic(version, results)
        size = sum(map(len, parts)) + 12
        if version >= SESSIONS_FROM:
            head = _pack_head_7(size + 6, correlation_id, throttle_time_ms, error_code, session_id, topic_count)
        else:
            head = _pack_head_4(size, correlation_id, throttle_time_ms, topic_count)
    parts[0] = head + cast(bytes, parts[0])
    return parts


def _template(version: int, name_size: int) -> Struct:
    if version >= FLEXIBLE_FROM:
        layout = _ONE_13 if version >= TOPIC_IDS_FROM else _ONE_12
    elif version >= SESSIONS_FROM:
        layout = _ONE_11 if version >= RACK_FROM else _ONE_7
    else:
        layout = _ONE_5 if version >= LOG_START_OFFSET_FROM else _ONE_4
    template = _templates[version, name_size] = Struct(layout.format(name_size))
    return template


def _encode_one(
    version: int,
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    session_id: int,
    result: FetchResult,
) -> list[Part]:
    topic, partition, code, high_watermark, last_stable_offset, log_start_offset, _, records, transactions = result
    aborted = -1 if transactions is None else 0
    size = len(topic)
    template = _templates.get((version, size)) or _template(version, size)
    record_bytes = len(records) if records else 0
    offsets = (partition, code, high_watermark, last_stable_offset, log_start_offset)
    if version >= FLEXIBLE_FROM:
        record_size = encode_uvarint(record_bytes + 1)
        length = template.size + len(record_size) + record_bytes - 1  # three tag sections follow, four bytes precede
        top = (length, correlation_id, throttle_time_ms, error_code, session_id, 2)
        if version >= TOPIC_IDS_FROM:
            head = template.pack(*top, topic, 2, *offsets, aborted + 1, _NO_REPLICA) + record_size
        else:
            head = template.pack(*top, size + 1, topic, 2, *offsets, aborted + 1, _NO_REPLICA) + record_size
        return [head, records, b"\x00\x00\x00"] if records else [head + b"\x00\x00\x00"]
    length = template.size + record_bytes - 4
    if version >= SESSIONS_FROM:
        fields = (length, correlation_id, throttle_time_ms, error_code, session_id, 1, size, topic, 1, *offsets)
        if version >= RACK_FROM:
            head = template.pack(*fields, aborted, _NO_REPLICA, record_bytes)
        else:
            head = template.pack(*fields, aborted, record_bytes)
    else:
        if version < LOG_START_OFFSET_FROM:
            offsets = offsets[:4]  # type: ignore[assignment]
        head = template.pack(
            length, correlation_id, throttle_time_ms, 1, size, topic, 1, *offsets, aborted, record_bytes
        )
    return [head, records] if records else [head]


def _encode_classic(version: int, results: Sequence[FetchResult]) -> tuple[int, list[Part]]:
    topics = by_topic(results)
    parts: list[Part] = []
    small: list[bytes] = [b""]
    for topic, group in topics:
        small += (_pack_short(len(topic)), topic, _pack_int(len(group)))
        for _, partition, code, high_watermark, stable, start, elsewhere, records, transactions in group:
            replica = _NO_REPLICA if elsewhere is None else _replica(elsewhere)
            size = len(records) if records else 0
            aborted = -1 if transactions is None else len(transactions)
            if version >= RACK_FROM:
                head = _pack_partition_11(partition, code, high_watermark, stable, start, aborted, replica, size)
            elif version >= LOG_START_OFFSET_FROM:
                head = _pack_partition_5(partition, code, high_watermark, stable, start, aborted, size)
            else:
                head = _pack_partition_4(partition, code, high_watermark, stable, aborted, size)
            if transactions:
                end = 26 if version < LOG_START_OFFSET_FROM else 34
                head = head[:end] + b"".join([_pack_transaction(*entry) for entry in transactions]) + head[end:]
            small.append(head)
            if records:
                parts += (b"".join(small), records)
                small = []
    if small:
        parts.append(b"".join(small))
    return len(topics), parts


def _encode_flexible(version: int, results: Sequence[FetchResult], nodes: Sequence[LeaderNode]) -> list[Part]:
    topics = by_topic(results)
    parts: list[Part] = []
    small = [encode_uvarint(len(topics) + 1)]
    for topic, group in topics:
        if version < TOPIC_IDS_FROM:
            small.append(encode_string_length(len(topic) + 1))
        small += (topic, encode_uvarint(len(group) + 1))
        for _, partition, code, high_watermark, stable, start, elsewhere, records, transactions in group:
            replica = _NO_REPLICA if elsewhere is None else _replica(elsewhere)
            aborted = 0 if transactions is None else 1
            head = _pack_partition_12(partition, code, high_watermark, stable, start, aborted, replica)
            if transactions:
                entries = b"".join([_pack_transaction_12(*entry) for entry in transactions])
                head = head[:30] + encode_uvarint(len(transactions) + 1) + entries + head[31:]
            small.append(head)
            if records:
                small.append(encode_uvarint(len(records) + 1))
                parts += (b"".join(small), records)
                small = []
            else:
                small.append(b"\x01")
            small.append(b"\x00" if elsewhere is None else _encode_tags(elsewhere))
        small.append(b"\x00")
    small.append(encode_leader_nodes(nodes))
    parts.append(b"".join(small))
    return parts


def _replica(elsewhere: Elsewhere) -> int:
    return elsewhere.broker_id if isinstance(elsewhere, PreferredReadReplica) else _NO_REPLICA


def _encode_tags(elsewhere: Elsewhere) -> bytes:
    """The tagged fields of a partition."""
    if isinstance(elsewhere, tuple):
        return _pack_diverging_epoch(1, 0, 13, *elsewhere)
    return encode_current_leader(1, elsewhere) if isinstance(elsewhere, CurrentLeader) else b"\x00"
