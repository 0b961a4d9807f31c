"""`moldau node --config FILE` runs only a node whose directory `moldau storage format` gave to a cluster."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer

from moldau.cli.main import main
from tests.support.running_broker import RunningBroker


def config_of(scratch: Path, node_id: int, directory: str) -> Path:
    path = scratch / f"node-{node_id}.properties"
    path.write_text(
        f"process.roles=broker,controller\nnode.id={node_id}\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        f"log.dirs={scratch}/{directory}\n"
    )
    return path


def run_node(config: Path) -> RunningBroker:
    return RunningBroker("--config", str(config), command="node")


def refusal_of(config: Path) -> str:
    """The one-line message of a node that does not start."""
    node = run_node(config)
    assert node.wait_until_ended() == 1
    (line,) = node.output
    return line


def test_a_formatted_node_serves_and_stops_in_order(tmp_path: Path) -> None:
    config = config_of(tmp_path, 1, "data")
    assert main(["storage", "format", "--config", str(config), "--standalone"]) == 0
    node = run_node(config).wait_until_ready()
    producer = Producer({"bootstrap.servers": node.address})
    producer.produce("events", b"one")
    assert producer.flush(30) == 0
    assert node.stop() == 0
    assert not any("console" in line for line in node.output)


def test_all_directories_of_a_node_are_told(tmp_path: Path) -> None:
    config = config_of(tmp_path, 1, "data")
    config.write_text(config.read_text().rstrip() + f",{tmp_path}/more\n")
    assert main(["storage", "format", "--config", str(config), "--standalone"]) == 0
    node = run_node(config).wait_until_ready()
    assert node.stop() == 0
    assert any(line.split()[1:] == [f"{tmp_path}/data,", f"{tmp_path}/more"] for line in node.output)


def test_a_directory_of_another_node_refuses_the_start_in_one_sentence(tmp_path: Path) -> None:
    assert main(["storage", "format", "--config", str(config_of(tmp_path, 1, "data")), "--standalone"]) == 0
    told = refusal_of(config_of(tmp_path, 2, "data"))
    assert told == f"moldau: {tmp_path}/data belongs to node 1, but node.id is 2\n"


def test_a_directory_that_belongs_to_nobody_refuses_the_start_in_one_sentence(tmp_path: Path) -> None:
    config = config_of(tmp_path, 1, "data")
    told = refusal_of(config)
    assert told.startswith(
        f"moldau: {tmp_path}/data belongs to no cluster yet: `moldau storage format --config {config}"
    )
    assert not (tmp_path / "data").exists()
