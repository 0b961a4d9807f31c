"""An operator who creates and deletes topics, adds partitions, changes settings and deletes records meanwhile."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.torture.ledger import Ledger
from tests.torture.producers import COMPACTED, TOPICS

SETTINGS = {
    "segment.bytes": ("1048576", "2097152", "8388608"),
    "index.interval.bytes": ("1024", "4096"),
    "flush.messages": ("1", "1000", "9223372036854775807"),
    "segment.ms": ("10000", "604800000"),
}


class Operator(threading.Thread):
    """Its requests may fail while the broker is away; the final check finds a broker that does something else."""

    def __init__(self, address: str, seed: str, ledger: Ledger, stop: threading.Event) -> None:
        super().__init__(name="operator", daemon=True)
        self.ledger, self.has_to_stop = ledger, stop
        self.choices = random.Random(f"{seed} operator")
        self.address = address
        self.admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        self.passing: list[str] = []
        self.made = 0

    def run(self) -> None:
        acts: list[Callable[[], None]] = [self.make, self.make, self.delete, self.grow, self.change, self.purge]
        while not self.has_to_stop.wait(self.choices.uniform(0.1, 1)):
            act = self.choices.choice(acts)
            try:
                act()
                self.ledger.count("acts of the operator")
            except (KafkaException, TimeoutError):
                self.ledger.count("acts of the operator that failed")

    def make(self) -> None:
        self.made += 1
        name = f"passing-{self.made}"
        topic = NewTopic(name, self.choices.randrange(1, 5), 1)
        self.admin.create_topics([topic], request_timeout=10)[name].result(timeout=20)
        self.passing.append(name)
        producer = Producer({"bootstrap.servers": self.address, "message.timeout.ms": 5000, "log_level": 0})
        for number in range(100):
            producer.produce(name, b"%d" % number)
        producer.flush(10)
        producer.purge()

    def delete(self) -> None:
        if len(self.passing) > 5:
            name = self.passing.pop(self.choices.randrange(len(self.passing)))
            self.admin.delete_topics([name], request_timeout=10)[name].result(timeout=20)

    def grow(self) -> None:
        if self.passing:
            name = self.choices.choice(self.passing)
            self.admin.create_partitions([NewPartitions(name, self.choices.randrange(5, 12))])[name].result(timeout=20)

    def change(self) -> None:
        name = self.choices.choice([*TOPICS, COMPACTED])
        setting = self.choices.choice(list(SETTINGS))
        value = self.choices.choice(SETTINGS[setting])
        entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result(timeout=20)

    def purge(self) -> None:
        if self.passing:
            where = TopicPartition(self.choices.choice(self.passing), 0, self.choices.randrange(1, 50))
            self.admin.delete_records([where])[where].result(timeout=20)
