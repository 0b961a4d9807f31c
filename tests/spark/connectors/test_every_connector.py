"""Each connector on Spark gives what its light task gives, and the two runners go on at each other's places.

`make connectors-on-spark` takes all configurations of `make kills-connect`, the usual run some.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from moldau.testing import Cluster
from moldau.testing.connect import OFFSETS_TOPIC, ConnectorTask
from tests.products.connect.kills import SUBJECTS, World
from tests.support.connect_cluster import connect_cluster
from tests.support.kill_sources import GeneratorSource, TableSource
from tests.support.kill_subjects import Kafka, SourceSubject, Subject
from tests.support.spark_tasks import run_on_spark

USUAL = ("files-json-source", "postgresql-source", "sqlite-upsert-sink", "s3-parquet-sink")
NAMES = SUBJECTS if os.environ.get("MOLDAU_CONNECTORS_ON_SPARK") == "all" else USUAL
WAIT_S = 120
FEEDS = 3
ROWS = 300

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with connect_cluster() as started:
        started.create_topic(OFFSETS_TOPIC, config={"cleanup.policy": "compact"})
        yield started


@pytest.fixture(scope="module")
def world(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with ExitStack() as stack:
        kafka = Kafka(cluster.bootstrap_servers, OFFSETS_TOPIC)
        stack.callback(kafka.close)
        yield World(stack, kafka, tmp_path_factory.mktemp("world"))


def config_of(subject: Subject) -> dict[str, str]:
    """A generator without end is never idle."""
    ends = {"limit": str(FEEDS * ROWS), "rows.per.second": "0"} if isinstance(subject, GeneratorSource) else {}
    return {**subject.config(), **ends, "name": subject.name, "poll.interval.ms": "50"}


def run_light(cluster: Cluster, subject: Subject) -> None:
    with ConnectorTask(cluster, config_of(subject)) as task:
        task.wait_until_idle(WAIT_S)


def result_of(subject: Subject) -> list[Any]:
    """Without the times of rows of tables, which each have their own."""
    if isinstance(subject, TableSource):
        return sorted(json.loads(one.value() or b"")["n"] for one in subject.topic.read())
    if isinstance(subject, SourceSubject):
        return sorted(repr((one.key(), one.value(), one.headers())) for one in subject.topic.read())
    return sorted(number for _, number in subject.arrived())


@pytest.mark.parametrize("name", NAMES)
def test_on_spark_as_in_the_light_task(spark: object, cluster: Cluster, world: World, name: str) -> None:
    light, both = (SUBJECTS[name](world, f"{name}-{runner}") for runner in ("light", "both"))
    for subject in (light, both):
        subject.limit_tasks(1)
        subject.feed(ROWS)
    for runner in range(FEEDS):
        if runner == 1:
            run_light(cluster, both)
        else:
            reports = run_on_spark(cluster, config_of(both))
            assert reports.states == ["RUNNING", "STOPPED"], reports.trace
        if runner < FEEDS - 1:
            light.feed(ROWS)
            both.feed(ROWS)
    run_light(cluster, light)
    assert both.judge() == []
    assert result_of(both) == result_of(light)
    assert both.has_all()
