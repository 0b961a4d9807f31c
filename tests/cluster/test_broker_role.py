"""A node with only the broker role replicates the metadata and serves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.held_port import held_port, port_of
from tests.support.running_broker import RunningBroker

WAIT_S = 60
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


@pytest.mark.slow
def test_a_broker_alone_takes_replicas_and_leads_and_never_votes(tmp_path: Path) -> None:
    held = held_port()
    controller = f"127.0.0.1:{port_of(held)}"
    nodes = []
    for node_id, roles, listeners, flags in (
        (1, "broker,controller", f"PLAINTEXT://127.0.0.1:0,CONTROLLER://{controller}", ["--standalone"]),
        (2, "broker", "PLAINTEXT://127.0.0.1:0", []),
    ):
        config = tmp_path / f"node-{node_id}.properties"
        config.write_text(
            f"process.roles={roles}\nnode.id={node_id}\nlisteners={listeners}\ncontroller.listener.names=CONTROLLER\n"
            f"controller.quorum.bootstrap.servers={controller}\nlog.dirs={tmp_path}/data-{node_id}\n"
        )
        words = ["kafka-storage", "format", "-t", CLUSTER_ID, "-c", str(config), *flags]
        subprocess.run([sys.executable, "-m", "moldau.cli.main", *words], check=True, timeout=WAIT_S)
        nodes.append(RunningBroker("--config", str(config), "--no-console").wait_until_ready())
    assert any(line.startswith("Moldau") and ": broker, node 2 of a cluster" in line for line in nodes[1].output)

    address = nodes[1].address
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    admin.create_topics([NewTopic("events", 1, replica_assignment=[[2, 1]])])["events"].result(WAIT_S)
    producer = Producer({"bootstrap.servers": address, "acks": "all"})
    producer.produce("events", b"one")
    assert producer.flush(WAIT_S) == 0
    partition = admin.list_topics("events", timeout=WAIT_S).topics["events"].partitions[0]
    assert (partition.leader, sorted(partition.isrs)) == (2, [1, 2])
    consumer = Consumer({"bootstrap.servers": nodes[0].address, "group.id": "nobody"})
    consumer.assign([TopicPartition("events", 0, 0)])
    assert [message.value() for message in consumer.consume(1, WAIT_S)] == [b"one"]
    consumer.close()
    described = subprocess.run(
        [sys.executable, "-m", "moldau.cli.main", "quorum", "describe", "-b", address],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=True,
    ).stdout
    assert [line.split()[:2] for line in described.splitlines()[2:]] == [["1", "leader"], ["2", "observer"]]
    for node in reversed(nodes):
        assert node.stop() == 0
    held.close()
