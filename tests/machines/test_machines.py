"""Nodes on separate machines, started from files like those of Apache Kafka's documentation."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.machines.network import Machine, Machines, why_not
from tests.support.running_broker import RunningBroker

CLIENT = str(Path(__file__).with_name("client.py"))
NAMES = ("kt1", "kt2", "kt3")
VOTERS = "controller.quorum.voters=1@kt1:9093,2@kt2:9093,3@kt3:9093"
SHORT = "replica.lag.time.max.ms=4000\nbroker.session.timeout.ms=4000\nbroker.heartbeat.interval.ms=500"
"""A cut is noticed while a test waits for it."""


def combined(node_id: int) -> str:
    """A combined node: as `config/server.properties`, with the voters of three nodes."""
    return "\n".join(
        (
            "process.roles=broker,controller",
            f"node.id={node_id}",
            VOTERS,
            "listeners=PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            SHORT,
        )
    )


def controller_apart() -> str:
    """As `config/controller.properties`."""
    return "\n".join(
        (
            "process.roles=controller",
            "node.id=1",
            "controller.quorum.bootstrap.servers=kt1:9093",
            "listeners=CONTROLLER://:9093",
            "controller.listener.names=CONTROLLER",
            SHORT,
        )
    )


def broker_apart(node_id: int) -> str:
    """As `config/broker.properties`."""
    return "\n".join(
        (
            "process.roles=broker",
            f"node.id={node_id}",
            "controller.quorum.bootstrap.servers=kt1:9093",
            "listeners=PLAINTEXT://:9092",
            "inter.broker.listener.name=PLAINTEXT",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            SHORT,
        )
    )


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with Machines(tmp_path, *NAMES) as made:
        yield made


def ask(machine: Machine, *words: str, servers: str = "kt2:9092") -> str:
    """See tests/machines/client.py."""
    return machine.run(sys.executable, CLIENT, servers, *words, timeout_s=120)


def start_three(machines: Machines) -> list[RunningBroker]:
    return [machines[name].start_node(combined(number)) for number, name in enumerate(NAMES, 1)]


@pytest.mark.slow
def test_brokers_without_a_host_in_listeners_find_each_other(machines: Machines) -> None:
    start_three(machines)
    ask(machines["kt1"], "create", "orders", "6", "3")
    ask(machines["kt1"], "in-sync", "orders", "6", "3")
    for name in NAMES:  # each reports the same of itself as of the others
        assert ask(machines["kt1"], "brokers", "3", servers=f"{name}:9092") == "kt1:9092 kt2:9092 kt3:9092\n"


@pytest.mark.slow
def test_brokers_find_each_other_and_a_controller_apart(machines: Machines) -> None:
    machines["kt1"].start_node(controller_apart(), "--standalone")
    for number, name in ((2, "kt2"), (3, "kt3")):
        machines[name].start_node(broker_apart(number))
    ask(machines["kt1"], "create", "orders", "4", "2")
    ask(machines["kt1"], "in-sync", "orders", "4", "2")


@pytest.mark.slow
def test_a_link_that_is_cut_one_way_loses_no_acknowledged_record(machines: Machines) -> None:
    nodes = start_three(machines)
    ask(machines["kt1"], "create", "orders", "3", "3")
    ask(machines["kt1"], "in-sync", "orders", "3", "3")
    ask(machines["kt1"], "produce", "orders", "0", "1000")
    # kt3 may lead a partition while the controller is at kt2. The controller then elects another leader, but kt3 cannot
    # learn of it. librdkafka may ask only kt3 for metadata, and waits until the link works, as with Apache Kafka.
    machines.cut("kt3", "kt2")
    with ThreadPoolExecutor() as pool:
        producing = pool.submit(ask, machines["kt1"], "produce", "orders", "1000", "1000")
        ask(machines["kt1"], "out-of-sync", "orders", "3", servers="kt1:9092")
        machines.heal()
        producing.result()
    ask(machines["kt3"], "in-sync", "orders", "3", "3")
    ask(machines["kt3"], "produce", "orders", "2000", "1000")
    ask(machines["kt1"], "read", "orders", "3000")
    assert not [line for node in nodes for line in node.output if "Traceback" in line]


@pytest.mark.slow
def test_a_broker_at_the_address_of_another_says_that_it_fetches_from_itself(machines: Machines) -> None:
    nodes = [
        machines[name].start_node(f"{combined(number)}\nadvertised.listeners=PLAINTEXT://localhost:9092")
        for number, name in enumerate(NAMES, 1)
    ]
    ask(machines["kt1"], "create", "orders", "3", "3", servers="kt1:9092")
    for number, node in enumerate(nodes, 1):
        node.wait_until_told(f"broker {number} fetches from itself and copies nothing")
