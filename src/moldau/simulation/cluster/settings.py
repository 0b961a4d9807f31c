"""What a seed draws for the nodes of its cluster: how many there are, and their settings."""

from __future__ import annotations

from moldau.simulation.client import PORT
from moldau.simulation.kinds import random_of

CONTROLLER_PORT = 9093
REPLICAS = 3
CHOICES: dict[str, tuple[int | str, ...]] = {
    "broker.session.timeout.ms": (1_500, 3_000, 9_000),
    "controller.quorum.fetch.timeout.ms": (1_000, 2_000),
    "controller.quorum.election.timeout.ms": (500, 1_000),
    "replica.lag.time.max.ms": (1_000, 3_000, 30_000),
    "replica.fetch.wait.max.ms": (100, 500),
    "replica.fetch.max.bytes": (2_000, 1_048_576),
    "replica.high.watermark.checkpoint.interval.ms": (500, 5_000),
    "log.flush.interval.messages": (1, (1 << 63) - 1, (1 << 63) - 1),
    "log.flush.offset.checkpoint.interval.ms": (500, 60_000),
    "offsets.topic.num.partitions": (1, 2),
    "transaction.state.log.num.partitions": (1, 2),
    "group.initial.rebalance.delay.ms": (0, 500),
    "leader.imbalance.check.interval.seconds": (3, 10, 300),
    "metadata.log.max.record.bytes.between.snapshots": (2_000, 20 << 20),
    "metadata.log.segment.ms": (3_000, 604_800_000),
    "metadata.max.retention.bytes": (0, 100 << 20),
}
"""Small values, so that what takes minutes otherwise happens within seconds."""


def node_ids_of(seed: int) -> tuple[int, ...]:
    return tuple(range(1, 1 + random_of(seed, "nodes").choice((3, 3, 3, 4, 5))))


def host_of(node_id: int) -> str:
    return f"node-{node_id}"


def settings_of(seed: int, node_id: int) -> dict[str, str]:
    """All nodes have the same, but for who they are."""
    host = host_of(node_id)
    drawn = {name: str(random_of(seed, f"setting {name}").choice(choices)) for name, choices in CHOICES.items()}
    return drawn | {
        "node.id": str(node_id),
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://{host}:{PORT},CONTROLLER://{host}:{CONTROLLER_PORT}",
        "controller.quorum.voters": ",".join(f"{one}@{host_of(one)}:{CONTROLLER_PORT}" for one in node_ids_of(seed)),
        "auto.create.topics.enable": "false",
        "broker.heartbeat.interval.ms": str(int(drawn["broker.session.timeout.ms"]) // 4),
        "offsets.topic.replication.factor": str(REPLICAS),
        "transaction.state.log.replication.factor": str(REPLICAS),
        "transaction.state.log.min.isr": str(REPLICAS - 1),
        "min.insync.replicas": str(REPLICAS - 1),
    }


def is_flushed(settings: dict[str, str]) -> bool:
    """Whether what is acknowledged is on the disks."""
    return settings["log.flush.interval.messages"] == "1"
