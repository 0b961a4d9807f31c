"""The cluster works while controller listeners are flooded, hold silent connections, or do not answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from moldau.wire.protocol.messages.broker_lifecycle import BrokerHeartbeatRequest
from moldau.wire.protocol.messages.cluster import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumTopic,
)
from tests.support.cluster_of_three import (
    NODE_IDS,
    PARTITIONS,
    WAIT_S,
    ClusterOfThree,
    cluster_of_three,
    moldau_command,
)
from tests.support.wire import Closed, RawConnection

MUTE_CONNECTIONS = 100
"""The number per controller."""
QUESTION = DescribeQuorumRequest((DescribeQuorumTopic("__cluster_metadata", (DescribeQuorumPartition(0),)),))
STALE_HEARTBEAT = BrokerHeartbeatRequest(broker_id=1, broker_epoch=0)
RUBBISH = b"GET / HTTP/1.1\r\n\r\n" * 100


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_flood_at_the_controllers_stops_nobody(tmp_path: Path) -> None:
    with cluster_of_three(tmp_path, dict.fromkeys(NODE_IDS, moldau_command)) as cluster:
        cluster.create_topic()
        with ExitStack() as held:
            for address in cluster.bootstrap_controllers.split(","):
                for _ in range(MUTE_CONNECTIONS):
                    held.enter_context(RawConnection(address))
                held.enter_context(flood(partial(ask_until_closed, address)))
                held.enter_context(flood(partial(say_rubbish, address)))
            written = go_on(cluster, "flooded")
            cluster.kill(1)
            written += go_on(cluster, "without-1")
            cluster.start(1)
            cluster.wait_in_sync()
        assert sorted(cluster.read_all(len(written))) == sorted(written)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_controller_that_does_not_answer_stops_nobody(tmp_path: Path) -> None:
    with cluster_of_three(tmp_path, dict.fromkeys(NODE_IDS, moldau_command)) as cluster:
        cluster.create_topic()
        written: list[str] = []
        for node_id in NODE_IDS:
            with cluster.standing_still(node_id):
                written += go_on(cluster, f"still-{node_id}")
            cluster.wait_in_sync()
        assert sorted(cluster.read_all(len(written))) == sorted(written)


def go_on(cluster: ClusterOfThree, tag: str) -> list[str]:
    """Records are acknowledged, and the controller decides; gives the records."""
    written = cluster.produce(tag, 500)
    assert len(cluster.replicas_of_new_topic(f"made-{tag}", factor=2)) == PARTITIONS
    return written


@contextmanager
def flood(wave: Callable[[], None]) -> Iterator[None]:
    """One thread that repeats it again and again; a killed node refuses connections meanwhile."""
    has_to_stop = threading.Event()
    waves: list[int] = []

    def go() -> None:
        while not has_to_stop.is_set():
            try:
                wave()
                waves.append(1)
            except OSError:
                has_to_stop.wait(0.05)

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield
    finally:
        has_to_stop.set()
        thread.join(WAIT_S)
    assert waves


def ask_until_closed(address: str) -> None:
    """Sends requests, and heartbeats of a broker with an old epoch, as fast as responses come."""
    requests: Sequence[tuple[object, int]] = [(QUESTION, 2), (STALE_HEARTBEAT, 0)] * 200
    with RawConnection(address) as connection:
        try:
            for request, version in requests:
                connection.ask(request, version)
        except Closed:
            return


def say_rubbish(address: str) -> None:
    with RawConnection(address) as connection:
        try:
            connection.send(RUBBISH)
            connection.assert_closed()
        except Closed:
            return
