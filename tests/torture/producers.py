"""Idempotent producers with five requests in flight, and one of a compacted topic: their acknowledgements are
recorded."""

from __future__ import annotations

import random
import threading
import time
from array import array

from confluent_kafka import KafkaError, Message, Producer

from tests.torture.ledger import Ledger, Partition

TOPICS = ("orders", "payments")
PARTITIONS = 3
COMPACTED = "latest"
COMPACTED_PARTITIONS = 2
KEYS = 2_000
RECORDS_PER_S = 700
FLUSH_TIMEOUT_S = 300
SETTINGS: dict[str, object] = {
    "enable.idempotence": True,
    "max.in.flight.requests.per.connection": 5,
    "linger.ms": 2,
    "message.timeout.ms": 0,
    "reconnect.backoff.max.ms": 500,
    "socket.timeout.ms": 20_000,
    "log_level": 0,
}


class TorturedProducer(threading.Thread):
    """Numbers its records per partition; a record that fails, or a producer that ends, is a problem."""

    def __init__(self, number: int, address: str, seed: str, ledger: Ledger, stop: threading.Event) -> None:
        super().__init__(name=f"producer {number}", daemon=True)
        self.number, self.ledger, self.has_to_stop = number, ledger, stop
        self.choices = random.Random(f"{seed} producer {number}")
        codec = ("none", "none", "lz4", "zstd", "gzip", "snappy")[number % 6]
        settings = {"bootstrap.servers": address, "compression.type": codec, "error_cb": self.on_error}
        self.producer = Producer({**SETTINGS, **settings})
        self.sent: dict[Partition, int] = {}

    def on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.ledger.problem(f"{self.name} ended: {error}")

    def run(self) -> None:
        while not self.has_to_stop.is_set():
            topic, partition = self.choices.choice(TOPICS), self.choices.randrange(PARTITIONS)
            for _ in range(self.choices.randrange(1, 80)):
                self.produce(topic, partition)
            self.producer.poll(0)
            self.has_to_stop.wait(40 / RECORDS_PER_S)
        left = self.producer.flush(FLUSH_TIMEOUT_S)
        if left:
            self.ledger.problem(f"{self.name}: {left} records were not acknowledged {FLUSH_TIMEOUT_S} s after the end")

    def produce(self, topic: str, partition: int) -> None:
        sequence = self.sent.get((topic, partition), 0)
        value = b"%d:%d:" % (self.number, sequence) + b"." * self.choices.randrange(300)

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.ledger.problem(f"{self.name}: record {sequence} of {topic}-{partition} failed: {error}")
                return
            seen = self.ledger.offsets.setdefault((self.number, (topic, partition)), array("q"))
            if len(seen) != sequence:
                self.ledger.problem(f"{self.name}: {topic}-{partition} acknowledged {sequence} after {len(seen) - 1}")
            seen.append(message.offset())
            self.ledger.count("acknowledged")

        try:
            self.producer.produce(topic, value, partition=partition, on_delivery=delivered)
            self.sent[(topic, partition)] = sequence + 1
        except BufferError:
            self.producer.poll(0.1)


class KeyedProducer(threading.Thread):
    """Writes growing versions of the same keys, and tombstones, into the compacted topic."""

    def __init__(self, address: str, seed: str, ledger: Ledger, stop: threading.Event) -> None:
        super().__init__(name="keyed producer", daemon=True)
        self.ledger, self.has_to_stop = ledger, stop
        self.choices = random.Random(f"{seed} keyed")
        self.producer = Producer({**SETTINGS, "bootstrap.servers": address})

    def run(self) -> None:
        version = 0
        while not self.has_to_stop.is_set():
            for _ in range(200):
                version += 1
                self.produce(b"key-%d" % self.choices.randrange(KEYS), version)
            self.producer.poll(0)
            self.has_to_stop.wait(0.2)
        if self.producer.flush(FLUSH_TIMEOUT_S):
            self.ledger.problem("records of the compacted topic were not acknowledged after the end")

    def produce(self, key: bytes, version: int) -> None:
        is_tombstone = self.choices.random() < 0.05

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.ledger.problem(f"version {version} of {key!r} failed: {error}")
                return
            self.ledger.last_version[key] = -version if is_tombstone else version
            self.ledger.count("acknowledged")

        # The partition depends only on the key, so versions of a key have one order.
        partition = int(key.removeprefix(b"key-")) % COMPACTED_PARTITIONS
        try:
            value = None if is_tombstone else b"%d" % version
            self.producer.produce(COMPACTED, value, key, partition, on_delivery=delivered)
        except BufferError:
            self.producer.poll(0.1)


def wait_for(threads: list[threading.Thread], ledger: Ledger) -> None:
    deadline = time.monotonic() + FLUSH_TIMEOUT_S + 60
    for thread in threads:
        thread.join(max(0.1, deadline - time.monotonic()))
        if thread.is_alive():
            ledger.problem(f"{thread.name} hangs")
