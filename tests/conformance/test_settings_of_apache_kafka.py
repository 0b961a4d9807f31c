"""The tables of settings agree with Apache Kafka: names, types, defaults, and which of them are dynamic.

Needs a Java (JAVA_HOME, or on the PATH) and the jars of Apache Kafka: MOLDAU_KAFKA_LIBS names their directory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.configs import BROKER, CLIENT_METRICS, GROUP, TOPIC, Setting, describe_configs
from moldau.client.protocol.access import ClusterAccess
from moldau.core.config.broker_alteration import SettingLayers
from moldau.core.config.broker_settings import BrokerSettings, parse_broker_settings
from moldau.core.config.describing import (
    Described,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from moldau.core.config.setting import Source
from moldau.transport.access import open_admin
from tests.support.apache_kafka import NEEDS_APACHE_KAFKA, apache_kafka, create_topics

pytestmark = NEEDS_APACHE_KAFKA

OTHER_DEFAULTS = {"listeners", "log.dir", "node.id", "process.roles", "controller.listener.names"}
"""Settings whose default differs from Apache Kafka's, or that have none there: the reference of settings says so."""

Row = tuple[int, bool, bool, str | None, tuple[str, ...]]
"""Type, whether it is read-only, whether it is secret, its default, its synonyms."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterAdmin]:
    scratch = tmp_path_factory.mktemp("kafka")
    with apache_kafka(scratch, scratch / "data") as servers:
        create_topics(servers)
        with open_admin(ClusterAccess(servers, client_id="moldau-tests")) as admin:
            yield admin


def of_kafka(settings: Sequence[Setting]) -> dict[str, Row]:
    rows = {}
    for each in settings:
        defaults = [item for item in each.synonyms if item.source == Source.DEFAULT]
        default = each.value if each.config_source == Source.DEFAULT else defaults[0].value if defaults else None
        names = tuple(item.name for item in defaults)
        rows[each.name] = each.config_type, each.read_only, each.is_sensitive, default, names
    return rows


def of_ours(settings: Sequence[Described]) -> dict[str, Row]:
    return {
        each.name: (
            each.type_code,
            each.is_read_only,
            each.is_sensitive,
            each.value,
            tuple(item.name for item in each.synonyms),
        )
        for each in settings
        if not each.name.startswith("moldau.")
    }


@pytest.mark.parametrize(
    ("kind", "name"),
    [(BROKER, "1"), (TOPIC, "orders"), (GROUP, "some-group"), (CLIENT_METRICS, "some-subscription")],
    ids=["broker", "topic", "group", "client metrics"],
)
def test_each_described_setting_is_that_of_apache_kafka(kafka: ClusterAdmin, kind: int, name: str) -> None:
    theirs = of_kafka(describe_configs(kafka, kind, [name])[name])
    ours = of_ours(described(kind, parse_broker_settings({}), SettingLayers({}, {}, {})))
    assert sorted(ours) == sorted(theirs)
    assert {row: (ours[row], theirs[row]) for row in theirs if ours[row] != theirs[row]}.keys() <= OTHER_DEFAULTS


def described(kind: int, settings: BrokerSettings, layers: SettingLayers) -> list[Described]:
    if kind == BROKER:
        return describe_broker(settings, layers)
    if kind == TOPIC:
        return describe_topic({}, settings, layers)
    return describe_group({}, settings, layers) if kind == GROUP else describe_client_metrics({})
