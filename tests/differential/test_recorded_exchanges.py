"""Every version of every API answers like the recorded responses of Apache Kafka 4.4.0."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau.testing import Cluster
from moldau.wire.protocol.api_keys import API_VERSIONS
from tests.differential.answers import differences
from tests.differential.brokers import OUR_SETTINGS, Broker
from tests.differential.exchanges import answers_of, recorded, round_of
from tests.differential.exemptions import exemption
from tests.differential.steps import ROUNDS

ANSWERS = recorded()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Cluster(settings=OUR_SETTINGS) as cluster:
        broker = Broker(cluster.bootstrap_servers)
        broker.wait_for_coordinator("any")
        yield broker
        broker.close()


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_round_is_answered_as_apache_kafka_answered_it(broker: Broker, number: int) -> None:
    theirs = ANSWERS[number]
    ours = answers_of(broker, number)
    assert len(ours) == len(theirs)
    found = [
        (mine["api"], mine["version"], path, a, b)
        for mine, other in zip(ours, theirs, strict=True)
        for path, a, b in differences(mine, other)
        if exemption(mine["api"], path, a, b) is None
    ]
    assert found == []


def test_every_version_that_is_served_was_recorded() -> None:
    seen = {(answer["api"], answer["version"]) for answers in ANSWERS for answer in answers}
    served = {
        (key.name, version)
        for key, row in API_VERSIONS.items()
        for version in range(row.min_version, row.max_version + 1)
    }
    assert served <= seen


def test_a_sequence_is_the_same_each_time_it_is_made() -> None:
    first, second = (round_of(3, "same") for _ in range(2))
    assert [(step.key, step.version) for step in first] == [(step.key, step.version) for step in second]
