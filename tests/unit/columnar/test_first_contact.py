"""How long a client retries: a broker that never answered, a host without an address, a lost broker."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.columnar import TopicWriter, read_topic, write_table
from moldau.errors import KafkaError
from moldau.testing import Cluster

UNKNOWN_HOST = "-nowhere-:9092"
"""No host can have this name, so the test needs no name service and no network."""


@pytest.fixture
def refused() -> Iterator[str]:
    """An address that refuses connections: a bound socket that does not listen reserves the port."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def test_a_refused_connection_is_told_in_one_sentence_within_the_first_contact(refused: str):
    expected = f"^cannot reach {refused}: connection refused, nothing listens there$"
    for ask in (read_topic, TopicWriter):
        with pytest.raises(KafkaError, match=expected):
            ask(ClusterAccess(refused, first_contact_timeout_ms=200), "t")


@pytest.mark.parametrize("host", ["-nowhere-", "a..b", "a" * 64])
def test_an_unknown_host_is_told_at_once_as_such(host: str):
    with pytest.raises(KafkaError, match=rf"^cannot reach {host}:9092: there is no host '{host}'$"):
        read_topic(ClusterAccess(f"{host}:9092", first_contact_timeout_ms=600_000), "t")


def test_one_unknown_host_among_others_does_not_hide_the_others(refused: str):
    with pytest.raises(KafkaError, match="refused"):
        read_topic(ClusterAccess(f"{refused},{UNKNOWN_HOST}", first_contact_timeout_ms=100), "t")
    with Cluster() as cluster:
        topic = cluster.topic()
        assert list(read_topic(f"{UNKNOWN_HOST},{cluster.bootstrap_servers}", topic)) == []


def test_who_listens_and_never_answers_ends_with_the_first_contact():
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as other:
        first, second = (f"127.0.0.1:{one.getsockname()[1]}" for one in (silent, other))
        with pytest.raises(KafkaError, match=f"{second} did not answer within 50 ms"):
            read_topic(ClusterAccess(f"{first},{second}", first_contact_timeout_ms=100), "t")


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
