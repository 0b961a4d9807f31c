"""Sections "Topics" (CreatePartitions) and "Configs and admin" of the table of bad input: the rows on partitions,
elections, reassignments, quotas, features and membership."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moldau.wire.protocol.messages.cluster import (
    FeatureUpdateKey,
    UnregisterBrokerRequest,
    UpdateFeaturesRequest,
)
from moldau.wire.protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.protocol.messages.partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tests.support.wire import RawConnection, row_of

NewTopic = Callable[..., str]
NewName = Callable[[str], str]


def partitions_of(raw: RawConnection, name: str) -> int:
    answer = raw.ask(MetadataRequest(topics=(MetadataRequestTopic(name=name),)), 9)
    return len(answer.topics[0].partitions)


def grow(raw: RawConnection, *topics: CreatePartitionsTopic, timeout_ms: int = 10_000) -> list[tuple[int, str | None]]:
    answer = raw.ask(CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms), 3)
    return [(row.error_code, row.error_message) for row in answer.results]


def to(name: str, count: int, *assignments: tuple[int, ...] | None) -> CreatePartitionsTopic:
    rows = tuple(CreatePartitionsAssignment(row) for row in assignments if row is not None)
    return CreatePartitionsTopic(name, count, rows if assignments else None)


@pytest.mark.parametrize("count", [2, 1, 0, -1])
def test_partitions_do_not_become_fewer(raw: RawConnection, new_topic: NewTopic, count: int) -> None:
    name = new_topic(partitions=2)
    message = f"The topic {name} currently has 2 partition(s); {count} would not be an increase."
    if count == 2:
        message = "Topic already has 2 partition(s)."
    assert grow(raw, to(name, count)) == [(37, message)]
    assert partitions_of(raw, name) == 2


def test_a_topic_that_stands_twice_grows_not_at_all(raw: RawConnection, new_topic: NewTopic) -> None:
    name, other = new_topic(), new_topic()
    assert sorted(code for code, _ in grow(raw, to(name, 2), to(other, 2), to(name, 3))) == [0, 42]
    assert partitions_of(raw, name) == 1


@pytest.mark.parametrize(
    ("feature", "level", "upgrade_type", "sentence"),
    [
        ("no.such.feature", 1, 1, "Local controller 1 does not support this feature."),
        ("no.such.feature", 0, 2, "Feature no.such.feature not found."),
        ("metadata.version", 99, 1, "Local controller 1 only supports versions 7-33"),
        ("group.version", 0, 1, "Can't downgrade the version of this feature without setting the upgrade type"),
        ("group.version", 0, 0, "The controller does not support the given upgrade type."),
        ("group.version", -1, 2, "A feature version cannot be less than 0."),
        ("metadata.version", 25, 2, "Refusing to perform the requested downgrade because it might delete metadata"),
        ("metadata.version", 25, 3, "Unsafe metadata downgrade is not supported in this version."),
        ("kraft.version", 0, 2, "Can't downgrade the version of this feature."),
    ],
)
def test_features_that_cannot_be(
    raw: RawConnection, feature: str, level: int, upgrade_type: int, sentence: str
) -> None:
    good = FeatureUpdateKey("streams.version", 1, upgrade_type=1)
    request = UpdateFeaturesRequest(10_000, (good, FeatureUpdateKey(feature, level, upgrade_type=upgrade_type)))
    answer = raw.ask(request, 2)
    assert answer.error_code == 95
    assert sentence in (answer.error_message or "")


def test_a_broker_that_is_not_registered(raw: RawConnection) -> None:
    answer = raw.ask(UnregisterBrokerRequest(99), 0)
    assert (answer.error_code, answer.error_message) == (102, "Broker ID 99 is not currently registered")


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize(
    "request_message",
    [
        CreateDelegationTokenRequest(renewers=(CreatableRenewers("Group", "g"),), max_lifetime_ms=-(2**63)),
        RenewDelegationTokenRequest(b"x" * 100_000, 2**63 - 1),
        ExpireDelegationTokenRequest(b"", -1),
        DescribeDelegationTokenRequest((DescribeDelegationTokenOwner("", ""),) * 1_000),
    ],
    ids=["create", "renew", "expire", "describe"],
)
def test_no_delegation_token_is_given_to_a_stranger(raw: RawConnection, request_message: Any, version: int) -> None:
    if version <= row_of(request_message)[1].max_version:
        assert raw.ask(request_message, version).error_code == 64
    raw.assert_alive()
