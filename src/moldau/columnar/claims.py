"""Decides which writer owns a partition when several writers of one producer wrote to it.

Two attempts of a task, one of which is believed to be lost, share a producer id, epoch and sequence. The broker takes
the first batch of the second attempt for a repeat of the first attempt's batch, and reports that it is written,
although its rows may have another order. Later batches of the two would be mixed. So the first batch of a partition is
a claim. It has one record, whose timestamp delta in milliseconds is a number that only its writer has. The timestamp of
the record is right, so readers do not notice the claim. Only a writer that reads its own claim back continues: the
broker keeps one batch with sequence 0 for each producer epoch, so all later batches in the partition are from this
writer.

A broker that recompresses records (because the topic's `compression.type` differs from the batch's) builds batches
without the claim, so such a topic is rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from moldau.client.blocking.cluster import ClusterClient
from moldau.errors import KafkaError, kafka_error
from moldau.types import Buffer, TopicPartition
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.records.batch import HEADER_SIZE, read_header
from moldau.wire.records.record import iterate_fields, read_payload

_MAX_WAIT_MS = 500
_PARTITION_BYTES = 64 * 1024
"""A larger claim is returned whole if its partition is the first of a request."""


class Claim(msgspec.Struct, frozen=True):
    """The content of the first batch of a partition. `number`: above 0, and unique among the writers of the
    producer."""

    producer_id: int
    producer_epoch: int
    number: int


def check_claims(client: ClusterClient, offsets: Mapping[TopicPartition, int], claim: Claim) -> None:
    """Checks that the acknowledged batches at these offsets are those of this claim.

    Raises OUT_OF_ORDER_SEQUENCE_NUMBER for a batch of another writer, INVALID_CONFIG for a topic whose records the
    broker recompresses, and KafkaError.
    """
    left = dict(offsets)

    def check() -> None:
        try:
            for leader_id, partitions in client.group_by_leader(left).items():
                for partition, batch in _read_back(client, leader_id, {row: left[row] for row in partitions}):
                    _check(partition, batch, claim)
                    del left[partition]
        except KafkaError as error:
            if error.is_retriable:
                # also if no broker answers, because a lost broker may no longer be the leader
                for partition in left:
                    client.forget(partition.topic)
            raise

    while left:
        client.retry(check)


def _read_back(
    client: ClusterClient, leader_id: int, offsets: Mapping[TopicPartition, int]
) -> Iterator[tuple[TopicPartition, Buffer]]:
    """The batches that were returned whole, at least one. Raises KafkaError."""
    topics: dict[str, list[FetchPartition]] = {}
    for partition, offset in offsets.items():
        epoch = client.leader_of(partition).leader_epoch
        asked = FetchPartition(partition.partition, epoch, offset, partition_max_bytes=_PARTITION_BYTES)
        topics.setdefault(partition.topic, []).append(asked)
    # every broker with transactions v2 accepts topic ids
    names = {client.topic(topic).topic_id: topic for topic in topics}
    wanted = tuple(FetchTopic(topic, topic_id, tuple(topics[topic])) for topic_id, topic in names.items())
    request = FetchRequest(max_wait_ms=_MAX_WAIT_MS, min_bytes=1, topics=wanted)
    response = client.connection_to(leader_id).request(request)
    if response.error_code:
        raise kafka_error(response.error_code, "reading back what was written")
    found = 0
    for answer in response.responses:
        for row in answer.partitions:
            partition = TopicPartition(names[answer.topic_id], row.partition_index)
            if row.error_code:
                raise kafka_error(row.error_code, f"reading back {partition} at {offsets[partition]}")
            if row.records and _is_whole(row.records):
                found += 1
                yield partition, row.records
    if not found:
        raise kafka_error("OFFSET_NOT_AVAILABLE", "what was written cannot be read back yet")


def _is_whole(records: Buffer) -> bool:
    return len(records) >= HEADER_SIZE and len(records) >= read_header(records).size


def _check(partition: TopicPartition, batch: Buffer, claim: Claim) -> None:
    header = read_header(batch)
    is_ours = (header.producer_id, header.producer_epoch) == (claim.producer_id, claim.producer_epoch)
    if not is_ours or header.base_sequence != 0 or header.record_count != 1:
        raise _is_anothers(partition)
    (record,) = iterate_fields(read_payload(batch, header), header.record_count)
    if record.timestamp_delta == 0:
        raise kafka_error(
            "INVALID_CONFIG",
            f"the broker compresses the records of {partition.topic} anew, so that nobody can tell whose they are: "
            "write with the compression that its compression.type names",
        )
    if record.timestamp_delta != claim.number:
        raise _is_anothers(partition)


def _is_anothers(partition: TopicPartition) -> KafkaError:
    return kafka_error("OUT_OF_ORDER_SEQUENCE_NUMBER", f"{partition} was begun by another writer of this producer")
