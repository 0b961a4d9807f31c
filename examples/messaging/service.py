"""The loop of a service: reads requests, and writes answers and its own progress in one transaction."""

import json
from collections.abc import Callable

from confluent_kafka import Consumer, Producer

SERVERS = "127.0.0.1:9092"
REPLY = ""
Outgoing = tuple[str, str, dict]
"""A topic (REPLY: the one that the request names), a key, and a value that becomes JSON."""


def transactional_producer(name: str) -> Producer:
    """Aborts what a killed predecessor of this name left open, and shuts it out if it still runs."""
    producer = Producer({"bootstrap.servers": SERVERS, "transactional.id": name})
    producer.init_transactions(30)
    return producer


def serve(name: str, producer: Producer, topic: str, handle: Callable[[dict], list[Outgoing]]) -> None:
    """Until the process ends. A request that `handle` rejects with a ValueError becomes a dead letter."""
    consumer = Consumer(
        {
            "bootstrap.servers": SERVERS,
            "group.id": name,
            "group.instance.id": name,  # a successor takes over at once, not after the session timeout
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic], on_assign=lambda *_: print(f"{name} reads {topic}", flush=True))
    while True:
        messages = consumer.consume(50, timeout=0.05)
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            if message.error():
                raise SystemExit(str(message.error()))
            headers = dict(message.headers() or [])
            try:
                answers = handle(json.loads(message.value()))
            except ValueError as error:
                where = f"{topic}/{message.partition()}/{message.offset()}"
                why = {"error": str(error), "origin": where}
                producer.produce("dead-letters", message.value(), message.key(), headers=why)
                answers = [(REPLY, message.key().decode(), {"is": "unreadable"})]
            for to, key, value in answers:
                same = {name: text for name, text in headers.items() if name == "correlation-id"}
                producer.produce(to or headers["reply-to"].decode(), json.dumps(value), key, headers=same)
        offsets = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
        producer.commit_transaction(30)
