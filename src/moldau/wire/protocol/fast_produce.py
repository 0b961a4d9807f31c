"""Hand-written codec of Produce for the broker's hot path: the same bytes as the codec, in flat tuples.

A request is decoded to one list of entries, a response encoded from one list of results, both in the order of the wire.
A topic is the UTF-8 of its name, or from version 13 its 16-byte id: bytes, because the broker only looks it up and
sends it back. As in the codec, invalid UTF-8 becomes U+FFFD.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Final

import msgspec

from moldau.errors import ProtocolError
from moldau.wire.protocol.elsewhere import CurrentLeader, LeaderNode, encode_current_leader, encode_leader_nodes
from moldau.wire.protocol.grouping import by_topic
from moldau.wire.protocol.runtime import (
    MAX_ELEMENTS,
    decode_text,
    encode_error_message,
    encode_string_length,
    encode_uvarint,
    finish_string_length,
    finish_uvarint,
    skip_tagged_fields,
    utf8_of,
)

MIN_VERSION: Final = 3
MAX_VERSION: Final = 13
FLEXIBLE_FROM: Final = 9
LOG_START_OFFSET_FROM: Final = 5
RECORD_ERRORS_FROM: Final = 8
TOPIC_IDS_FROM: Final = 13
ALL_ENTRIES: Final = 1 << 31

ProduceEntry = tuple[bytes, int, memoryview | None]
"""Topic, partition index, and the records as a view of the frame."""


class RecordErrors(msgspec.Struct, frozen=True):
    """An error message with the rejected records: index in the batch and reason (KIP-467)."""

    message: str
    errors: tuple[tuple[int, str], ...]


ProduceResult = tuple[bytes, int, int, int, int, int, str | RecordErrors | CurrentLeader | None]
"""Topic, partition index, error code, base offset, log append time in ms (-1: create time), log start offset, and the
error message, or one with single records (from version 8), or the leader (from version 10)."""

_unpack_short = Struct(">h").unpack_from
_unpack_int = Struct(">i").unpack_from
_unpack_acks = Struct(">hii").unpack_from
_unpack_partition = Struct(">ii").unpack_from
_unpack_flexible_acks = Struct(">hiB").unpack_from
_SMALLEST_ONE: Final = 24
_unpack_one = Struct(">BhiBB").unpack_from
_unpack_one_id = Struct(">BhiB16x").unpack_from
_unpack_one_partition = Struct(">BiB").unpack_from
_unpack_flexible_partition = Struct(">iB").unpack_from


class ManyEntriesError(Exception):
    """The request has more entries than should be decoded at once."""


def decode_produce_request(
    frame: memoryview, position: int, version: int, most: int = ALL_ENTRIES
) -> tuple[str | None, int, int, list[ProduceEntry]]:
    """Transactional id, acks, timeout in ms and the entries of the request at `position`.

    The records are views of the frame's buffer. Raises ProtocolError, and ManyEntriesError above `most` entries.
    """
    try:
        if version >= FLEXIBLE_FROM:
            return _decode_one(frame, position, version) or _decode_flexible(frame, position, version, most)
        return _decode_classic(frame, position, most)
    except (StructError, IndexError) as error:
        raise ProtocolError("the bytes end too early") from error


def _decode_one(
    frame: memoryview, position: int, version: int
) -> tuple[str | None, int, int, list[ProduceEntry]] | None:
    """Decodes the usual request: one partition, no transaction. None for other requests."""
    if len(frame) - position < _SMALLEST_ONE:
        return None
    if version >= TOPIC_IDS_FROM:
        has_transaction, acks, timeout_ms, topic_count = _unpack_one_id(frame, position)
        if has_transaction or topic_count != 2:
            return None
        end = position + 24
        topic = bytes(frame[position + 8 : end])
    else:
        has_transaction, acks, timeout_ms, topic_count, size = _unpack_one(frame, position)
        if has_transaction or topic_count != 2 or not 0 < size < 128:
            return None
        end = position + 8 + size
        topic = utf8_of(frame[position + 9 : end])
    if end + 6 > len(frame):
        return None
    partition_count, index, size = _unpack_one_partition(frame, end)
    if partition_count != 2 or not size:
        return None
    position = end + 6
    if size > 127:
        size, position = finish_uvarint(frame, position, size)
    end = position + size - 1
    if not size or frame[end] or frame[end + 1] or frame[end + 2]:  # no tagged fields at any level
        return None
    return None, acks, timeout_ms, [(topic, index, frame[position:end])]


def _decode_classic(frame: memoryview, position: int, most: int) -> tuple[str | None, int, int, list[ProduceEntry]]:
    limit = len(frame)
    transactional_id = None
    (size,) = _unpack_short(frame, position)
    position += 2
    if size >= 0:
        end = position + size
        if end > limit:
            raise ProtocolError("transactional id longer than the rest")
        transactional_id = decode_text(frame[position:end])
        position = end
    acks, timeout_ms, topic_count = _unpack_acks(frame, position)
    position += 10
    _check_count(topic_count, 6, limit - position)
    entries: list[ProduceEntry] = []
    for _ in range(topic_count):
        (size,) = _unpack_short(frame, position)
        position += 2
        end = position + size
        if size < 0 or end > limit:
            raise ProtocolError("topic name null or longer than the rest")
        topic = utf8_of(frame[position:end])
        position = end
        (partition_count,) = _unpack_int(frame, position)
        position += 4
        _check_count(partition_count, 8, limit - position)
        if len(entries) + partition_count > most:
            raise ManyEntriesError
        for _ in range(partition_count):
            index, size = _unpack_partition(frame, position)
            position += 8
            if size < 0:
                entries.append((topic, index, None))
                continue
            end = position + size
            if end > limit:
                raise ProtocolError("records longer than the rest")
            entries.append((topic, index, frame[position:end]))
            position = end
    return transactional_id, acks, timeout_ms, entries


def _decode_flexible(
    frame: memoryview, position: int, version: int, most: int
) -> tuple[str | None, int, int, list[ProduceEntry]]:
    limit = len(frame)
    transactional_id = None
    size = frame[position]
    position += 1
    if size:
        if size > 127:
            size, position = finish_string_length(frame, position, size)
        end = position + size - 1
        if not size or end > limit:
            raise ProtocolError("transactional id longer than the rest")
        transactional_id = decode_text(frame[position:end])
        position = end
    acks, timeout_ms, topic_count = _unpack_flexible_acks(frame, position)
    position += 7
    if topic_count > 127:
        topic_count, position = finish_uvarint(frame, position, topic_count)
    _check_count(topic_count - 1, 18 if version >= TOPIC_IDS_FROM else 3, limit - position)
    entries: list[ProduceEntry] = []
    for _ in range(topic_count - 1):
        if version >= TOPIC_IDS_FROM:
            end = position + 16
            if end > limit:
                raise ProtocolError("topic id cut")
            topic = bytes(frame[position:end])
        else:
            size = frame[position]
            position += 1
            if size > 127:
                size, position = finish_string_length(frame, position, size)
            end = position + size - 1
            if not size or end > limit:
                raise ProtocolError("topic name null or longer than the rest")
            topic = utf8_of(frame[position:end])
        position = _decode_flexible_partitions(frame, end, topic, entries, most)
        tags = frame[position]
        position += 1
        if tags:
            position = skip_tagged_fields(frame, position, tags)
    tags = frame[position]
    if tags:
        skip_tagged_fields(frame, position + 1, tags)
    return transactional_id, acks, timeout_ms, entries


def _decode_flexible_partitions(
    frame: memoryview, position: int, topic: bytes, entries: list[ProduceEntry], most: int
) -> int:
    limit = len(frame)
    count = frame[position]
    position += 1
    if count > 127:
        count, position = finish_uvarint(frame, position, count)
    _check_count(count - 1, 6, limit - position)
    if len(entries) + count - 1 > most:
        raise ManyEntriesError
    for _ in range(count - 1):
        index, size = _unpack_flexible_partition(frame, position)
        position += 5
        if size > 127:
            size, position = finish_uvarint(frame, position, size)
        if size:
            end = position + size - 1
            if end > limit:
                raise ProtocolError("records longer than the rest")
            entries.append((topic, index, frame[position:end]))
            position = end
        else:
            entries.append((topic, index, None))
        tags = frame[position]
        position += 1
        if tags:
            position = skip_tagged_fields(frame, position, tags)
    return position


def _check_count(count: int, size: int, remaining: int) -> None:
    if count < 0 or count * size > remaining or count > MAX_ELEMENTS:
        raise ProtocolError(f"array of {count}")


# -- the response: its one-partition form is a template for each length of topic name

_CLASSIC_ONE: Final[dict[int, str]] = {3: ">iiih{0}siihqqi", 5: ">iiih{0}siihqqqi", 8: ">iiih{0}siihqqqihi"}
_FLEXIBLE_ONE: Final = ">iixBB{0}sBihqqqBBxxix"
_IDS_ONE: Final = Struct(">iixB16sBihqqqBBxxix")

_templates: dict[tuple[int, int], Struct] = {}


def encode_produce_response(
    version: int,
    correlation_id: int,
    results: list[ProduceResult],
    throttle_time_ms: int = 0,
    nodes: Sequence[LeaderNode] = (),
) -> bytes:
    """The framed response: length, header and body. Results of one topic are next to each other. `nodes`: of the
    leaders that they name."""
    if len(results) == 1 and results[0][6] is None and len(results[0][0]) < 126:
        return _encode_one(version, correlation_id, results[0], throttle_time_ms)
    if version >= FLEXIBLE_FROM:
        body = _encode_flexible(version, results, throttle_time_ms, nodes)
        return b"".join((_FLEXIBLE_HEADER.pack(len(body) + 5, correlation_id), body))
    body = _encode_classic(version, results, throttle_time_ms)
    return b"".join((_CLASSIC_HEADER.pack(len(body) + 4, correlation_id), body))


_CLASSIC_HEADER: Final = Struct(">ii")
_FLEXIBLE_HEADER: Final = Struct(">iix")


def _template(version: int, name_size: int) -> Struct:
    if version >= TOPIC_IDS_FROM:
        layout = _IDS_ONE
    elif version >= FLEXIBLE_FROM:
        layout = Struct(_FLEXIBLE_ONE.format(name_size))
    else:
        first = RECORD_ERRORS_FROM if version >= RECORD_ERRORS_FROM else LOG_START_OFFSET_FROM
        layout = Struct(_CLASSIC_ONE[first if version >= LOG_START_OFFSET_FROM else MIN_VERSION].format(name_size))
    _templates[version, name_size] = layout
    return layout


def _encode_one(version: int, correlation_id: int, result: ProduceResult, throttle_time_ms: int) -> bytes:
    topic, index, error_code, base_offset, append_time_ms, log_start_offset, _ = result
    size = len(topic)
    template = _templates.get((version, size)) or _template(version, size)
    length = template.size - 4
    if version >= TOPIC_IDS_FROM:
        return template.pack(
            length, correlation_id, 2, topic, 2,
            index, error_code, base_offset, append_time_ms, log_start_offset, 1, 0, throttle_time_ms,
        )  # fmt: skip
    if version >= FLEXIBLE_FROM:
        return template.pack(
            length, correlation_id, 2, size + 1, topic, 2,
            index, error_code, base_offset, append_time_ms, log_start_offset, 1, 0, throttle_time_ms,
        )  # fmt: skip
    head = (length, correlation_id, 1, size, topic, 1, index, error_code, base_offset, append_time_ms)
    if version >= RECORD_ERRORS_FROM:
        return template.pack(*head, log_start_offset, 0, -1, throttle_time_ms)
    if version >= LOG_START_OFFSET_FROM:
        return template.pack(*head, log_start_offset, throttle_time_ms)
    return template.pack(*head, throttle_time_ms)


_pack_short = Struct(">h").pack
_pack_int = Struct(">i").pack
_pack_classic = Struct(">ihqq").pack
_pack_partition = Struct(">ihqqq").pack
_NO_RECORD_ERRORS: Final = b"\x00\x00\x00\x00"
_NO_RECORD_ERRORS_NO_MESSAGE: Final = b"\x00\x00\x00\x00\xff\xff"
_pack_partition_and_no_errors = Struct(">ihqqqB").pack


def _encode_classic(version: int, results: list[ProduceResult], throttle_time_ms: int) -> bytes:
    """The response in a version without leaders."""
    topics = by_topic(results)
    parts = [_pack_int(len(topics))]
    for topic, group in topics:
        parts += (_pack_short(len(topic)), topic, _pack_int(len(group)))
        for _, index, error_code, base_offset, append_time_ms, log_start_offset, message in group:
            if version < LOG_START_OFFSET_FROM:
                parts.append(_pack_classic(index, error_code, base_offset, append_time_ms))
                continue
            partition = _pack_partition(index, error_code, base_offset, append_time_ms, log_start_offset)
            parts.append(partition)
            if version < RECORD_ERRORS_FROM:
                continue
            if message is None or isinstance(message, CurrentLeader):
                parts.append(_NO_RECORD_ERRORS_NO_MESSAGE)
            elif isinstance(message, RecordErrors):
                parts.append(_pack_int(len(message.errors)))
                for place, reason in message.errors:
                    text = encode_error_message(reason)
                    parts += (_pack_int(place), _pack_short(len(text)), text)
                text = encode_error_message(message.message)
                parts += (_pack_short(len(text)), text)
            else:
                text = encode_error_message(message)
                parts += (_NO_RECORD_ERRORS, _pack_short(len(text)), text)
    parts.append(_pack_int(throttle_time_ms))
    return b"".join(parts)


def _encode_flexible(
    version: int, results: list[ProduceResult], throttle_time_ms: int, nodes: Sequence[LeaderNode]
) -> bytes:
    topics = by_topic(results)
    parts = [encode_uvarint(len(topics) + 1)]
    for topic, group in topics:
        if version < TOPIC_IDS_FROM:
            parts.append(encode_string_length(len(topic) + 1))
        parts += (topic, encode_uvarint(len(group) + 1))
        for _, index, error_code, base_offset, append_time_ms, log_start_offset, message in group:
            if isinstance(message, RecordErrors):
                parts.append(_pack_partition(index, error_code, base_offset, append_time_ms, log_start_offset))
                _add_record_errors(parts, message)
                continue
            parts.append(
                _pack_partition_and_no_errors(index, error_code, base_offset, append_time_ms, log_start_offset, 1)
            )
            if message is None:
                parts.append(b"\x00\x00")
            elif isinstance(message, CurrentLeader):
                parts += (b"\x00", encode_current_leader(0, message))
            else:
                text = encode_error_message(message)
                parts += (encode_string_length(len(text) + 1), text, b"\x00")
        parts.append(b"\x00")
    parts += (_pack_int(throttle_time_ms), encode_leader_nodes(nodes))
    return b"".join(parts)


def _add_record_errors(parts: list[bytes], told: RecordErrors) -> None:
    """The fields of a flexible version from the record errors to the end of the partition."""
    parts.append(encode_uvarint(len(told.errors) + 1))
    for place, message in told.errors:
        text = encode_error_message(message)
        parts += (_pack_int(place), encode_string_length(len(text) + 1), text, b"\x00")
    text = encode_error_message(told.message)
    parts += (encode_string_length(len(text) + 1), text, b"\x00")
