"""Which replicas are throttled, and when they have used up their rate (KIP-73)."""

from __future__ import annotations

import pytest

from moldau.core.quotas.rates import Windows
from moldau.core.replication.throttles import UNLIMITED, ReplicationThrottle, throttled_replicas


@pytest.mark.parametrize(
    ("text", "indexes"),
    [
        ("", []),
        ("*", [0, 1, 2]),
        ("0:1,1:2,2:1", [0, 2]),
        (" 0:1 , 1:1 ", [0, 1]),
        ("0:11,1:2", []),
        ("what Kafka never wrote,:1,x:1", []),
    ],
)
def test_a_topic_names_the_throttled_replicas_of_each_broker(text: str, indexes: list[int]) -> None:
    replicas = throttled_replicas(text, 1)
    assert [index for index in range(3) if index in replicas] == indexes


def test_a_throttle_is_exceeded_until_the_rate_is_back() -> None:
    throttle = ReplicationThrottle(Windows(11, 1_000), 0)
    assert not throttle.is_exceeded(1_000, 0)
    throttle.record(5_000, 0)
    assert throttle.is_exceeded(1_000, 0)
    assert throttle.is_exceeded(1_000, 4_900)
    assert not throttle.is_exceeded(1_000, 5_000)


def test_without_a_rate_nothing_is_exceeded() -> None:
    throttle = ReplicationThrottle(Windows(), 0)
    throttle.record(1 << 60, 0)
    assert not throttle.is_exceeded(UNLIMITED, 0)
