"""The cluster of tests of connectors: one of ours in the process of the test, or Apache Kafka.

MOLDAU_CONNECT_ON=kafka takes the same tests to Apache Kafka (`make connect-on-kafka`).
"""

from __future__ import annotations

import itertools
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.client.protocol.access import ClusterAccess
from moldau.errors import KafkaError as NamedError
from moldau.errors import kafka_error
from moldau.testing import Cluster, Record
from tests.support.apache_kafka import apache_kafka

ON = os.environ.get("MOLDAU_CONNECT_ON", "moldau")
WAIT_S = 30.0
PAUSE = threading.Event()


class KafkaCluster:
    """Apache Kafka under those names of `Cluster` that the tests of connectors use."""

    def __init__(self, servers: str) -> None:
        self.bootstrap_servers = servers
        self._admin = AdminClient({**self.client_settings(), "log_level": 0})
        self._producer = Producer({**self.client_settings(), "log_level": 0})
        self._made = itertools.count(1)

    def client_settings(self) -> dict[str, object]:
        return {"bootstrap.servers": self.bootstrap_servers}

    def client_properties(self) -> dict[str, str]:
        return {"bootstrap.servers": self.bootstrap_servers}

    def access(self) -> ClusterAccess:
        return ClusterAccess.of(self.bootstrap_servers)

    def create_topic(self, name: str, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        """Raises the error of Kafka under the name of `Cluster`."""
        future = self._admin.create_topics([NewTopic(name, partitions, 1, config=config or {})])[name]
        try:
            future.result(WAIT_S)
        except KafkaException as error:
            raise _named(error) from None
        self.wait_for(lambda: len(self._admin.list_topics(name, timeout=5).topics[name].partitions) == partitions)
        return name

    def topic(self, prefix: str = "topic", partitions: int = 1, config: dict[str, str] | None = None) -> str:
        return self.create_topic(f"{prefix}-{next(self._made)}", partitions, config)

    def produce(self, topic: str, *values: bytes | str | None, **record: object) -> None:
        """`record`: key, headers, partition or timestamp of each. Records without a key take partitions in turn."""
        partitions = itertools.cycle(self._partitions(topic))
        failed: list[KafkaError] = []
        for value in values:
            where = {} if record.get("key") is not None else {"partition": next(partitions)}
            done = lambda error, _: failed.append(error) if error else None  # noqa: E731
            self._producer.produce(topic, value, **{**where, **record}, on_delivery=done)
        assert self._producer.flush(WAIT_S) == 0
        assert failed == []

    def records(self, topic: str, *, isolation: str = "read_committed") -> Iterator[Record]:
        """The call reads all; partition by partition."""
        settings = {"group.id": "judge", "enable.partition.eof": True, "enable.auto.commit": False}
        consumer = Consumer({**self.client_settings(), **settings, "isolation.level": isolation})
        left = set(self._partitions(topic))
        consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in left])
        found: list[Record] = []
        end_s = time.monotonic() + WAIT_S
        while left:
            assert time.monotonic() < end_s, f"{topic} is not read to its end"
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                left.discard(message.partition())
                continue
            end_s = time.monotonic() + WAIT_S
            key, value, headers = message.key(), message.value(), message.headers() or []
            place = topic, message.partition(), message.offset()
            found.append(Record(*place, message.timestamp()[1], cast("bytes", key), cast("bytes", value), headers))
        consumer.close()
        return iter(sorted(found, key=lambda record: (record.partition, record.offset)))

    def lag(self, group: str) -> int:
        asked = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group]
        committed = asked.result(WAIT_S).topic_partitions
        consumer = Consumer({**self.client_settings(), "group.id": "judge"})
        ends = [consumer.get_watermark_offsets(one, timeout=WAIT_S)[1] for one in committed]
        consumer.close()
        assert committed, f"group {group} has committed nothing"
        return sum(end - one.offset for end, one in zip(ends, committed, strict=True))

    def wait_for(self, predicate: Callable[[], object], *, timeout: float = WAIT_S) -> None:
        """An unknown topic counts as false, as in Cluster."""
        end_s = time.monotonic() + timeout
        while time.monotonic() < end_s:
            try:
                if predicate():
                    return
            except (AssertionError, NamedError):
                pass
            PAUSE.wait(0.05)
        raise TimeoutError(f"not reached in {timeout:.0f} s")

    def _partitions(self, topic: str) -> list[int]:
        found = self._admin.list_topics(timeout=5).topics.get(topic)
        if found is None:
            raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION", f"topic {topic!r} does not exist")
        return sorted(found.partitions)


def _named(error: KafkaException) -> NamedError:
    return kafka_error(error.args[0].name().lstrip("_"), str(error.args[0]))


@contextmanager
def connect_cluster() -> Iterator[Cluster]:
    """A cluster of one broker; each test that asks has its own."""
    with ExitStack() as stack:
        if ON == "moldau":
            yield stack.enter_context(Cluster())
            return
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="moldau-connect-")))
        yield cast("Cluster", KafkaCluster(stack.enter_context(apache_kafka(folder / "kafka", folder / "data"))))
