"""Connectors under kills: each has a feed of numbers, a look at what has arrived, and a judgement at the end."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

REQUEST_S: Final = 60.0
AT_ONCE: Final = 500
PARTITIONS: Final = 2
KEYS: Final = 40
"""Of rows that replace each other; even, so that a key is always in one partition."""
ROWS_OF_A_BATCH: Final = 200
"""Of a sink: there are many middles."""
VALUE: Final = {
    "type": "struct",
    "optional": False,
    "fields": [{"field": name, "type": "int64", "optional": False} for name in ("n", "k")],
}


class Topic:
    """The committed records of a topic; `read` takes the new ones."""

    def __init__(self, servers: str, name: str) -> None:
        self.name = name
        self.records: list[Message] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "judge",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,  # `read` begins and ends often
                "log_level": 0,
            }
        )
        self._next: dict[int, int] = {}

    def read(self) -> list[Message]:
        """All records so far."""
        if not self._next:
            found = self._consumer.list_topics(self.name, REQUEST_S).topics[self.name].partitions
            self._next = dict.fromkeys(found, OFFSET_BEGINNING)
        self._consumer.assign([TopicPartition(self.name, *place) for place in self._next.items()])
        unread = set(self._next)
        while unread:
            first = self._consumer.poll(REQUEST_S)
            assert first is not None, self.name
            for message in (first, *self._consumer.consume(AT_ONCE, 0)):
                error = message.error()
                if error is None:
                    self.records.append(message)
                    self._next[message.partition()] = message.offset() + 1
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    unread.discard(message.partition())
        return self.records

    def close(self) -> None:
        self._consumer.close()


class Kafka:
    """The cluster of a campaign. `offsets_topic`: that of the workers."""

    def __init__(self, servers: str, offsets_topic: str) -> None:
        self.servers = servers
        self._admin: Any = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
        self._topics: list[Topic] = []
        self._offsets = self.topic(offsets_topic)

    def topic(self, name: str) -> Topic:
        """It is closed with this object."""
        self._topics.append(Topic(self.servers, name))
        return self._topics[-1]

    def create(self, topic: str) -> None:
        self._admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(REQUEST_S)

    def produce(self, topic: str, values: Iterable[tuple[int, bytes]]) -> None:
        for partition, value in values:
            self._producer.produce(topic, value, partition=partition)
            self._producer.poll(0)
        assert self._producer.flush(REQUEST_S) == 0

    def has_uncommitted(self, topic: str) -> bool:
        """Whether the topic has records of an open transaction."""
        asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(PARTITIONS)}
        ends = []
        for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
            found = self._admin.list_offsets(asked, isolation_level=level, request_timeout=REQUEST_S)
            ends.append(sum(one.result(REQUEST_S).offset for one in found.values()))
        return ends[0] < ends[1]

    def has_noted(self, connector: str, slot: int) -> bool:
        """Whether the slot of a sink has noted a batch whose offsets are not committed."""
        key = json.dumps([connector, {"slot": slot}], separators=(",", ":")).encode()
        note = next((one.value() for one in reversed(self._offsets.read()) if one.key() == key), None)
        if note is None:
            return False
        ends = {
            TopicPartition(topic, int(index)): end
            for topic, parts in json.loads(note)["ranges"].items()
            for index, (_, end) in parts.items()
        }
        if not ends:
            return False  # its slot has just begun, or was given other offsets
        group = ConsumerGroupTopicPartitions(f"connect-{connector}", list(ends))
        # without waiting for the open transaction of the task that stands still
        asked = self._admin.list_consumer_group_offsets([group], require_stable=False, request_timeout=REQUEST_S)
        committed = asked[group.group_id].result(REQUEST_S).topic_partitions
        return any(one.offset < ends[one] for one in committed)

    def close(self) -> None:
        for topic in self._topics:
            topic.close()


class Subject(ABC):
    """A connector of this `name` that carries the numbers from 0 on. `is_exact`: its page says exactly once."""

    is_sink = False
    is_exact = True
    tasks = 1

    def __init__(self, name: str, kafka: Kafka) -> None:
        self.name, self.kafka = name, kafka
        self.fed = 0

    @abstractmethod
    def config(self) -> dict[str, str]: ...

    @abstractmethod
    def add(self, first: int, end: int) -> None:
        """Gives the connector these numbers."""

    @abstractmethod
    def count(self) -> int:
        """Of numbers that have arrived; a repeated one may count again."""

    @abstractmethod
    def arrived(self) -> Iterable[tuple[object, int]]:
        """The place and the number of each that has arrived, in the order of the place."""

    def limit_tasks(self, tasks: int) -> None:
        self.tasks = min(self.tasks, tasks)

    def feed(self, count: int) -> None:
        self.add(self.fed, self.fed + count)
        self.fed += count

    def has_all(self) -> bool:
        return self.count() >= self.fed

    def is_amid(self, slot: int) -> bool:
        """Whether the task, which stands still, is in the middle of a batch."""
        return self.kafka.has_noted(self.name, slot) if self.is_sink else self.kafka.has_uncommitted(self.name)

    def judge(self) -> list[str]:
        """What is lost, what came twice, and what has another order."""
        seen: Counter[int] = Counter()
        last: dict[object, int] = {}
        disordered = []
        for place, number in self.arrived():
            stream = (place, number % PARTITIONS)
            if not seen[number] and number < last.get(stream, -1):
                disordered.append(number)
            last[stream] = max(number, last.get(stream, -1))
            seen[number] += 1
        missing = [number for number in range(self.fed) if number not in seen]
        twice = [number for number, times in seen.items() if times > 1]
        faults = [f"{self.name} has lost {len(missing)} of {self.fed}, such as {missing[:3]}"] * bool(missing)
        if self.is_exact and twice:
            faults.append(f"{self.name} has {len(twice)} twice, such as {twice[:3]}")
        if disordered:
            faults.append(f"{self.name} has {len(disordered)} out of order, such as {disordered[:3]}")
        return faults


class SourceSubject(Subject):
    """Its topic has its name. A value is a number, or a struct with the field `number`."""

    number = "n"

    def __init__(self, name: str, kafka: Kafka) -> None:
        super().__init__(name, kafka)
        kafka.create(name)
        self.topic = kafka.topic(name)

    def count(self) -> int:
        return len(self.topic.read())

    def arrived(self) -> Iterable[tuple[object, int]]:
        for message in self.topic.read():
            value = json.loads(message.value() or b"")
            found = value if isinstance(value, int) else self.number_of(value)
            yield message.partition(), found

    def number_of(self, value: Mapping[str, Any]) -> int:
        return int(value[self.number])

    def plain(self) -> dict[str, str]:
        return {"topic": self.name, "value.converter": "json", "value.converter.schemas.enable": "false"}


class SinkSubject(Subject):
    """It reads the topic NAME-in, whose partitions have the even and the odd numbers, in two tasks."""

    is_sink = True
    tasks = PARTITIONS

    def __init__(self, name: str, kafka: Kafka) -> None:
        super().__init__(name, kafka)
        kafka.create(f"{name}-in")

    def add(self, first: int, end: int) -> None:
        rows = ({"schema": VALUE, "payload": {"n": number, "k": number % KEYS}} for number in range(first, end))
        values = ((row["payload"]["n"] % PARTITIONS, json.dumps(row).encode()) for row in rows)
        self.kafka.produce(f"{self.name}-in", values)

    def plain(self) -> dict[str, str]:
        more = {"tasks.max": str(self.tasks), "batch.max.rows": str(ROWS_OF_A_BATCH)}
        return {"topics": f"{self.name}-in", "value.converter": "json", **more}

    def count(self) -> int:
        return sum(1 for _ in self.arrived())
