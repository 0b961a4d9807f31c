"""The Kafka clients of a task, as settings of librdkafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Consumer

from moldau.connect.running.protocol import Task

BUFFERED_KIB: Final = 32 << 10
"""Records that a client holds in memory, in KiB: not yet sent, or not yet taken."""
BUFFERED_RECORDS: Final = 50_000
COMPRESSION: Final = "compression.type"
PRODUCER_OVERRIDES, CONSUMER_OVERRIDES = "producer.override.", "consumer.override."


def base_settings(task: Task) -> dict[str, Any]:
    return {
        "bootstrap.servers": task.bootstrap_servers,
        "client.id": f"connector-{task.connector}-{task.slot}",
        "log.connection.close": False,
        **task.client,
    }


def producer_settings(task: Task) -> dict[str, Any]:
    """Records go to the partition that Kafka's own producers choose."""
    return {
        **base_settings(task),
        "partitioner": "murmur2_random",
        "metadata.recovery.strategy": "none",  # else a transaction may hang after a broker's death: librdkafka's 5511
        "linger.ms": 5,
        COMPRESSION: "none",
        "queue.buffering.max.messages": BUFFERED_RECORDS,
        "queue.buffering.max.kbytes": BUFFERED_KIB,
        **overrides(task.config, PRODUCER_OVERRIDES),
        "transactional.id": task.transactional_id,
        "delivery.report.only.error": True,
    }


def consumer_settings(task: Task, group_id: str) -> dict[str, Any]:
    """Of the topics that a sink reads. Committed records alone; a partition without a committed offset begins at its
    first record."""
    return {
        **base_settings(task),
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "queued.max.messages.kbytes": BUFFERED_KIB,
        "queued.min.messages": BUFFERED_RECORDS // 2,
        "fetch.queue.backoff.ms": 10,  # else a full buffer stops reading for a second
        **overrides(task.config, CONSUMER_OVERRIDES),
        "group.id": group_id,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }


def offsets_consumer(task: Task) -> Consumer:
    """Reads the topic of offsets."""
    return Consumer(
        {
            **base_settings(task),
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "group.id": task.transactional_id,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "queued.max.messages.kbytes": 4 << 10,
        }
    )


def overrides(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}
