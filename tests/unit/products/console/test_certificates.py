"""A broker's page shows when the certificate of its listener expires; it asks seldom."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.ports import Stream
from moldau.products.console.certificates import DAY_S, LOOK_AGAIN_S, WARN_DAYS, Certificates
from moldau.testing import Cluster
from moldau.transport.security import presented_certificate
from moldau.transport.tcp import TcpDialer
from moldau.wire.x509 import not_after_ms

TIMEOUT_MS = 20_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    with Cluster(security="ssl") as cluster:
        yield cluster


class CountingDialer(TcpDialer):
    count = 0

    def dial(self, host: str, port: int, timeout_ms: int) -> Stream:
        self.count += 1
        return super().dial(host, port, timeout_ms)


def end_of(broker: Cluster) -> float:
    """In seconds since the epoch."""
    host, _, port = broker.bootstrap_servers.rpartition(":")
    found = presented_certificate(broker.access(), TcpDialer(), host, int(port), TIMEOUT_MS)
    assert found is not None
    return not_after_ms(found) / 1_000


def test_days_are_counted_to_the_end_of_what_the_listener_presents(broker: Cluster) -> None:
    now_s, end_s = time.time(), end_of(broker)
    certificates = Certificates(broker.access(), now_s=lambda: now_s)
    assert certificates.days_left(broker.bootstrap_servers) == int((end_s - now_s) // DAY_S) > WARN_DAYS
    for left_s, days in ((29.5 * DAY_S, 29), (60, 0), (-60, -1)):
        late = Certificates(broker.access(), now_s=lambda left_s=left_s: end_s - left_s)
        assert late.days_left(broker.bootstrap_servers) == days


def test_a_broker_is_asked_once_in_a_while(broker: Cluster) -> None:
    dialer, moment = CountingDialer(), [1_000.0]
    certificates = Certificates(broker.access(), dialer, lambda: moment[0])
    for seconds, asked in ((0, 1), (LOOK_AGAIN_S - 1, 1), (1, 2)):
        moment[0] += seconds
        assert certificates.days_left(broker.bootstrap_servers) is not None
        assert dialer.count == asked


def test_nothing_is_said_without_tls_or_an_answer(broker: Cluster) -> None:
    assert Certificates(ClusterAccess(broker.bootstrap_servers)).days_left(broker.bootstrap_servers) is None
    assert Certificates(broker.access()).days_left("127.0.0.1:1") is None
    assert Certificates(broker.access()).days_left("nonsense") is None
