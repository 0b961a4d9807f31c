"""One group member in a process: prints its partitions and values, leaves when its standard input closes.

python -m tests.conformance.clients.member CLIENT BOOTSTRAP TOPIC GROUP
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterable

from tests.conformance.clients import login

SESSION_TIMEOUT_MS = 6_000
HEARTBEAT_MS = 500
PYTHON_CLIENT_SETTINGS = {
    "auto_offset_reset": "earliest",
    "session_timeout_ms": SESSION_TIMEOUT_MS,
    "heartbeat_interval_ms": HEARTBEAT_MS,
    "auto_commit_interval_ms": 200,
}
"""kafka-python and aiokafka use the same names."""

leaving = threading.Event()


def tell(event: str, content: object) -> None:
    print(json.dumps({"event": event, "content": content}), flush=True)


def tell_values(values: Iterable[bytes | None]) -> None:
    for value in values:
        tell("value", (value or b"").decode())


def run_confluent(servers: str, topic: str, group: str) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            **login.librdkafka(),
            "client.id": "confluent-kafka",
            "group.id": group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "auto.commit.interval.ms": 200,
        }
    )

    def told(_: object, partitions: list[object]) -> None:
        tell("assigned", [partition.partition for partition in partitions])  # type: ignore[attr-defined]

    consumer.subscribe([topic], on_assign=told, on_revoke=lambda *_: tell("assigned", []))
    while not leaving.is_set():
        message = consumer.poll(0.1)
        if message is not None and not message.error():
            tell_values([message.value()])
    consumer.close()


def run_kafka_python(servers: str, topic: str, group: str) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: object) -> None:
            tell("assigned", [])

        def on_partitions_assigned(self, assigned: list[object]) -> None:
            tell("assigned", [partition.partition for partition in assigned])  # type: ignore[attr-defined]

    consumer = KafkaConsumer(
        bootstrap_servers=servers,
        client_id="kafka-python",
        group_id=group,
        **PYTHON_CLIENT_SETTINGS,
        **login.kafka_python(),
    )
    consumer.subscribe([topic], listener=Listener())
    # A poll that ends between kafka-python's SyncGroup and the answer loses the assignment for good: few, long polls.
    while not leaving.is_set():
        for records in consumer.poll(timeout_ms=5_000).values():
            tell_values(record.value for record in records)
    consumer.close()


async def run_aiokafka(servers: str, topic: str, group: str) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: object) -> None:
            tell("assigned", [])

        async def on_partitions_assigned(self, assigned: list[object]) -> None:
            tell("assigned", [partition.partition for partition in assigned])  # type: ignore[attr-defined]

    consumer = AIOKafkaConsumer(
        bootstrap_servers=servers, client_id="aiokafka", group_id=group, **PYTHON_CLIENT_SETTINGS, **login.aiokafka()
    )
    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    try:
        while not leaving.is_set():
            for records in (await consumer.getmany(timeout_ms=100)).values():
                tell_values(record.value for record in records)
    finally:
        await consumer.stop()


def main() -> None:
    client, *where = sys.argv[1:]

    def wait_for_end() -> None:
        sys.stdin.read()
        leaving.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    if client == "aiokafka":
        asyncio.run(run_aiokafka(*where))
    else:
        {"confluent-kafka": run_confluent, "kafka-python": run_kafka_python}[client](*where)


if __name__ == "__main__":
    main()
