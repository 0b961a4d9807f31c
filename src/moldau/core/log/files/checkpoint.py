"""Kafka's small text files: offset checkpoints, leader epochs, partition.metadata, the mark of a clean shutdown.

Readers raise ValueError for a malformed file. The caller knows whether it can continue without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from moldau.types import TopicPartition, Uuid, uuid_from_text, uuid_to_text

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
CLEAN_SHUTDOWN_MARK = ".kafka_cleanshutdown"

_VERSION = 0


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """`0`, the count, then a line `topic partition offset` for each."""
    lines = [f"{key.topic} {key.partition} {offset}" for key, offset in offsets.items()]
    return _encode_lines(lines)


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    """An empty file, as after a first start, has no offsets."""
    offsets: dict[TopicPartition, int] = {}
    for fields in _decode_lines(data, field_count=3):
        offsets[TopicPartition(fields[0], int(fields[1]))] = int(fields[2])
    return offsets


def encode_leader_epochs(entries: Sequence[tuple[int, int]]) -> bytes:
    """The content of `leader-epoch-checkpoint`: one line `epoch start-offset` for each."""
    return _encode_lines([f"{epoch} {start_offset}" for epoch, start_offset in entries])


def decode_leader_epochs(data: bytes) -> list[tuple[int, int]]:
    """Pairs of epoch and start offset, as `leader-epoch-checkpoint` has them. Raises ValueError for damage."""
    return [(int(fields[0]), int(fields[1])) for fields in _decode_lines(data, field_count=2)]


def encode_partition_metadata(topic_id: Uuid) -> bytes:
    """The content of `partition.metadata` (KIP-516)."""
    return f"version: 0\ntopic_id: {uuid_to_text(topic_id)}".encode("ascii")


def decode_partition_metadata(data: bytes) -> Uuid:
    """The topic id in `partition.metadata` (KIP-516). Raises ValueError for damage."""
    fields = dict(line.partition(": ")[::2] for line in data.decode("ascii").splitlines())
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise ValueError("not a partition.metadata file of version 0")
    return uuid_from_text(fields["topic_id"])


class CleanShutdown(msgspec.Struct, frozen=True, rename="camel"):
    """The content of `.kafka_cleanshutdown`. KIP-966 fences a broker by its epoch."""

    version: int = 0
    broker_epoch: int = -1


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    """The content of `.kafka_cleanshutdown`: the epoch of the broker that stopped cleanly (KIP-966)."""
    return msgspec.json.encode(CleanShutdown(broker_epoch=broker_epoch))


def decode_clean_shutdown(data: bytes) -> CleanShutdown:
    """Older versions of Kafka wrote an empty file: the epoch is unknown, -1."""
    if not data.strip():
        return CleanShutdown()
    try:
        return msgspec.json.decode(data, type=CleanShutdown)
    except msgspec.DecodeError as error:
        raise ValueError(f"not a clean shutdown mark: {error}") from error


def _encode_lines(lines: Sequence[str]) -> bytes:
    return "\n".join([str(_VERSION), str(len(lines)), *lines, ""]).encode("utf-8")


def _decode_lines(data: bytes, *, field_count: int) -> list[list[str]]:
    if not data:
        return []
    lines = data.decode("utf-8").splitlines()
    if len(lines) < 2 or lines[0].strip() != str(_VERSION):
        raise ValueError("not a checkpoint file of version 0")
    rows = [line.split() for line in lines[2:] if line.strip()]
    if len(rows) != int(lines[1]) or any(len(row) != field_count for row in rows):
        raise ValueError(f"a checkpoint file that announces {lines[1]} lines holds {len(rows)}")
    return rows
