"""Consumers of two groups that commit, and sometimes leave and return: no offset may be skipped."""

from __future__ import annotations

import random
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.torture.ledger import Ledger, Partition
from tests.torture.producers import TOPICS

STAYS_S = (10, 60)
CATCHES_UP_WITHIN_S = 120


class TorturedReader(threading.Thread):
    """The only member of its group. Offsets may repeat (at least once), but a gap is a problem, and so is a committed
    offset that goes back."""

    def __init__(self, group: str, address: str, seed: str, ledger: Ledger, stop: threading.Event) -> None:
        super().__init__(name=f"group {group}", daemon=True)
        self.group, self.address, self.ledger, self.has_to_stop = group, address, ledger, stop
        self.choices = random.Random(f"{seed} {group}")
        self.next_offset: dict[Partition, int] = {}
        self.committed: dict[Partition, int] = {}

    def run(self) -> None:
        while not self.has_to_stop.is_set():
            self.be_a_member(self.choices.uniform(*STAYS_S))

    def be_a_member(self, stays_s: float) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": self.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
                "check.crcs": True,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        consumer.subscribe(list(TOPICS), on_assign=self.on_assign)
        steps = int(stays_s * 5)
        for _ in range(steps):
            if self.has_to_stop.is_set():
                break
            for message in consumer.consume(2_000, timeout=0.2):
                if message.error():
                    continue
                self.see((message.topic() or "", message.partition() or 0), message.offset() or 0)
            if self.choices.random() < 0.3:
                self.commit(consumer)
        consumer.close()
        self.ledger.count("members that left")

    def on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        try:
            found = consumer.committed(partitions, timeout=10)
        except KafkaException:
            return
        for each in found:
            where = (each.topic, each.partition)
            last = self.committed.get(where)
            if last is not None and each.offset < last:
                self.ledger.problem(f"{self.name}: the commit of {where} went back from {last} to {each.offset}")

    def see(self, where: Partition, offset: int) -> None:
        expected = self.next_offset.get(where, 0)
        if offset > expected:
            self.ledger.problem(f"{self.name}: {where} jumped from {expected} to {offset}")
        self.next_offset[where] = max(expected, offset + 1)
        self.ledger.count("read")

    def commit(self, consumer: Consumer) -> None:
        try:
            done = consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:
                self.ledger.count("commits that failed")
            return
        for each in done or []:
            if each.error is None:
                self.committed[(each.topic, each.partition)] = each.offset
                self.ledger.count("commits")


def wait_until_all_is_read(readers: list[TorturedReader], ledger: Ledger) -> None:
    """After the end of all writes each group reads to the end of the acknowledged records."""
    ends: dict[Partition, int] = {}
    for (_, where), offsets in ledger.offsets.items():
        ends[where] = max(ends.get(where, 0), offsets[-1] + 1)
    deadline = time.monotonic() + CATCHES_UP_WITHIN_S
    for reader in readers:
        while left := {where: end for where, end in ends.items() if reader.next_offset.get(where, 0) < end}:
            if time.monotonic() > deadline:
                seen = {where: reader.next_offset.get(where, 0) for where in left}
                ledger.problem(f"{reader.name} stands at {seen} and does not come to {left}")
                break
            time.sleep(0.1)
