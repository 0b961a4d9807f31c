"""Batches and Produce requests for a RawConnection."""

from __future__ import annotations

import struct
import time

from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.records.batch import write_crc
from moldau.wire.records.builder import build_batch
from tests.support.wire import RawConnection

VERSION = 9

LENGTH, MAGIC, CRC, ATTRIBUTES, LAST_DELTA, BASE_TIME, MAX_TIME = 8, 16, 17, 21, 23, 27, 35

PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE, COUNT = 43, 51, 53, 57


def now_ms() -> int:
    return int(time.time() * 1000)


def batch(*values: bytes, **options: object) -> bytearray:
    stamp = now_ms()
    return bytearray(build_batch([(None, value, stamp, ()) for value in values or (b"v",)], **options))  # type: ignore[arg-type]


def patched(original: bytes, layout: str, position: int, *values: int, good_crc: bool = True) -> bytearray:
    changed = bytearray(original)
    struct.pack_into(layout, changed, position, *values)
    if good_crc:
        write_crc(changed, 0, len(changed))
    return changed


def request_of(topic: str, records: bytes | None, *, acks: int = -1, partition: int = 0) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks, timeout_ms=10_000, topic_data=(TopicProduceData(name=topic, partition_data=(data,)),)
    )


def produce(
    raw: RawConnection, topic: str, records: bytes | None, version: int = VERSION, **options: int
) -> tuple[int, int]:
    """The error code and the base offset. A broker may need a moment to lead a new partition (6): then it is
    repeated."""
    for _ in range(100):
        answer = raw.ask(request_of(topic, records, **options), version)
        partition = answer.responses[0].partition_responses[0]
        if partition.error_code != 6:
            break
    return partition.error_code, partition.base_offset


def stored(raw: RawConnection, topic: str) -> bytes:
    """All records that the partition holds."""
    partition = FetchPartition(partition=0, partition_max_bytes=1 << 24)
    request = FetchRequest(max_bytes=1 << 24, max_wait_ms=0, topics=(FetchTopic(topic=topic, partitions=(partition,)),))
    return bytes(raw.ask(request, 11).responses[0].partitions[0].records or b"")


def idempotent(sequence: int, *, epoch: int = 0, count: int = 1, producer_id: int = 7_000_000) -> bytes:
    values = [b"%d" % (sequence + number) for number in range(count)]
    return bytes(batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence))
