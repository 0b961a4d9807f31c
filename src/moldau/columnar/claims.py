"""Decides which writer owns a partition when several writers of one producer wrote to it.

Two attempts of a task, one of which is believed to be lost, have one producer id, epoch and sequence between them. The
broker takes the first batch of the second for a repeat of the first one's and says that it is written, although its
rows may stand in another order; what the two send afterwards would be mixed. So the first batch of a partition is a
claim: it has one record, whose timestamp lies as many milliseconds behind the base timestamp of the batch as the number
that its writer alone has. The timestamp of the record is right, and nobody who reads it sees the claim. Only a writer
that reads its own claim back goes on: the broker keeps one batch with sequence 0 for each producer epoch, so all that
follows in the partition is of this writer.

A broker that recompresses records (`compression.type` of the topic, where the batch has another) builds batches in
which no claim is left: such a topic is refused.
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
"""A larger claim comes whole where its partition is the first of a request."""


class Claim(msgspec.Struct, frozen=True):
    """What the first batch of a partition must say. `number`: above 0, and of one writer of the producer alone."""

    producer_id: int
    producer_epoch: int
    number: int


def check_claims(client: ClusterClient, offsets: Mapping[TopicPartition, int], claim: Claim) -> None:
    """Whether the batches at these offsets, which the broker has acknowledged, are those of this claim.

    Raises OUT_OF_ORDER_SEQUENCE_NUMBER where one is another writer's, INVALID_CONFIG for a topic whose records the
    broker compresses anew, and KafkaError.
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
                # also where no broker answers: the one that is lost may lead no more
                for partition in left:
                    client.forget(partition.topic)
            raise

    while left:
        client.retry(check)


def _read_back(
    client: ClusterClient, leader_id: int, offsets: Mapping[TopicPartition, int]
) -> Iterator[tuple[TopicPartition, Buffer]]:
    """The batches that came whole, at least one. Raises KafkaError."""
    topics: dict[str, list[FetchPartition]] = {}
    for partition, offset in offsets.items():
        epoch = client.leader_of(partition).leader_epoch
        asked = FetchPartition(partition.partition, epoch, offset, partition_max_bytes=_PARTITION_BYTES)
        topics.setdefault(partition.topic, []).append(asked)
    # every broker with transactions v2 takes topic ids
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
