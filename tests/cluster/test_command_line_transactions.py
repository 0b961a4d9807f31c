"""`moldau transactions` against a real broker: lists open and hanging transactions, and ends both."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from moldau.client.protocol.access import ClusterAccess
from moldau.testing import Cluster
from moldau.transport.access import open_admin
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.records.builder import build_batch

TIMEOUT_S = 60
LAST_THAT_DOES_NOT_JOIN = 11

Run = Callable[..., str]


def run_against(servers: str, *arguments: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "moldau.cli.main", "transactions", *arguments, "-b", servers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture
def run(moldau_cluster: Cluster) -> Run:
    return lambda *arguments, code=0: run_against(moldau_cluster.bootstrap_servers, *arguments, code=code)


@pytest.fixture
def copier(moldau_cluster: Cluster) -> Iterator[tuple[str, str]]:
    """A transactional id, and the topic on whose two partitions its transaction is open."""
    topic = moldau_cluster.topic("copied", partitions=2)
    transactional_id = f"{topic}-copier"
    producer = Producer({"bootstrap.servers": moldau_cluster.bootstrap_servers, "transactional.id": transactional_id})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    errors: list[object] = []
    for partition in (0, 1):
        producer.produce(topic, b"v", partition=partition, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    assert errors == [None, None]
    yield transactional_id, topic
    producer.purge()


def test_what_is_open_is_listed_and_described(run: Run, copier: tuple[str, str]) -> None:
    transactional_id, topic = copier
    (listed,) = json.loads(run("list", "--state", "Ongoing", "--regex", f"{topic}.*", "--json"))
    assert (listed["transactional_id"], listed["state"], listed["coordinator"]) == (transactional_id, "Ongoing", 1)
    assert json.loads(run("list", "--longer-than", "1d", "--json")) == []
    assert json.loads(run("list", "--producer-id", str(listed["producer_id"]), "--json")) == [listed]
    described = json.loads(run("describe", transactional_id, "--json"))
    assert described["state"] == "Ongoing"
    assert described["timeout_ms"] == 60_000
    assert 0 <= described["open_ms"] < 60_000
    assert described["partitions"] == [{"topic": topic, "partition": index} for index in (0, 1)]
    assert "open for" in run("describe", transactional_id)
    assert "unknown transactional id" in run("describe", "nobody", code=1)


def test_a_transaction_that_has_ended_is_open_for_no_time(run: Run, moldau_cluster: Cluster) -> None:
    """The coordinator remembers the start of an id's last transaction."""
    topic = moldau_cluster.topic("ended")
    settings = {"bootstrap.servers": moldau_cluster.bootstrap_servers}
    idle, ended = (Producer(settings | {"transactional.id": f"{topic}-{name}"}) for name in ("idle", "ended"))
    idle.init_transactions(TIMEOUT_S)
    ended.init_transactions(TIMEOUT_S)
    ended.begin_transaction()
    ended.produce(topic, b"v")
    ended.commit_transaction(TIMEOUT_S)
    described = json.loads(run("describe", f"{topic}-ended", "--json"))
    assert (described["state"], described["open_ms"]) == ("CompleteCommit", None)
    assert "open for" not in run("describe", f"{topic}-ended")
    assert json.loads(run("list", "--longer-than", "0s", "--regex", f"{topic}.*", "--json")) == []
    asked = ("list", "--longer-than", "0s", "--state", "CompleteCommit", "--regex", f"{topic}.*", "--json")
    assert [row["transactional_id"] for row in json.loads(run(*asked))] == [f"{topic}-ended"]


def test_a_transaction_that_its_coordinator_will_end_does_not_hang(run: Run, copier: tuple[str, str]) -> None:
    _, topic = copier
    assert json.loads(run("find-hanging", topic, "--longer-than", "0s", "--json")) == []


def test_a_transaction_is_aborted_by_its_id(run: Run, copier: tuple[str, str]) -> None:
    transactional_id, _ = copier
    assert run("abort", transactional_id) == f"{transactional_id}: aborted\n"
    described = json.loads(run("describe", transactional_id, "--json"))
    assert (described["open_ms"], described["partitions"]) == (None, [])
    run("abort", "nobody", code=1)
    assert "name a transactional id, or" in run("abort", code=1)


def test_a_transaction_that_nobody_will_end_is_found_and_ended_by_hand() -> None:
    with Cluster(settings={"transaction.partition.verification.enable": "false"}) as cluster:
        servers, topic = cluster.bootstrap_servers, cluster.topic("hanging")
        batch = build_batch(
            [(None, b"v", 1_000, ())], producer_id=77, producer_epoch=0, base_sequence=0, is_transactional=True
        )
        data = (TopicProduceData(name=topic, partition_data=(PartitionProduceData(0, batch),)),)
        request = ProduceRequest(transactional_id="gone", acks=-1, timeout_ms=30_000, topic_data=data)
        cluster.produce(topic, b"before")
        with open_admin(ClusterAccess(servers, client_id="test")) as admin:
            response = admin.connection_to(1).request(request, max_version=LAST_THAT_DOES_NOT_JOIN)
        assert response.responses[0].partition_responses[0].error_code == 0
        (found,) = json.loads(run_against(servers, "find-hanging", "--json"))
        assert (found["topic"], found["partition"], found["start_offset"], found["producer_id"]) == (topic, 0, 1, 77)
        abort = ("abort", "--partition", f"{topic}:0", "--start-offset")
        assert "begins at 0" in run_against(servers, *abort, "0", code=1)
        assert run_against(servers, *abort, "1") == f"{topic}-0: aborted\n"
        assert json.loads(run_against(servers, "find-hanging", "--json")) == []
