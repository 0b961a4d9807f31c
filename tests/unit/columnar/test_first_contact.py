"""How long a client tries: for a broker that never answered, for a host without an address, for one that was lost."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator

import pytest

from moldau.columnar import TopicWriter, read_topic, write_table
from moldau.errors import KafkaError, kafka_error
from moldau.shell.network.client_cluster import (
    ABSENT_TOPIC_TIMEOUT_MS,
    FIRST_CONTACT_TIMEOUT_MS,
    RETRY_TIMEOUT_MS,
    Backoff,
    ClusterClient,
)
from moldau.testing import Cluster

UNKNOWN_HOST = "-nowhere-:9092"
"""No host can have this name, so no name service is asked: the test runs without a network."""


class FakeTime:
    """Time that passes only in pauses."""

    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def refused() -> Iterator[str]:
    """An address where connections are refused: a bound socket that does not listen keeps the port for itself."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def time_of_trying(client: ClusterClient, error: KafkaError) -> tuple[float, str]:
    time = FakeTime()
    backoff = Backoff(client, clock=time.clock, pause=time.pause)
    for _ in range(1_000):
        try:
            backoff.wait(error)
        except KafkaError as raised:
            return time.now, str(raised)
    raise AssertionError("it goes on for ever")


def test_a_refused_connection_is_told_in_one_sentence_within_the_first_contact(refused: str):
    expected = f"^cannot reach {refused}: connection refused, nothing listens there$"
    for ask in (read_topic, TopicWriter):
        with pytest.raises(KafkaError, match=expected):
            ask(refused, "t", first_contact_timeout_ms=200)


@pytest.mark.parametrize("host", ["-nowhere-", "a..b", "a" * 64])
def test_an_unknown_host_is_told_at_once_as_such(host: str):
    with pytest.raises(KafkaError, match=rf"^cannot reach {host}:9092: there is no host '{host}'$"):
        read_topic(f"{host}:9092", "t", first_contact_timeout_ms=600_000)


def test_one_unknown_host_among_others_does_not_hide_the_others(refused: str):
    with pytest.raises(KafkaError, match="refused"):
        read_topic([refused, UNKNOWN_HOST], "t", first_contact_timeout_ms=100)
    with Cluster() as cluster:
        topic = cluster.topic()
        assert list(read_topic([UNKNOWN_HOST, cluster.bootstrap_servers], topic)) == []


def test_who_listens_and_never_answers_ends_with_the_first_contact():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(KafkaError, match=f"{address} did not answer within 50 ms"):
            read_topic([address, address], "t", first_contact_timeout_ms=100)


def test_the_time_depends_on_what_is_known():
    lost = kafka_error("NETWORK_EXCEPTION", "lost")
    never = ClusterClient("127.0.0.1:1")
    assert time_of_trying(never, lost)[0] == pytest.approx(FIRST_CONTACT_TIMEOUT_MS / 1_000, abs=1)
    with Cluster() as cluster, ClusterClient(cluster.bootstrap_servers) as known:
        known.any_connection()
        spent, said = time_of_trying(known, lost)
        assert spent == pytest.approx(RETRY_TIMEOUT_MS / 1_000, abs=1)
        assert said == f"lost (tried for {spent:.0f} s)"
        absent = kafka_error("UNKNOWN_TOPIC_OR_PARTITION", "no topic")
        assert time_of_trying(known, absent)[0] == pytest.approx(ABSENT_TOPIC_TIMEOUT_MS / 1_000, abs=1)


def test_a_lost_broker_gives_one_line_every_ten_seconds(caplog: pytest.LogCaptureFixture):
    with Cluster() as cluster, ClusterClient(cluster.bootstrap_servers, retry_timeout_ms=60_000) as client:
        client.any_connection()
        with caplog.at_level(logging.WARNING, "moldau.client"):
            time_of_trying(client, kafka_error("NETWORK_EXCEPTION", "lost the connection"))
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 5
    assert lines[0].startswith("for 10 s: lost the connection; trying for another ")


def test_a_broker_that_was_lost_and_comes_back_loses_no_record():
    with Cluster() as cluster:
        topic = cluster.topic()
        batch = _values(500)
        with TopicWriter(cluster.bootstrap_servers, topic) as writer:
            writer.write(batch)
            cluster.restart(clean=False)
            writer.write(batch)
            writer.flush()
        write_table(cluster.bootstrap_servers, topic, batch)
        batches = read_topic(cluster.bootstrap_servers, topic, batch_bytes=2_000)
        rows = next(batches).num_rows
        cluster.restart(clean=False)
        assert rows + sum(one.num_rows for one in batches) == 1_500


def _values(count: int):
    import pyarrow as pa

    return pa.table({"value": pa.array([b"v%d" % number for number in range(count)], pa.binary())})
