"""The directory of a cluster on one machine: created at the first start, kept at later ones, and rejected layouts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moldau.cli.nodes.local_cluster.layout import LocalNode, brokers_in, lay_out, move_formed
from moldau.cli.output import CommandError
from moldau.core.config.properties import parse_properties
from moldau.core.metadata.image import BrokerListener
from moldau.core.metadata.snapshot import METADATA_DIRECTORY, snapshot_file_name
from moldau.shell.io.clock import SystemClock
from moldau.shell.io.disk import OsDisk
from moldau.shell.io.host_name import host_name
from moldau.shell.io.random import SystemRandom
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.node.storage_format import format_directory, read_meta_properties
from moldau.types import BrokerId, Offset


@contextmanager
def laid_out(directory: Path, brokers: int = 3, host: str = "127.0.0.1", **settings: str) -> Iterator[list[LocalNode]]:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    nodes = lay_out(directory, brokers, host, 0, named, SystemClock(), SystemRandom())
    yield nodes
    for node in nodes:
        for held in node.held:
            held.close()


def settings_of(directory: Path, node_id: int) -> dict[str, str]:
    return parse_properties((directory / f"node-{node_id}.properties").read_text())


def identity(directory: Path, node_id: int) -> tuple[int, str]:
    properties = read_meta_properties(OsDisk(str(directory / f"node-{node_id}")))
    assert properties is not None
    return properties.node_id, properties.cluster_id


def first_voters(directory: Path, node_id: int) -> Path:
    """The voters of a node that existed when the quorum was formed."""
    return directory / f"node-{node_id}" / METADATA_DIRECTORY / snapshot_file_name(Offset(0), 0)


def test_all_nodes_belong_to_one_cluster_and_each_has_its_own_directory_and_ports(tmp_path: Path) -> None:
    with laid_out(tmp_path, num_partitions="5") as nodes:
        assert [identity(tmp_path, node_id)[0] for node_id in (1, 2, 3)] == [1, 2, 3]
        assert len({identity(tmp_path, node_id)[1] for node_id in (1, 2, 3)}) == 1
        for node in nodes:
            settings = settings_of(tmp_path, node.node_id)
            assert settings["node.id"] == str(node.node_id)
            assert settings["listeners"].startswith(f"PLAINTEXT://{node.address},CONTROLLER://127.0.0.1:")
            assert settings["num.partitions"] == "5"
            assert (settings["default.replication.factor"], settings["min.insync.replicas"]) == ("3", "2")
        assert len({node.address for node in nodes}) == 3
        assert brokers_in(tmp_path) == 3


def test_controllers_keep_their_ports_and_the_cluster_its_id(tmp_path: Path) -> None:
    with laid_out(tmp_path):
        cluster_id, controllers = identity(tmp_path, 1)[1], settings_of(tmp_path, 1)
    with laid_out(tmp_path):
        kept = settings_of(tmp_path, 1)
        assert identity(tmp_path, 1)[1] == cluster_id
    name = "controller.quorum.bootstrap.servers"
    assert kept[name] == controllers[name]


def test_an_interrupted_format_starts_again_and_a_complete_one_is_finished(tmp_path: Path) -> None:
    half = tmp_path / "forming" / "node-1"
    half.mkdir(parents=True)
    with laid_out(tmp_path):
        assert brokers_in(tmp_path) == 3
    (tmp_path / "forming").mkdir()
    (tmp_path / "node-3").rename(tmp_path / "forming" / "node-3")
    with laid_out(tmp_path):
        assert identity(tmp_path, 3)[1] == identity(tmp_path, 1)[1]


@pytest.mark.parametrize("seed", range(8))
def test_a_loss_of_power_takes_no_log_directory_its_name(seed: int) -> None:
    """A start removes everything under `forming`, and the nodes have written acknowledged records since."""
    disk = MemoryDisk()
    disk.make_directory("forming/node-1")
    disk.replace_file("forming/node-1/meta.properties", b"version=1")
    disk.flush_directory("forming")
    disk.flush_directory("")
    move_formed(disk)
    disk.crash_machine(SeededRandom(seed))
    assert disk.read_file("node-1/meta.properties") == b"version=1"


def test_fewer_brokers_are_refused_and_more_of_them_join_the_cluster(tmp_path: Path) -> None:
    with laid_out(tmp_path):
        pass
    with pytest.raises(CommandError, match="holds a cluster of 3 brokers"), laid_out(tmp_path, 2):
        pass
    with laid_out(tmp_path, 4):
        assert identity(tmp_path, 4) == (4, identity(tmp_path, 1)[1])
        assert not first_voters(tmp_path, 4).exists()


def test_a_node_that_lost_its_directory_joins_as_a_new_one(tmp_path: Path) -> None:
    with laid_out(tmp_path):
        assert first_voters(tmp_path, 2).exists()
    shutil.rmtree(tmp_path / "node-2")
    with laid_out(tmp_path):
        assert identity(tmp_path, 2) == (2, identity(tmp_path, 1)[1])
        assert not first_voters(tmp_path, 2).exists()


def test_the_directory_of_a_node_that_is_alone_is_refused(tmp_path: Path) -> None:
    listener = BrokerListener("CONTROLLER", "localhost", 9093)
    disk = OsDisk(str(tmp_path))
    format_directory(disk, SystemRandom(), now_ms=1, node_id=BrokerId(1), controller_listener=listener)
    with pytest.raises(CommandError, match="a node that is alone"), laid_out(tmp_path):
        pass


def test_what_each_node_has_of_its_own_cannot_be_set_for_all(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"node\.id is not yours to set"), laid_out(tmp_path, node_id="7"):
        pass


def test_ports_that_are_none_are_refused(tmp_path: Path) -> None:
    told = "3 brokers from port 65534 on would need ports beyond 65535"
    with pytest.raises(CommandError, match=told):
        lay_out(tmp_path, 3, "127.0.0.1", 65534, {}, SystemClock(), SystemRandom())


def test_a_port_that_another_program_has_is_named_with_its_node(tmp_path: Path) -> None:
    with laid_out(tmp_path) as nodes:
        nodes[0].held[0].listen()
        port = int(nodes[0].address.rpartition(":")[2])
        with pytest.raises(CommandError, match=f"port {port} on 127.0.0.1, of node 1, cannot be had"):
            lay_out(tmp_path, 3, "127.0.0.1", port, {}, SystemClock(), SystemRandom())


@pytest.mark.parametrize("left", ["", "node.id=2\nlisten"])
def test_a_file_of_settings_that_was_cut_off_is_named(tmp_path: Path, left: str) -> None:
    with laid_out(tmp_path):
        pass
    config = tmp_path / "node-2.properties"
    config.write_text(left)
    with pytest.raises(CommandError, match=r"node-2\.properties does not say where its controller listens"):
        lay_out(tmp_path, 3, "127.0.0.1", 0, {}, SystemClock(), SystemRandom())
    assert config.read_text() == left


@pytest.mark.parametrize(
    ("given", "each"),
    [
        ("0.0.0.0:9644", ["0.0.0.0:9644", "0.0.0.0:9645", "0.0.0.0:9646"]),
        ("[::1]:9644+", ["[::1]:9644+", "[::1]:9645+", "[::1]:9646+"]),
        ("127.0.0.1:0", ["127.0.0.1:0"] * 3),
    ],
)
def test_one_setting_gives_each_node_a_port_for_its_metrics(tmp_path: Path, given: str, each: list[str]) -> None:
    with laid_out(tmp_path, moldau_http_listener=given):
        assert [settings_of(tmp_path, node_id)["moldau.http.listener"] for node_id in (1, 2, 3)] == each


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_brokers_at_every_interface_are_advertised_with_the_name_of_the_machine(tmp_path: Path, host: str) -> None:
    with laid_out(tmp_path, host=host) as nodes:
        for node in nodes:
            settings = settings_of(tmp_path, node.node_id)
            assert settings["listeners"].startswith(f"PLAINTEXT://{host}:")
            assert settings["advertised.listeners"] == f"PLAINTEXT://{node.address}"
            name, _, port = node.address.rpartition(":")
            assert (name.strip("[]"), port) == (host_name(), node.bound.rpartition(":")[2])


def test_an_advertised_listener_is_that_of_node_1_and_the_others_have_the_next_ports(tmp_path: Path) -> None:
    with laid_out(tmp_path, host="0.0.0.0", advertised_listeners="PLAINTEXT://public.example:19092") as nodes:
        assert [node.address for node in nodes] == [f"public.example:{port}" for port in (19092, 19093, 19094)]
    for refused in ("OTHER://h:1", "PLAINTEXT://h:65534"):
        with pytest.raises(CommandError), laid_out(tmp_path, advertised_listeners=refused):
            pass
