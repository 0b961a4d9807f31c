"""moldau.testing.Cluster: runs in the process, several at once, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import os
import pydoc
import re
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

import moldau.testing
from moldau.errors import InvariantError, MoldauError
from moldau.testing import Cluster
from tests.unit.testing.clients import make_consumer


def write(cluster: Cluster, topic: str, value: bytes) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors == [None]


def read(cluster: Cluster, topic: str) -> bytes:
    consumer = make_consumer(cluster, "g")
    consumer.subscribe([topic])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    assert not message.error(), message.error()
    return message.value()


def test_several_clusters_at_once_know_nothing_of_each_other() -> None:
    with Cluster() as one, Cluster() as two:
        assert one.bootstrap_servers != two.bootstrap_servers
        write(one, "t", b"of one")
        write(two, "t", b"of two")
        assert read(one, "t") == b"of one"
        assert read(two, "t") == b"of two"


def test_a_data_directory_is_opened_again(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path) as cluster:
        write(cluster, "t", b"kept")
    with Cluster(data_dir=tmp_path) as cluster:
        assert read(cluster, "t") == b"kept"


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path), pytest.raises(MoldauError):
        Cluster(data_dir=tmp_path).start()


def test_a_broker_that_breaks_a_rule_of_its_own_fails_whoever_stops_it() -> None:
    cluster = Cluster().start()
    runtime = cluster._members[1].runtime

    async def break_a_rule() -> None:
        raise InvariantError("offsets out of order")

    runtime.call(lambda: cluster.node.broker.spawn(break_a_rule()))
    cluster.wait_for(lambda: not cluster.is_running)
    with pytest.raises(InvariantError, match="offsets out of order"):
        cluster.stop()
    cluster.stop()  # it is over


def test_help_lists_the_classes_of_the_kit() -> None:
    page = pydoc.plain(pydoc.render_doc(moldau.testing))
    shown = set(re.findall(r"^    (?:class )?(\w+)\(", page, re.MULTILINE))
    assert set(moldau.testing.__all__) <= shown


def test_settings_are_kafkas_and_checked() -> None:
    with Cluster(settings={"num.partitions": "4"}) as cluster:
        write(cluster, "t", b"v")
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})
        assert len(consumer.list_topics("t", timeout=30).topics["t"].partitions) == 4
        consumer.close()
    with pytest.raises(MoldauError, match=r"num\.partitions"):
        Cluster(settings={"num.partitions": "0"})


def test_an_address_is_only_had_while_it_runs() -> None:
    cluster = Cluster()
    with pytest.raises(MoldauError, match="not running"):
        _ = cluster.bootstrap_servers
    with cluster:
        assert cluster.bootstrap_servers
    with pytest.raises(MoldauError, match="not running"):
        _ = cluster.bootstrap_servers
    cluster.stop()


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc, which only Linux has")
def test_many_starts_and_stops_leak_no_descriptor_and_no_thread(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path / "first"):
        pass
    gc.collect()
    descriptors, threads = open_descriptors(), threading.active_count()
    for number in range(100):
        with Cluster(data_dir=tmp_path / str(number) if number % 2 else None):
            pass
    gc.collect()
    assert open_descriptors() == descriptors
    assert threading.active_count() == threads


def test_the_hosts_event_loop_is_left_alone() -> None:
    async def host() -> bytes:
        before = asyncio.get_running_loop()
        with Cluster() as cluster:
            # The host blocks its own loop; the broker has another one.
            write(cluster, "t", b"blocked")
            assert asyncio.get_running_loop() is before
            return read(cluster, "t")

    assert asyncio.run(host()) == b"blocked"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is what this is about")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_hold_the_port() -> None:
    import socket

    with Cluster() as cluster:
        host, _, port = cluster.bootstrap_servers.partition(":")
        read_end, write_end = os.pipe()
        is_up_read, is_up_write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(is_up_write, b"!")
            os.close(write_end)
            os.read(read_end, 1)
            os._exit(0)
        os.close(read_end)
        # A child gives the port up when it first runs, which may be late on a busy machine.
        assert os.read(is_up_read, 1) == b"!"
        os.close(is_up_read)
        os.close(is_up_write)
    # The parent's broker is stopped and the child lives: no process may answer any more.
    with socket.socket() as probe:
        assert probe.connect_ex((host, int(port))) != 0
    os.close(write_end)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is what this is about")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_knows_the_address_and_nothing_else() -> None:
    with Cluster() as cluster:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                cluster.lag("g")
            except MoldauError as error:
                code = 0 if "parent process" in str(error) and cluster.bootstrap_servers else 2
            cluster.stop()  # does nothing, silently
            os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        write(cluster, "t", b"the parent goes on")


def test_the_fixture_is_a_running_cluster(moldau_cluster: Cluster) -> None:
    write(moldau_cluster, "fixture", b"v")
    assert read(moldau_cluster, "fixture") == b"v"
