"""Requests to a node in the test's process, and changes of its metadata."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from moldau.core.metadata.image import BrokerImage, BrokerListener, MetadataDelta, PartitionImage, TopicImage
from moldau.types import BrokerId, TopicPartition, Uuid
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.records.batch import iterate_batches
from moldau.wire.records.builder import build_batch
from moldau.wire.records.record import read_records

NOW_MS = 1_800_000_000_000
BROKER_EPOCH = 70
"""Of the brokers that are registered here."""


def produce(
    *values: bytes, topic: str = "t", partition: int = 0, acks: int = -1, timeout_ms: int = 30_000, **batch: Any
) -> ProduceRequest:
    records = build_batch([(None, value, NOW_MS, ()) for value in values], **batch)
    return produce_bytes(records, topic=topic, partition=partition, acks=acks, timeout_ms=timeout_ms)


def produce_bytes(
    records: bytes, *, topic: str = "t", partition: int = 0, acks: int = -1, timeout_ms: int = 30_000
) -> ProduceRequest:
    """As `produce`, for an existing batch."""
    data = (TopicProduceData(name=topic, partition_data=(PartitionProduceData(partition, records),)),)
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=data)


def fetch(offset: int, *, topic: str = "t", **fields: Any) -> FetchRequest:
    partition_fields = {key: fields.pop(key) for key in ("current_leader_epoch", "last_fetched_epoch") if key in fields}
    partition_max_bytes = fields.pop("partition_max_bytes", 1 << 20)
    partition = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=partition_max_bytes, **partition_fields
    )
    values: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **fields}
    return FetchRequest(topics=(FetchTopic(topic=topic, partitions=(partition,)),), **values)


def offset_commit(
    offset: int, *, group: str = "g", topic: str = "t", partitions: Iterable[int] = (0,)
) -> OffsetCommitRequest:
    """The same offset for all the partitions."""
    rows = tuple(OffsetCommitRequestPartition(index, offset) for index in partitions)
    return OffsetCommitRequest(group, topics=(OffsetCommitRequestTopic(topic, partitions=rows),))


async def committed(client: Any, topic: str = "t") -> int:
    """The committed offset of group g in the first partition; -1: it has none."""
    request = OffsetFetchRequest(group_id="g", topics=(OffsetFetchRequestTopic(topic, partition_indexes=(0,)),))
    answer = await client.ask(ApiKey.OFFSET_FETCH, 7, request)
    assert answer.error_code == 0
    return int(answer.topics[0].partitions[0].committed_offset)


def long_poll(offset: int) -> FetchRequest:
    """As `fetch`; waits a minute for one byte."""
    return fetch(offset, max_wait_ms=60_000)


async def finalize(node: Any, transaction_version: int) -> None:
    """Sets the level of `transaction.version`."""
    now = node.node.broker.image.features.get("transaction.version", 0)
    kind = 1 if transaction_version > now else 2
    update = FeatureUpdateKey("transaction.version", transaction_version, upgrade_type=kind)
    answer = await node.node.broker.submit(UpdateFeaturesRequest(feature_updates=(update,)))
    assert answer.error_code == 0, answer


def result_of(answer: Any) -> Any:
    return answer.responses[0].partition_responses[0]


def data_of(answer: FetchResponse) -> Any:
    return answer.responses[0].partitions[0]


def values_of(answer: FetchResponse) -> list[bytes | None]:
    records = bytes(data_of(answer).records or b"")
    found: list[bytes | None] = []
    for position, header in iterate_batches(records):
        found += [record.value for record in read_records(records[position : position + header.size])]
    return found


def tell(node: Any, image: PartitionImage, topic: str = "t", index: int = 0, topic_id: Uuid | None = None) -> None:
    """The broker learns that the metadata log has this for a partition."""
    broker = node.node.broker
    known = broker.image.topics_by_name.get(topic)
    partitions = {} if known is None else dict(known.partitions)
    partitions[index] = image
    touched = TopicImage(topic, topic_id or known.topic_id, partitions)
    _hear(broker, topics={touched.topic_id: touched}, partitions={TopicPartition(topic, index): image})


def register(node: Any, broker_id: int, *, rack: str | None = None, is_fenced: bool = False) -> None:
    """The broker learns of another one, with a listener of the name that this one's clients use."""
    listener = BrokerListener(node.node.settings.listeners[0].name, f"host-{broker_id}", 9)
    other = BrokerImage(BrokerId(broker_id), BROKER_EPOCH, Uuid(b"i" * 16), (listener,), rack=rack, is_fenced=is_fenced)
    _hear(node.node.broker, brokers={broker_id: other})


def _hear(broker: Any, **changes: Any) -> None:
    delta = MetadataDelta(end_offset=broker.image.end_offset, **changes)
    broker.image.apply_delta(delta)
    broker.metadata_changed(broker.image, delta)


def change(node: Any, **fields: Any) -> None:
    """Of the one partition of topic t."""
    old = node.node.broker.image.topics_by_name["t"].partitions[0]
    tell(node, msgspec.structs.replace(old, partition_epoch=old.partition_epoch + 1, **fields))
