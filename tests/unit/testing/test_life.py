"""moldau.testing.Cluster: killed, restarted, frozen."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from moldau.errors import MoldauError
from moldau.testing import Cluster
from tests.unit.testing.clients import make_producer


def idempotent_producer(cluster: Cluster) -> Producer:
    return make_producer(cluster, **{"reconnect.backoff.max.ms": 50, "enable.idempotence": True})


def values(cluster: Cluster, topic: str) -> list[bytes | None]:
    return [record.value for record in cluster.records(topic)]


@pytest.mark.slow
@pytest.mark.parametrize("is_on_disk", [False, True], ids=["memory", "disk"])
def test_a_producer_gets_over_kill_and_restart(tmp_path: Path, is_on_disk: bool) -> None:
    with Cluster(data_dir=tmp_path if is_on_disk else None) as cluster:
        address = cluster.bootstrap_servers
        producer = idempotent_producer(cluster)
        producer.produce("t", b"before")
        assert producer.flush(30) == 0
        cluster.kill()
        assert not cluster.is_running
        assert cluster.bootstrap_servers == address
        producer.produce("t", b"while down")
        host, _, port = address.partition(":")
        with socket.socket() as probe:
            assert probe.connect_ex((host, int(port))) != 0
        cluster.restart()
        assert producer.flush(30) == 0
        assert cluster.bootstrap_servers == address
        assert values(cluster, "t") == [b"before", b"while down"]
        cluster.restart()
        producer.produce("t", b"after a clean restart")
        assert producer.flush(30) == 0
        cluster.restart(clean=False)
        assert values(cluster, "t") == [b"before", b"while down", b"after a clean restart"]


def test_a_paused_broker_keeps_its_sockets_and_says_nothing() -> None:
    with Cluster() as cluster:
        cluster.create_topic("t")
        producer = idempotent_producer(cluster)
        producer.produce("t", b"1")
        assert producer.flush(30) == 0
        cluster.pause()
        cluster.pause()  # it is frozen already
        host, _, port = cluster.bootstrap_servers.partition(":")
        with socket.create_connection((host, int(port)), 10):
            producer.produce("t", b"2")
            assert producer.flush(0.2) == 1
            with pytest.raises(MoldauError, match="resume"):
                cluster.lag("g")
        cluster.resume()
        assert producer.flush(30) == 0
        assert values(cluster, "t") == [b"1", b"2"]


def test_a_paused_broker_can_be_killed_and_stopped() -> None:
    with Cluster() as cluster:
        cluster.produce("t", "1")
        cluster.pause()
        cluster.kill()
        with pytest.raises(MoldauError, match="restart"):
            cluster.lag("g")
        cluster.kill()  # it is dead already
        cluster.restart()
        assert values(cluster, "t") == [b"1"]
        cluster.pause()


def test_nothing_works_before_the_start_and_after_the_end() -> None:
    cluster = Cluster()
    for call in (cluster.kill, cluster.restart, cluster.pause, lambda: cluster.advance(hours=1)):
        with pytest.raises(MoldauError, match="not running"):
            call()
    cluster.start()
    cluster.stop()
    with pytest.raises(MoldauError, match="not running"):
        cluster.restart()


def test_memory_is_forgotten_by_stop_and_kept_by_restart() -> None:
    cluster = Cluster()
    with cluster:
        cluster.produce("t", "1")
        cluster.restart()
        assert values(cluster, "t") == [b"1"]
    with cluster, pytest.raises(MoldauError, match="no topic 't'"):
        cluster.records("t")


def test_a_script_that_kills_its_broker_prints_nothing() -> None:
    script = (
        "from moldau.testing import Cluster\n"
        "with Cluster() as cluster:\n"
        "    cluster.produce('t', 'x'), cluster.kill(), cluster.restart()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_a_failing_assertion_shows_is_readable() -> None:
    assert repr(Cluster()) == "<Cluster, not started>"
    with Cluster() as cluster:
        assert repr(cluster) == f"<Cluster {cluster.bootstrap_servers}>"
        fault = cluster.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER")
        assert repr(fault) == "<Fault error NOT_LEADER_OR_FOLLOWER of Produce, happened: 0>"
