"""The count at the end: records sent, in the topic, in the Parquet files, and unread.

Reads the topic with confluent-kafka and the files with pyarrow, not with the code that wrote them.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaException, TopicPartition

from moldau.client.protocol.access import ClusterAccess
from moldau.errors import MoldauError
from moldau.products.demo.planted import SOURCE, Plant
from moldau.transport.librdkafka import librdkafka_settings

READ_SECONDS = 60.0
_MOST_SHOWN = 5

Row = Mapping[str, Any]


class ReadBackError(MoldauError):
    """A topic could not be read to its end."""


def read_topic(access: ClusterAccess, topic: str) -> list[Row]:
    """Every record of a topic of JSON objects, up to the current end offsets. Raises ReadBackError."""
    consumer = _consumer(access, "moldau.demo-count")
    rows: list[Row] = []
    try:
        numbers = consumer.list_topics(topic, timeout=READ_SECONDS).topics[topic].partitions
        for number in sorted(numbers):
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=READ_SECONDS)
            consumer.assign([TopicPartition(topic, number, 0)])
            position = 0
            while position < end:
                message = consumer.poll(READ_SECONDS)
                if message is None:
                    raise ReadBackError(f"{topic}-{number}: nothing more came at offset {position} of {end}")
                if message.error():
                    raise ReadBackError(f"{topic}-{number}: {message.error()}")
                rows.append(json.loads(message.value() or b""))
                position = (message.offset() or 0) + 1
    except KafkaException as error:
        raise ReadBackError(f"{topic}: {error.args[0]}") from error
    finally:
        consumer.close()
    return rows


def read_parquet(directory: Path) -> list[Row]:
    """Every row of the Parquet files below the directory; empty if it does not exist."""
    rows: list[Row] = []
    for path in sorted(directory.glob("batch=*/*.parquet")):
        rows.extend(pq.read_table(path).to_pylist())
    return rows


def group_lag(access: ClusterAccess, group: str, topic: str) -> int:
    """The lag as Kafka tools show it: end offsets minus committed offsets."""
    consumer = _consumer(access, group)
    try:
        numbers = consumer.list_topics(topic, timeout=READ_SECONDS).topics[topic].partitions
        asked = [TopicPartition(topic, number) for number in sorted(numbers)]
        behind = 0
        for one in consumer.committed(asked, timeout=READ_SECONDS):
            _, end = consumer.get_watermark_offsets(one, timeout=READ_SECONDS)
            behind += end - max(one.offset, 0)
        return behind
    finally:
        consumer.close()


def _consumer(access: ClusterAccess, group: str) -> Consumer:
    settings = {**librdkafka_settings(access), "group.id": group, "enable.auto.commit": False}
    return Consumer(settings, logger=logging.getLogger("moldau.demo"))


def count_differences(where: str, rows: Iterable[Row], sent: int, sent_by_key: Mapping[str, int]) -> list[str]:
    """A sentence for each difference between the windows and the records that were sent."""
    counted: Counter[str] = Counter()
    for row in rows:
        counted[row["key"]] += row["records"]
    differences: list[str] = []
    if counted.total() != sent:
        differences.append(f"{where}: the windows hold {counted.total():,} records, sent were {sent:,}")
    wrong = [key for key in sorted({*counted, *sent_by_key}) if counted[key] != sent_by_key.get(key, 0)]
    differences += [
        f"{where}: {key}: {counted[key]:,}, sent {sent_by_key.get(key, 0):,}" for key in wrong[:_MOST_SHOWN]
    ]
    if len(wrong) > _MOST_SHOWN:
        differences.append(f"{where}: and {len(wrong) - _MOST_SHOWN} keys more")
    return differences


def byte_differences(where: str, rows: Iterable[Row], sent_bytes: int) -> list[str]:
    counted = sum(row["bytes"] for row in rows)
    return [] if counted == sent_bytes else [f"{where}: {counted:,} bytes of lines, sent were {sent_bytes:,}"]


def planted_differences(where: str, rows: Iterable[Row], plants: Sequence[Plant]) -> list[str]:
    """The anomalies of the planted keys must be exactly the planted ones, each once."""
    found = Counter((row["key"], round(row["value"], 6)) for row in rows if row["key"].startswith(f"{SOURCE}/"))
    planted = Counter((plant.key, round(plant.value, 6)) for plant in plants)
    missing = [f"{where}: the planted {key} = {value} was not found" for key, value in sorted(planted - found)]
    wrong = [f"{where}: {key} = {value} was found and not planted" for key, value in sorted(found - planted)]
    return missing + wrong
