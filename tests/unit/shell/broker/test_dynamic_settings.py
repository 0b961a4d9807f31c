"""A changed setting takes effect at once on the broker and its logs, and again after a crash."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.metadata.fold import MetadataFold
from moldau.shell.administration.configs import MAX_SETTINGS_PER_RESPONSE
from moldau.shell.io.simulated.random import SeededRandom
from moldau.types import Offset, TopicPartition
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from moldau.wire.protocol.messages.metadata_records import ConfigRecord
from moldau.wire.records.builder import build_batch
from tests.support.node import produce_bytes

TOPIC, BROKER, LOGGER = 2, 4, 8


async def alter(node: Any, kind: int, name: str, setting: str, value: str | None) -> int:
    operation = 1 if value is None else 0
    configs = (IncrementalAlterableConfig(setting, operation, value),)
    request = IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(kind, name, configs),))
    answer = await node.connect().ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    return int(answer.responses[0].error_code)


async def described(node: Any, kind: int, name: str, setting: str) -> tuple[str | None, int]:
    request = DescribeConfigsRequest((DescribeConfigsResource(kind, name, (setting,)),))
    (entry,) = (await node.connect().ask(ApiKey.DESCRIBE_CONFIGS, 4, request)).results[0].configs
    return entry.value, entry.config_source


def log_of(node: Any, topic: str, partition: int = 0) -> Any:
    return node.node.broker.partitions.find(topic, partition).log


@pytest.mark.asyncio
async def test_a_log_works_by_the_nearest_setting(start_node: Any) -> None:
    node = await start_node({"log.retention.hours": "1"})
    await node.create_topic("t", 2)
    await node.create_topic("own", 1, retention_ms="77")
    assert log_of(node, "t").settings.retention_ms == 3_600_000
    assert await alter(node, BROKER, "", "log.retention.ms", "50") == 0
    assert [log_of(node, "t", index).settings.retention_ms for index in (0, 1)] == [50, 50]
    assert await alter(node, BROKER, "1", "log.retention.ms", "60") == 0
    assert log_of(node, "t").settings.retention_ms == 60
    assert await alter(node, TOPIC, "t", "retention.ms", "70") == 0
    assert log_of(node, "t").settings.retention_ms == 70
    assert log_of(node, "own").settings.retention_ms == 77
    for kind, name, setting in ((TOPIC, "t", "retention.ms"), (BROKER, "1", "log.retention.ms")):
        assert await alter(node, kind, name, setting, None) == 0
    assert log_of(node, "t").settings.retention_ms == 50
    assert await alter(node, BROKER, "", "log.retention.ms", None) == 0
    assert log_of(node, "t").settings.retention_ms == 3_600_000
    assert log_of(node, "own").settings.retention_ms == 77


TOPIC_CHANGES = [
    ("retention.ms", "5000", "retention_ms", 5000),
    ("retention.bytes", "5000", "retention_bytes", 5000),
    ("segment.bytes", "1048576", "segment_bytes", 1_048_576),
    ("segment.ms", "5000", "segment_ms", 5000),
    ("segment.jitter.ms", "50", "segment_jitter_ms", 50),
    ("segment.index.bytes", "1024", "segment_index_bytes", 1024),
    ("index.interval.bytes", "10", "index_interval_bytes", 10),
    ("flush.messages", "9", "flush_messages", 9),
    ("flush.ms", "900", "flush_ms", 900),
    ("max.message.bytes", "900", "max_message_bytes", 900),
    ("file.delete.delay.ms", "900", "file_delete_delay_ms", 900),
    ("message.timestamp.type", "LogAppendTime", "message_timestamp_type", "LogAppendTime"),
    ("message.timestamp.before.max.ms", "9", "message_timestamp_before_max_ms", 9),
    ("message.timestamp.after.max.ms", "9", "message_timestamp_after_max_ms", 9),
    ("cleanup.policy", "", "cleanup_policy", ()),
]


@pytest.mark.asyncio
async def test_every_setting_of_a_log_follows_its_topic(node: Any) -> None:
    await node.create_topic("t")
    before = log_of(node, "t").settings
    for setting, text, field, value in TOPIC_CHANGES:
        assert await alter(node, TOPIC, "t", setting, text) == 0, setting
        assert getattr(log_of(node, "t").settings, field) == value, setting
        assert await alter(node, TOPIC, "t", setting, None) == 0, setting
        assert log_of(node, "t").settings == before, setting


@pytest.mark.asyncio
async def test_a_change_survives_a_crash(start_node: Any) -> None:
    node = await start_node()
    await node.create_topic("t")
    assert await alter(node, BROKER, "", "message.max.bytes", "500") == 0
    assert await alter(node, BROKER, "1", "log.segment.bytes", "2097152") == 0
    assert await alter(node, TOPIC, "t", "flush.ms", "900") == 0
    node.node.abort()
    node.disk.crash_machine(SeededRandom(3))
    again = await start_node(disk=node.disk)
    assert again.node.broker.settings.message_max_bytes == 500
    settings = log_of(again, "t").settings
    assert (settings.max_message_bytes, settings.segment_bytes, settings.flush_ms) == (500, 2_097_152, 900)
    assert await described(again, TOPIC, "t", "max.message.bytes") == ("500", 3)
    assert await described(again, TOPIC, "t", "segment.bytes") == ("2097152", 2)
    assert await described(again, TOPIC, "t", "flush.ms") == ("900", 1)


@pytest.mark.asyncio
async def test_who_asked_is_told_of_each_new_view(node: Any) -> None:
    seen: list[BrokerSettings] = []
    broker = node.node.broker
    broker.own_node.settings.on_change.append(seen.append)
    before = broker.settings
    assert await alter(node, BROKER, "", "message.max.bytes", "500") == 0
    assert seen == [broker.settings]
    assert (before.message_max_bytes, broker.settings.message_max_bytes) == (1_048_588, 500)
    assert await alter(node, BROKER, "", "message.max.bytes", "x") == 42
    assert await alter(node, BROKER, "", "nobody.knows.this", "x") == 0
    assert len(seen) == 1


@pytest.mark.asyncio
async def test_a_topic_created_later_has_what_was_set_before(node: Any) -> None:
    assert await alter(node, BROKER, "", "log.segment.bytes", "2097152") == 0
    await node.create_topic("t")
    assert log_of(node, "t").settings.segment_bytes == 2_097_152
    assert await described(node, TOPIC, "t", "segment.bytes") == ("2097152", 3)


@pytest.mark.asyncio
async def test_what_cannot_be_is_passed_over_with_a_line(node: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Another program may have written it to the metadata log."""
    broker = node.node.broker
    fold = MetadataFold("cluster")
    fold.apply(ConfigRecord(BROKER, "", "message.max.bytes", "x\ny"))
    fold.apply(ConfigRecord(BROKER, "", "log.segment.bytes", "2097152"))
    with caplog.at_level(logging.WARNING, "moldau"):
        broker.own_node.settings.apply(fold.image, fold.take_delta(Offset(2), 1))
    assert broker.settings.log_segment_bytes == 2_097_152
    assert broker.settings.message_max_bytes == 1_048_588
    (line,) = [record.getMessage() for record in caplog.records if "is ignored" in record.getMessage()]
    assert "\n" not in line


@pytest.mark.asyncio
async def test_only_settings_with_another_value_are_told(start_node: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "moldau"):
        node = await start_node()  # a new cluster states min.insync.replicas=1, which is the default
        assert await alter(node, BROKER, "", "log.segment.bytes", "2097152") == 0
        node.clock.advance(2_000)
        assert await alter(node, BROKER, "", "log.segment.bytes", "1073741824") == 0
    told = [record.getMessage() for record in caplog.records if "changed since" in record.getMessage()]
    assert [line.rpartition(": ")[2] for line in told] == ["log.segment.bytes", "none"]


@pytest.mark.asyncio
async def test_a_smaller_bound_refuses_the_next_record(node: Any) -> None:
    await node.create_topic("t")
    batch = build_batch([(None, b"x" * 300, node.clock.now_ms(), ())])
    client = node.connect()

    async def code() -> int:
        answer = await client.ask(ApiKey.PRODUCE, 9, produce_bytes(batch))
        return int(answer.responses[0].partition_responses[0].error_code)

    assert await code() == 0
    assert await alter(node, TOPIC, "t", "max.message.bytes", "100") == 0
    assert await code() == 10
    assert await alter(node, TOPIC, "t", "max.message.bytes", None) == 0
    assert await code() == 0


@pytest.mark.asyncio
async def test_a_change_for_all_reaches_many_topics_before_it_is_answered(node: Any) -> None:
    for number in range(120):
        await node.create_topic(f"t{number}")
    assert await alter(node, BROKER, "", "message.max.bytes", "500") == 0
    partitions = list(node.node.broker.partitions)
    assert len(partitions) == 120
    assert {partition.log.settings.max_message_bytes for partition in partitions} == {500}
    assert TopicPartition("t0", 0) in [partition.topic_partition for partition in partitions]


@pytest.mark.asyncio
async def test_log_levels_are_our_own(node: Any) -> None:
    logger = logging.getLogger("moldau.network")
    before = logger.level
    try:
        assert await alter(node, LOGGER, "1", "moldau.network", "TRACE") == 0
        assert await described(node, LOGGER, "1", "moldau.network") == ("TRACE", 6)
        assert logger.isEnabledFor(5)
        assert await alter(node, LOGGER, "1", "moldau.network", None) == 0
        assert logger.level == logging.NOTSET
        assert await alter(node, LOGGER, "1", "asyncio", "DEBUG") == 40
    finally:
        logger.setLevel(before)


@pytest.mark.asyncio
async def test_a_response_has_a_bound(node: Any, client: Any) -> None:
    """With any number of repeats of a topic in a request."""
    await node.create_topic("t")
    times = -(-MAX_SETTINGS_PER_RESPONSE // 37)
    client.send(
        ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest((DescribeConfigsResource(TOPIC, "t", None),) * (times + 2))
    )
    while not (answers := client.answers()):
        await node.turns(1)
    told = [(result.error_code, len(result.configs)) for result in answers[0].results]
    assert told == [(0, 37)] * times + [(44, 0)] * 2


@pytest.mark.asyncio
async def test_a_change_without_effect_is_stored_and_named_once_in_the_log(
    start_node: Any, caplog: pytest.LogCaptureFixture
) -> None:
    node = await start_node({})
    with caplog.at_level(logging.WARNING, logger="moldau"):
        assert await alter(node, BROKER, "1", "background.threads", "12") == 0
        assert await alter(node, BROKER, "1", "log.retention.ms", "60") == 0
    assert await described(node, BROKER, "1", "background.threads") == ("12", 2)
    lines = [record.getMessage() for record in caplog.records if "background.threads" in record.getMessage()]
    assert len(lines) == 1
    assert "background.threads has no effect" in lines[0]
