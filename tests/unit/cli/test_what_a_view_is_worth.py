"""Commands report a cluster in trouble correctly: partitions without a leader, an old view, clocks."""

from __future__ import annotations

import json

import pytest

from moldau.cli.main import main
from moldau.client.admin.topics import create_topic, list_topics
from moldau.client.protocol.access import ClusterAccess
from moldau.products.console.cluster_state import read_state
from moldau.testing import Cluster
from moldau.transport.access import open_admin

IMPATIENT = {"broker.session.timeout.ms": 2_000, "broker.heartbeat.interval.ms": 500}

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *words: str) -> tuple[int, str, str]:
    """Exit code, standard output and error."""
    code = main(list(words))
    told = capsys.readouterr()
    return code, told.out, told.err


@pytest.mark.slow
def test_a_partition_without_a_leader_is_told_though_its_only_replica_is_in_sync(capsys: Capture) -> None:
    with Cluster(brokers=3, settings=IMPATIENT) as cluster:
        servers = cluster.bootstrap_servers
        whole = "every partition has a leader, and every replica is in sync\n"
        with open_admin(ClusterAccess(servers, client_id="test")) as admin:
            create_topic(admin, "orders", assignment=((3,), (1,)))
            assert run(capsys, "partitions", "describe", "--under-replicated", "-b", servers) == (0, "", whole)
            cluster.kill(3)
            cluster.wait_for(lambda: [row.leader_id for row in list_topics(admin)["orders"].partitions] == [-1, 1])
        command = ("partitions", "describe", "orders", "--under-replicated", "--json", "-b", servers)
        code, out, err = run(capsys, *command)
        assert (code, err) == (0, "")
        assert [(row["partition"], row["leader"]) for row in json.loads(out)] == [(0, None)]

        without = "orders-0 has no leader: broker 3 has the records, and cannot lead now (moldau brokers list)"
        for command in (("consume", "orders", "--until-end"), ("produce", "orders", "coffee", "--partition", "0")):
            code, _, err = run(capsys, *command, "-b", servers)
            assert code == 1
            assert without in err


@pytest.mark.slow
def test_a_broker_that_died_with_the_majority_of_controllers_does_not_seem_to_serve(capsys: Capture) -> None:
    with Cluster(brokers=3, settings=IMPATIENT) as cluster:
        cluster.wait_for(lambda: cluster.controller > 0)
        servers = cluster.bootstrap_servers
        own = servers.split(",")[0]
        cluster.kill(2)
        cluster.kill(3)
        command = ("brokers", "list", "--json", "-b", own)
        cluster.wait_for(lambda: "no controller answers" in run(capsys, *command)[2])
        code, out, err = run(capsys, *command)
        assert (code, [row["state"] for row in json.loads(out)]) == (0, ["serving", "no answer", "no answer"])
        code, out, err = run(capsys, "partitions", "describe", "--under-replicated", "-b", own)
        assert "no controller answers" in err
        assert code == 1
        with open_admin(ClusterAccess(own, client_id="test")) as admin:
            assert not read_state(admin, ()).has_controller  # and the console shows it
        cluster.revive()


def test_all_brokers_are_asked_for_their_clocks(capsys: Capture) -> None:
    with Cluster(brokers=3) as cluster:
        code, out, _ = run(capsys, "doctor", cluster.bootstrap_servers.split(",")[0], "--round-trip", "--json")
        clocks = [row["text"] for row in json.loads(out) if row["step"] == "clock"]
        assert code == 0
        assert [text.partition(" (")[0] for text in clocks] == ["the clocks of 3 brokers agree with this machine's"]


def test_the_advice_of_the_doctor_names_the_listeners_that_there_are(capsys: Capture) -> None:
    settings = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "advertised.listeners": "INSIDE://broker.invalid:9092,OUTSIDE://127.0.0.1:9094",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
    }
    with Cluster(settings=settings) as cluster:
        code, out, _ = run(capsys, "doctor", cluster.bootstrap_servers, "--json")
        advice = next(row["advice"] for row in json.loads(out) if row["level"] == "failed")
        assert code == 1
        wanted = f"INSIDE://{cluster.bootstrap_servers},OUTSIDE://127.0.0.1:9094"
        assert f"Set advertised.listeners={wanted} on the broker" in advice
