"""Settings changed by a real client take effect while the broker runs, and survive kill -9."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from moldau.wire.protocol.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tests.support.running_broker import RunningBroker
from tests.support.wire import RawConnection

RECORD = b"x" * 1_000


class Brokers:
    """One data directory, and its present broker, whose port is another one after each start."""

    def __init__(self, directory: Path) -> None:
        # retention runs every 100 ms, while the test waits for it
        self._arguments = (
            *("--data-dir", str(directory), "--listen", "127.0.0.1:0"),
            *("--set", "log.retention.check.interval.ms=100", "--set", "log.initial.task.delay.ms=0"),
        )
        self._start()

    def _start(self) -> None:
        self.running = RunningBroker(*self._arguments).wait_until_ready()
        self.admin = AdminClient({"bootstrap.servers": self.running.address})

    def kill_and_restart(self) -> None:
        self.running.kill()
        self._start()

    def create(self, name: str, **config: str) -> None:
        self.admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result(timeout=30)

    def alter(
        self,
        kind: ResourceType,
        name: str,
        setting: str,
        value: str | None,
        operation: AlterConfigOpType = AlterConfigOpType.SET,
    ) -> None:
        entry = ConfigEntry(setting, value, incremental_operation=operation)
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result(timeout=30)

    def alter_for_all_brokers(self, setting: str, value: str | None) -> None:
        """A raw request: confluent-kafka cannot name the resource ""."""
        operation = int(AlterConfigOpType.DELETE.value if value is None else AlterConfigOpType.SET.value)
        configs = (IncrementalAlterableConfig(setting, operation, value),)
        request = IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(4, "", configs),))
        with RawConnection(self.running.address) as connection:
            (response,) = connection.ask(request, 1).responses
        assert response.error_code == 0, response

    def described(self, kind: ResourceType, name: str, setting: str) -> tuple[str, ConfigSource]:
        resource = ConfigResource(kind, name)
        entry = self.admin.describe_configs([resource])[resource].result(timeout=30)[setting]
        return entry.value, ConfigSource(entry.source)

    def is_taken(self, topic: str, value: bytes = RECORD) -> bool:
        """Whether the broker appends a record of `value`; the only allowed error is too large."""
        errors = []
        producer = Producer(
            {
                "bootstrap.servers": self.running.address,
                "on_delivery": lambda error, _: errors.append(error),
            }
        )
        producer.produce(topic, value)
        assert producer.flush(30) == 0
        assert errors[0] is None or errors[0].name() == "MSG_SIZE_TOO_LARGE", errors
        return errors[0] is None

    def earliest(self, topic: str) -> int:
        return self.wait_until_earliest(topic, 0)

    def wait_until_earliest(self, topic: str, offset: int) -> int:
        """Waits until the log starts at `offset` or later; gives the log start."""
        consumer = Consumer({"bootstrap.servers": self.running.address, "group.id": "g"})
        try:
            for _ in range(100_000):
                earliest = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[0]
                if earliest >= offset:
                    return int(earliest)
        finally:
            consumer.close()
        raise AssertionError(f"{topic} starts at {earliest}")


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    brokers = Brokers(tmp_path / "data")
    yield brokers
    brokers.running.stop()


@pytest.mark.slow
def test_the_nearest_setting_counts_at_once_and_after_a_kill(brokers: Brokers) -> None:
    """Default, all brokers, this broker, topic: each overrides the one before; deleting it restores that one."""
    brokers.create("t")
    assert brokers.is_taken("t")

    brokers.alter_for_all_brokers("message.max.bytes", "500")
    assert not brokers.is_taken("t")
    brokers.kill_and_restart()
    assert brokers.described(ResourceType.TOPIC, "t", "max.message.bytes") == (
        "500",
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    )
    assert not brokers.is_taken("t")

    brokers.alter(ResourceType.BROKER, "1", "message.max.bytes", "5000")
    assert brokers.is_taken("t")
    brokers.kill_and_restart()
    assert brokers.described(ResourceType.BROKER, "1", "message.max.bytes") == (
        "5000",
        ConfigSource.DYNAMIC_BROKER_CONFIG,
    )
    assert brokers.is_taken("t")

    brokers.alter(ResourceType.TOPIC, "t", "max.message.bytes", "400")
    assert not brokers.is_taken("t")
    brokers.kill_and_restart()
    assert brokers.described(ResourceType.TOPIC, "t", "max.message.bytes") == (
        "400",
        ConfigSource.DYNAMIC_TOPIC_CONFIG,
    )
    assert not brokers.is_taken("t")
    assert brokers.is_taken("t", b"small")

    brokers.alter(ResourceType.TOPIC, "t", "max.message.bytes", None, AlterConfigOpType.DELETE)
    assert brokers.is_taken("t")
    brokers.alter(ResourceType.BROKER, "1", "message.max.bytes", None, AlterConfigOpType.DELETE)
    assert not brokers.is_taken("t")
    brokers.alter_for_all_brokers("message.max.bytes", None)
    assert brokers.is_taken("t")
    assert brokers.described(ResourceType.TOPIC, "t", "max.message.bytes") == ("1048588", ConfigSource.DEFAULT_CONFIG)


def test_retention_that_is_shortened_deletes_what_is_there(brokers: Brokers) -> None:
    brokers.create("t")
    for _ in range(3):
        assert brokers.is_taken("t")
    assert brokers.earliest("t") == 0
    brokers.alter(ResourceType.TOPIC, "t", "retention.ms", "1")
    brokers.wait_until_earliest("t", 3)
    brokers.kill_and_restart()
    assert brokers.described(ResourceType.TOPIC, "t", "retention.ms") == ("1", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert brokers.earliest("t") == 3


def test_retention_for_all_brokers_reaches_a_topic_without_its_own(brokers: Brokers) -> None:
    brokers.create("short")
    brokers.create("long", **{"retention.ms": "600000"})
    assert brokers.is_taken("short")
    assert brokers.is_taken("long")
    brokers.alter_for_all_brokers("log.retention.ms", "1")
    brokers.wait_until_earliest("short", 1)
    assert brokers.earliest("long") == 0


def test_a_refused_change_leaves_everything_as_it_was(brokers: Brokers) -> None:
    brokers.create("t")
    with pytest.raises(KafkaException, match="Not a number of type LONG"):
        brokers.alter(ResourceType.TOPIC, "t", "retention.ms", "soon")
    with pytest.raises(KafkaException, match="Cannot update these configs dynamically"):
        brokers.alter(ResourceType.BROKER, "1", "num.partitions", "3")
    assert brokers.described(ResourceType.TOPIC, "t", "retention.ms") == ("604800000", ConfigSource.DEFAULT_CONFIG)
    assert brokers.is_taken("t")
