"""Invalid requests about records: produced, read, searched, deleted and moved."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import msgspec

from moldau.simulation.workloads.refusals.case import (
    BAD_NAMES,
    BATCH_RECORDS,
    BATCHES,
    COMPACTED,
    END_OFFSET,
    FAR_EPOCH,
    LARGEST_BATCH,
    PACKED,
    PLAIN,
    UNKNOWN,
    UNKNOWN_ID,
    Case,
    Ground,
)
from moldau.types import Uuid
from moldau.wire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from moldau.wire.protocol.messages.leader_epochs import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from moldau.wire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.wire.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.protocol.messages.producer_ids import DescribeProducersRequest, DescribeProducersTopic
from moldau.wire.records.builder import build_batch, build_batch_with_holes
from moldau.wire.records.control import ControlType, build_control_batch
from moldau.wire.records.crc import crc32c

BY_NAME, BY_ID = (0, 12), (13, 1 << 15)
"""Versions of Produce and Fetch that name topics by name, and by id."""
DAY_MS = 86_400_000
MANY = 450
COVERED_BY_CRC_FROM = 21
FIELDS = {
    "base offset": (0, ">q"),
    "length": (8, ">i"),
    "magic": (16, ">b"),
    "crc": (17, ">I"),
    "attributes": (21, ">h"),
    "last offset delta": (23, ">i"),
    "base timestamp": (27, ">q"),
    "max timestamp": (35, ">q"),
    "producer epoch": (51, ">h"),
    "base sequence": (53, ">i"),
    "record count": (57, ">i"),
}
"""Position and format of the fields in a batch header."""
BAD_FIELDS: tuple[tuple[str, int, str], ...] = (
    ("base offset", 1, "INVALID_RECORD"),
    ("length", 0, "CORRUPT_MESSAGE"),
    ("length", -12, "CORRUPT_MESSAGE"),
    ("length", 2, "CORRUPT_MESSAGE"),
    ("length", (1 << 31) - 1, "CORRUPT_MESSAGE"),
    ("magic", 0, "INVALID_RECORD"),
    ("magic", 1, "INVALID_RECORD"),
    ("magic", 3, "CORRUPT_MESSAGE"),
    ("magic", -1, "CORRUPT_MESSAGE"),
    ("crc", 7, "CORRUPT_MESSAGE"),
    ("attributes", 0x20, "INVALID_RECORD"),
    ("attributes", 0x80, "INVALID_RECORD"),
    ("attributes", 0x05, "UNSUPPORTED_COMPRESSION_TYPE"),
    ("last offset delta", 5, "INVALID_RECORD"),
    ("last offset delta", -1, "INVALID_RECORD"),
    ("record count", 0, "INVALID_RECORD"),
    ("record count", -1, "INVALID_RECORD"),
)


def changed(batch: bytes, field: str, value: int) -> bytes:
    """`batch` with another value in a header field, and a CRC that matches."""
    data = bytearray(batch)
    position, form = FIELDS[field]
    struct.pack_into(form, data, position, value)
    if position >= COVERED_BY_CRC_FROM:
        struct.pack_into(">I", data, 17, crc32c(data[COVERED_BY_CRC_FROM:]))
    return bytes(data)


def spoiled(batch: bytes, position: int, value: int) -> bytes:
    """`batch` with another byte after its header, and a CRC that matches."""
    data = bytearray(batch)
    data[position] = value
    struct.pack_into(">I", data, 17, crc32c(data[COVERED_BY_CRC_FROM:]))
    return bytes(data)


def record_cases(ground: Ground) -> Iterator[Case]:
    """All requests about records."""
    yield from _productions(ground)
    yield from _bad_batches(ground)
    yield from _read_batches(ground)
    yield from _sequences(ground)
    yield from _fetches(ground)
    yield from _searches()
    yield from _epochs()
    yield from _deletions()
    yield from _producers(ground)
    yield from _directories(ground)


Row = tuple[int, bytes | None]


def produce(topic: str, topic_id: Uuid, *rows: Row, acks: int = -1, transactional_id: str | None = None) -> Any:
    """A request that names the topic in the form of its version."""
    data = tuple(PartitionProduceData(*row) for row in rows)
    return ProduceRequest(transactional_id, acks, 5_000, (TopicProduceData(topic, topic_id, data),))


def _produce(
    name: str,
    ground: Ground,
    topic: str,
    *rows: Row,
    refusals: tuple[str, ...],
    versions: tuple[int, int] = (3, 13),
    **fields: Any,
) -> Case:
    request = produce(topic, ground.topic_ids[topic], *rows, **fields)

    def fault(answer: Any) -> str:
        for row in answer.responses[0].partition_responses:
            if row.error_code and row.base_offset != -1:
                return f"refused, and base offset {row.base_offset}"
        return ""

    return Case(f"Produce {name}", request, refusals, versions, fault=fault)


def _batch(ground: Ground, count: int = 1, **fields: Any) -> bytes:
    return build_batch([(b"key", b"refused %d" % number, ground.now_ms, ()) for number in range(count)], **fields)


def _productions(ground: Ground) -> Iterator[Case]:
    good = _batch(ground)
    for acks in (-2, 2, 7):
        both = ((0, good), (1, good))
        yield _produce(f"acks={acks}", ground, PLAIN, *both, refusals=("INVALID_REQUIRED_ACKS",) * 2, acks=acks)
    for index in (9, -1, (1 << 31) - 1):
        yield _produce(f"to partition {index}", ground, PLAIN, (index, good), refusals=("UNKNOWN_TOPIC_OR_PARTITION",))
    same = ((1, good), (1, good))
    yield _produce("twice to a partition", ground, PLAIN, *same, refusals=("INVALID_REQUEST",) * 2)
    for name in (UNKNOWN, *BAD_NAMES, "__cluster_metadata"):
        request = produce(name, UNKNOWN_ID, (0, good))
        yield Case(f"Produce to {name!r}", request, ("UNKNOWN_TOPIC_OR_PARTITION",), BY_NAME)
    for topic_id in (UNKNOWN_ID, Uuid(bytes(16))):
        request = produce(UNKNOWN, topic_id, (0, good))
        yield Case("Produce to an unknown id", request, ("UNKNOWN_TOPIC_ID",), BY_ID)
    internal = produce("__consumer_offsets", UNKNOWN_ID, (0, good))
    yield Case("Produce to the positions", internal, ("INVALID_TOPIC_EXCEPTION",), BY_NAME)
    rows = tuple((PARTITIONS_BEYOND + number, good) for number in range(MANY))
    many = ("UNKNOWN_TOPIC_OR_PARTITION",) * MANY
    yield _produce("to many partitions", ground, PLAIN, *rows, refusals=many)
    yield _produce("to many, acks=9", ground, PLAIN, *rows, refusals=("INVALID_REQUIRED_ACKS",) * MANY, acks=9)
    zstd = _batch(ground, compression="zstd")
    yield _produce(
        "zstd, too early", ground, PLAIN, (1, zstd), refusals=("UNSUPPORTED_COMPRESSION_TYPE",), versions=(3, 6)
    )
    yield _produce(
        "zstd, too early", ground, PACKED, (0, zstd), refusals=("UNSUPPORTED_COMPRESSION_TYPE",), versions=(3, 6)
    )


PARTITIONS_BEYOND = 100
"""The first partition number that no topic has."""


def _bad_batches(ground: Ground) -> Iterator[Case]:
    """Errors visible in a batch header, for a topic whose records are not read and for two whose records are."""
    good = _batch(ground, 2)
    one_refused: tuple[tuple[str, bytes | None, str], ...] = (
        ("no batch", None, "INVALID_RECORD"),
        ("an empty batch", b"", "INVALID_RECORD"),
        ("a cut batch", good[:-1], "INVALID_RECORD"),
        ("a cut header", good[:40], "INVALID_RECORD"),
        ("two batches", good + good, "INVALID_RECORD"),
        ("rubbish", b"\xff" * 80, "CORRUPT_MESSAGE"),
        (
            "a control batch",
            build_control_batch([(ControlType.LEADER_CHANGE, b"")], timestamp=ground.now_ms),
            "INVALID_RECORD",
        ),
        ("a negative sequence", _batch(ground, producer_id=77, producer_epoch=0, base_sequence=-2), "INVALID_RECORD"),
        *((f"{field}={value}", changed(good, field, value), refusal) for field, value, refusal in BAD_FIELDS),
    )
    for topic in (PLAIN, COMPACTED, PACKED):
        for name, data, refusal in one_refused:
            yield _produce(f"{name} to {topic}", ground, topic, (0, data), refusals=(refusal,))
    late = build_batch([(b"key", b"late", ground.now_ms + DAY_MS, ())])
    for topic in (PLAIN, COMPACTED):
        yield _produce(f"from tomorrow to {topic}", ground, topic, (0, late), refusals=("INVALID_TIMESTAMP",))
    large = build_batch([(b"key", b"x" * LARGEST_BATCH, ground.now_ms, ())])
    yield _produce("a large batch", ground, PLAIN, (0, large), refusals=("MESSAGE_TOO_LARGE",))
    transactional = _batch(ground, producer_id=77, producer_epoch=0, base_sequence=0, is_transactional=True)
    # before the first use of a transactional id no coordinator exists
    refused, otherwise = ("NOT_ENOUGH_REPLICAS",), ("INVALID_PRODUCER_ID_MAPPING",)
    case = _produce(
        "in a transaction", ground, PLAIN, (0, transactional), refusals=refused, versions=(3, 11), transactional_id="t"
    )
    yield msgspec.structs.replace(case, otherwise=otherwise)


def _read_batches(ground: Ground) -> Iterator[Case]:
    """Errors visible only in the records, for topics whose records are read."""
    no_key = build_batch([(None, b"no key", ground.now_ms, ())])
    long_value = build_batch([(b"key", b"v" * 40, ground.now_ms, ())])
    packed = _batch(ground, 20, compression="gzip")
    snappy = _batch(ground, 20, compression="snappy")
    deltas = build_batch_with_holes([(b"key", b"refused", ground.now_ms, ())] * 2, (0, 5), 1)
    yield _produce("without a key", ground, COMPACTED, (0, no_key), refusals=("INVALID_RECORD",))
    for topic in (COMPACTED, PACKED):
        for name, data in (
            ("a record that is too long", spoiled(long_value, 61, 0x7E)),
            ("a key that is too long", spoiled(long_value, 65, 0x7E)),
            ("wrong offset deltas", deltas),
            ("broken gzip", spoiled(packed, 75, packed[75] ^ 0xFF)),
            ("broken snappy", spoiled(snappy, 64, 0xFF)),
            ("too few records", changed(changed(packed, "record count", 30), "last offset delta", 29)),
        ):
            yield _produce(f"{name} to {topic}", ground, topic, (0, data), refusals=("INVALID_RECORD",))


def _sequences(ground: Ground) -> Iterator[Case]:
    first, second = ground.producer_ids
    last = (BATCHES - 1) * BATCH_RECORDS

    def repeated(sequence: int) -> bytes:
        return _batch(ground, BATCH_RECORDS, producer_id=first, producer_epoch=0, base_sequence=sequence)

    for name, sequence in (
        ("an old repeat", 0),
        ("a gap", last + 10 * BATCH_RECORDS),
        ("an overlap", last + 1),
    ):
        refused = ("OUT_OF_ORDER_SEQUENCE_NUMBER",)
        yield _produce(f"{name} of a sequence", ground, PLAIN, (0, repeated(sequence)), refusals=refused)
    old = _batch(ground, producer_id=second, producer_epoch=0, base_sequence=1)
    yield _produce("an old epoch", ground, PLAIN, (0, old), refusals=("INVALID_PRODUCER_EPOCH",))
    new = _batch(ground, producer_id=second, producer_epoch=2, base_sequence=5)
    yield _produce("an epoch's middle", ground, PLAIN, (0, new), refusals=("OUT_OF_ORDER_SEQUENCE_NUMBER",))

    def fault_of(offset: int) -> Any:
        def fault(answer: Any) -> str:
            (row,) = answer.responses[0].partition_responses
            return "" if row.base_offset == offset else f"was at {offset}, is told at {row.base_offset}"

        return fault

    for sequence in (last, last - 4 * BATCH_RECORDS):
        request = produce(PLAIN, ground.topic_ids[PLAIN], (0, repeated(sequence)))
        yield Case(f"Produce repeats {sequence}", request, fault=fault_of(sequence))


def _fetch(
    name: str,
    ground: Ground,
    topic: str,
    *refusals: str,
    versions: tuple[int, int] = (4, 18),
    partition: FetchPartition | None = None,
    **fields: Any,
) -> Case:
    asked = FetchPartition(fetch_offset=0, partition_max_bytes=10_000) if partition is None else partition
    topic_id = ground.topic_ids.get(topic, UNKNOWN_ID)
    request = FetchRequest(topics=(FetchTopic(topic, topic_id, (asked,)),), **fields)
    return Case(f"Fetch {name}", request, refusals, versions)


def _fetches(ground: Ground) -> Iterator[Case]:
    for name in (UNKNOWN, *BAD_NAMES):
        yield _fetch(f"of {name!r}", ground, name, "UNKNOWN_TOPIC_OR_PARTITION", versions=BY_NAME)
    yield _fetch("of an unknown id", ground, UNKNOWN, "UNKNOWN_TOPIC_ID", versions=BY_ID)
    for index in (9, -1):
        row = FetchPartition(index, partition_max_bytes=1_000)
        yield _fetch(f"of partition {index}", ground, PLAIN, "UNKNOWN_TOPIC_OR_PARTITION", partition=row)
    for offset in (-5, -1, END_OFFSET + 1, (1 << 63) - 1):
        row = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1_000)
        yield _fetch(f"from {offset}", ground, PLAIN, "OFFSET_OUT_OF_RANGE", partition=row)
    ahead = FetchPartition(0, FAR_EPOCH, partition_max_bytes=1_000)
    yield _fetch("ahead of the epoch", ground, PLAIN, "UNKNOWN_LEADER_EPOCH", partition=ahead, versions=(9, 18))
    for level in (2, -1):
        yield _fetch(f"isolation {level}", ground, PLAIN, "INVALID_REQUEST", isolation_level=level)
    yield _fetch("of -1 bytes", ground, PLAIN, "INVALID_REQUEST", max_bytes=-1)
    less = FetchPartition(0, partition_max_bytes=-1)
    yield _fetch("of -1 bytes of a partition", ground, PLAIN, "INVALID_REQUEST", partition=less)
    for epoch in (1, 5):
        yield _fetch(
            f"of no session {epoch}",
            ground,
            PLAIN,
            "FETCH_SESSION_ID_NOT_FOUND",
            versions=(7, 18),
            session_id=(1 << 31) - 1,
            session_epoch=epoch,
        )
    yield _fetch("as a stranger", ground, PLAIN, "NOT_LEADER_OR_FOLLOWER", versions=(4, 14), replica_id=7)
    state = ReplicaState(7, -1)
    yield _fetch("as a stranger", ground, PLAIN, "NOT_LEADER_OR_FOLLOWER", versions=(15, 18), replica_state=state)

    def fault(answer: Any) -> str:
        (row,) = answer.responses[0].partitions
        found = (row.log_start_offset, row.high_watermark, row.last_stable_offset)
        return "" if found in ((0, END_OFFSET, END_OFFSET), (-1, END_OFFSET, END_OFFSET)) else f"{found}"

    row = FetchPartition(0, fetch_offset=END_OFFSET, partition_max_bytes=1_000)
    request = FetchRequest(topics=(FetchTopic(PLAIN, ground.topic_ids[PLAIN], (row, row)),), isolation_level=1)
    yield Case("Fetch twice of the end", request, fault=fault)


def _search(
    name: str,
    topic: str,
    index: int,
    timestamp: int,
    *refusals: str,
    versions: tuple[int, int] = (1, 11),
    **fields: Any,
) -> Case:
    asked = ListOffsetsTopic(topic, (ListOffsetsPartition(index, timestamp=timestamp),))
    request = ListOffsetsRequest(replica_id=-1, topics=(asked,), **fields)
    return Case(f"ListOffsets {name}", request, refusals, versions)


def _found(timestamp: int, offset: int, versions: tuple[int, int] = (1, 11), topic: str = PLAIN) -> Case:
    def fault(answer: Any) -> str:
        (row,) = answer.topics[0].partitions
        return "" if row.offset == offset else f"expected {offset}, got {row.offset}"

    asked = ListOffsetsTopic(topic, (ListOffsetsPartition(0, timestamp=timestamp),))
    request = ListOffsetsRequest(replica_id=-1, topics=(asked,))
    return Case(f"ListOffsets of {timestamp}", request, versions=versions, fault=fault)


def _searches() -> Iterator[Case]:
    for name in (UNKNOWN, *BAD_NAMES):
        yield _search(f"of {name!r}", name, 0, -1, "UNKNOWN_TOPIC_OR_PARTITION")
    for index in (9, -1):
        yield _search(f"of partition {index}", PLAIN, index, -1, "UNKNOWN_TOPIC_OR_PARTITION")
    for timestamp, first in ((-3, 7), (-4, 8), (-5, 9), (-6, 11)):
        yield _search(f"of {timestamp}", PLAIN, 0, timestamp, "UNSUPPORTED_VERSION", versions=(1, first - 1))
    yield _search("of -7", PLAIN, 0, -7, "UNSUPPORTED_VERSION")
    for level in (2, -1):
        yield _search(f"isolation {level}", PLAIN, 0, -1, "INVALID_REQUEST", versions=(2, 11), isolation_level=level)
    twice = ListOffsetsTopic(PLAIN, (ListOffsetsPartition(0, timestamp=-1),) * 2)
    request = ListOffsetsRequest(-1, topics=(twice,))
    yield Case("ListOffsets twice of a partition", request, ("INVALID_REQUEST",))
    ahead = ListOffsetsTopic(PLAIN, (ListOffsetsPartition(0, FAR_EPOCH, -1),))
    request = ListOffsetsRequest(-1, topics=(ahead,))
    yield Case("ListOffsets ahead", request, ("UNKNOWN_LEADER_EPOCH",), (4, 11))
    many = tuple(ListOffsetsPartition(PARTITIONS_BEYOND + number, timestamp=-1) for number in range(MANY))
    request = ListOffsetsRequest(-1, topics=(ListOffsetsTopic(PLAIN, many),))
    yield Case("ListOffsets of many", request, ("UNKNOWN_TOPIC_OR_PARTITION",) * MANY)
    yield _found(-1, END_OFFSET)
    yield _found(-2, 0)
    yield _found(-4, 0, (8, 11))
    yield _found(-5, -1, (9, 11))
    yield _found(-6, -1, (11, 11))
    yield _found(0, 0)
    yield _found((1 << 62), -1)
    yield _found(-2, 0, topic=PACKED)


def _epochs() -> Iterator[Case]:
    for topic, index, current, refusals in (
        (UNKNOWN, 0, -1, ("UNKNOWN_TOPIC_OR_PARTITION",)),
        (PLAIN, 9, -1, ("UNKNOWN_TOPIC_OR_PARTITION",)),
        (PLAIN, 0, FAR_EPOCH, ("UNKNOWN_LEADER_EPOCH",)),
        (PLAIN, 0, -9, ("FENCED_LEADER_EPOCH",)),
        (PLAIN, 0, -1, ()),
    ):
        asked = OffsetForLeaderTopic(topic, (OffsetForLeaderPartition(index, current, FAR_EPOCH),))

        def fault(answer: Any) -> str:
            (row,) = answer.topics[0].partitions
            return "" if (row.leader_epoch, row.end_offset) == (-1, -1) else f"{row}"

        request = OffsetForLeaderEpochRequest(topics=(asked,))
        yield Case(f"OffsetForLeaderEpoch {topic} {index} {current}", request, refusals, fault=fault)
    many = tuple(OffsetForLeaderPartition(PARTITIONS_BEYOND + number) for number in range(MANY))
    request = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic(PLAIN, many),))
    yield Case("OffsetForLeaderEpoch of many", request, ("UNKNOWN_TOPIC_OR_PARTITION",) * MANY)


def _deletions() -> Iterator[Case]:
    for topic, index, offset, refusal in (
        (UNKNOWN, 0, 0, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("..", 0, 0, "UNKNOWN_TOPIC_OR_PARTITION"),
        (PLAIN, 9, 0, "UNKNOWN_TOPIC_OR_PARTITION"),
        (PLAIN, 0, END_OFFSET + 1, "OFFSET_OUT_OF_RANGE"),
        (PLAIN, 0, -2, "OFFSET_OUT_OF_RANGE"),
        (COMPACTED, 0, 0, "POLICY_VIOLATION"),
        ("__consumer_offsets", 0, 0, "INVALID_TOPIC_EXCEPTION"),
    ):
        asked = DeleteRecordsTopic(topic, (DeleteRecordsPartition(index, offset),))
        request = DeleteRecordsRequest((asked,), 5_000)
        yield Case(f"DeleteRecords {topic} {index} {offset}", request, (refusal,))
    many = tuple(DeleteRecordsPartition(PARTITIONS_BEYOND + number, 0) for number in range(MANY))
    request = DeleteRecordsRequest((DeleteRecordsTopic(PLAIN, many),), 5_000)
    yield Case("DeleteRecords of many", request, ("UNKNOWN_TOPIC_OR_PARTITION",) * MANY)

    def fault(answer: Any) -> str:
        low_watermark = answer.topics[0].partitions[0].low_watermark
        return "" if low_watermark == 0 else f"low watermark {low_watermark}"

    nothing = DeleteRecordsRequest((DeleteRecordsTopic(PLAIN, (DeleteRecordsPartition(0, 0),)),), 5_000)
    yield Case("DeleteRecords up to 0", nothing, fault=fault)


def _producers(ground: Ground) -> Iterator[Case]:
    for topic, indexes, refusal in (
        (UNKNOWN, (0, 1), "UNKNOWN_TOPIC_OR_PARTITION"),
        ("..", (0, 1), "INVALID_TOPIC_EXCEPTION"),
        (PLAIN, (9, -1), "UNKNOWN_TOPIC_OR_PARTITION"),
    ):
        request = DescribeProducersRequest((DescribeProducersTopic(topic, indexes),))
        yield Case(f"DescribeProducers of {topic!r}", request, (refusal,) * 2)
    first, second = ground.producer_ids
    expected = {first: (0, BATCHES * BATCH_RECORDS - 1), second: (1, 0)}

    def fault(answer: Any) -> str:
        rows = answer.topics[0].partitions[0].active_producers
        found = {row.producer_id: (row.producer_epoch, row.last_sequence) for row in rows}
        return "" if found == expected else f"expected {expected}, got {found}"

    request = DescribeProducersRequest((DescribeProducersTopic(PLAIN, (0,)),))
    yield Case("DescribeProducers", request, fault=fault)


def _directories(ground: Ground) -> Iterator[Case]:
    for path, topic, index, refusal in (
        ("", PLAIN, 0, "LOG_DIR_NOT_FOUND"),
        ("elsewhere", PLAIN, 0, "LOG_DIR_NOT_FOUND"),
        ("/elsewhere", PLAIN, 0, "LOG_DIR_NOT_FOUND"),
        (ground.directory + "/..", PLAIN, 0, "LOG_DIR_NOT_FOUND"),
        (ground.directory, UNKNOWN, 0, "UNKNOWN_TOPIC_OR_PARTITION"),
        (ground.directory, PLAIN, 9, "UNKNOWN_TOPIC_OR_PARTITION"),
    ):
        asked = AlterReplicaLogDir(path, (AlterReplicaLogDirTopic(topic, (index,)),))
        request = AlterReplicaLogDirsRequest((asked,))
        yield Case(f"AlterReplicaLogDirs {path!r} {topic} {index}", request, (refusal,))

    def fault(answer: Any) -> str:
        rows = [
            (topic.name, row.partition_index)
            for one in answer.results
            for topic in one.topics
            for row in topic.partitions
        ]
        return "" if rows == [(PLAIN, 1)] else f"expected {PLAIN}-1, got {rows}"

    wanted = (DescribableLogDirTopic(PLAIN, (1, 9)), DescribableLogDirTopic(UNKNOWN, (0,)))
    places = DescribeLogDirsRequest(wanted)
    yield Case("DescribeLogDirs of one", places, fault=fault)
