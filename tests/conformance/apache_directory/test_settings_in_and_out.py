"""Settings changed under Moldau are in force under Apache Kafka on the same directory, and back again."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.testing import Cluster
from moldau.wire.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from moldau.wire.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.support.apache_kafka import NEEDS_APACHE_KAFKA, apache_kafka
from tests.support.wire import RawConnection

pytestmark = NEEDS_APACHE_KAFKA

TOPIC, BROKER, METRICS, GROUP = 2, 4, 16, 32
FROM_MOLDAU = (
    (TOPIC, "t", "max.message.bytes", " 5000 "),
    (TOPIC, "t", "cleanup.policy", "delete"),
    (BROKER, "", "log.retention.ms", "600000"),
    (BROKER, "", "nobody.knows.this", "x"),
    (BROKER, "1", "log.segment.bytes", "2097152"),
    (GROUP, "g", "consumer.session.timeout.ms", "50000"),
    (METRICS, "m", "interval.ms", "100"),
)
FROM_KAFKA = (
    (TOPIC, "t", "max.message.bytes", "6000"),
    (TOPIC, "t", "min.insync.replicas", "2"),
    (BROKER, "", "log.retention.ms", "700000"),
    (BROKER, "1", "message.max.bytes", "3000000"),
    (GROUP, "g", "consumer.heartbeat.interval.ms", "6000"),
    (METRICS, "m", "match", "client_id=a"),
)
# settings that only one node starts with or has
DESCRIBED = (
    (TOPIC, "t", None),
    (TOPIC, "u", None),
    (BROKER, "", None),
    (BROKER, "1", ("log.retention.ms", "log.segment.bytes", "message.max.bytes", "nobody.knows.this", "log.roll.ms")),
    (GROUP, "g", None),
    (METRICS, "m", None),
)


def create(servers: str) -> None:
    with RawConnection(servers) as connection:
        topics = tuple(CreatableTopic(name, 1, 1) for name in ("t", "u"))
        answer = connection.ask(CreateTopicsRequest(topics, timeout_ms=10_000), 7)
        assert [topic.error_code for topic in answer.topics] == [0, 0]


def change(servers: str, changes: tuple[tuple[int, str, str, str], ...]) -> None:
    with RawConnection(servers) as connection:
        for kind, name, setting, value in changes:
            configs = (IncrementalAlterableConfig(setting, 0, value),)
            request = IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(kind, name, configs),))
            (response,) = connection.ask(request, 1).responses
            assert response.error_code == 0, (setting, response.error_message)


Row = tuple[int, str, str, object]
"""Type and name of a resource, a setting, and its described value."""


def names_in(rows: list[Row]) -> set[tuple[int, str, str]]:
    return {row[:3] for row in rows}


def described(servers: str) -> list[Row]:
    """Each setting with its value, source, type, flags and synonyms, sorted."""
    resources = tuple(DescribeConfigsResource(*what) for what in DESCRIBED)
    with RawConnection(servers) as connection:
        results = connection.ask(DescribeConfigsRequest(resources, include_synonyms=True), 4).results
    assert all(result.error_code == 0 for result in results)
    found: list[Row] = []
    for result in results:
        for entry in sorted(result.configs, key=lambda entry: entry.name):
            synonyms = [(item.name, item.value, item.source) for item in entry.synonyms]
            flags = (entry.read_only, entry.is_sensitive, entry.config_type)
            shown = (entry.value, entry.config_source, flags, synonyms)
            found.append((result.resource_type, result.resource_name, entry.name, shown))
    return found


@pytest.mark.parametrize("is_moldau_first", [True, False])
def test_settings_are_the_same_under_both(tmp_path: Path, is_moldau_first: bool) -> None:
    data = tmp_path / "data"
    data.mkdir()
    if not is_moldau_first:
        with apache_kafka(tmp_path / "first", data) as servers:
            create(servers)
            change(servers, FROM_KAFKA)
    with Cluster(data_dir=data) as cluster:
        servers = cluster.bootstrap_servers
        if is_moldau_first:
            create(servers)
        change(servers, FROM_MOLDAU)
        before = described(servers)
    with apache_kafka(tmp_path / "second", data) as servers:
        # an earlier Kafka has fewer settings
        assert described(servers) == [row for row in before if row[:3] in names_in(described(servers))]
        change(servers, FROM_KAFKA)
    with apache_kafka(tmp_path / "third", data) as servers:
        before = described(servers)
    with Cluster(data_dir=data) as cluster:
        assert [row for row in described(cluster.bootstrap_servers) if row[:3] in names_in(before)] == before
