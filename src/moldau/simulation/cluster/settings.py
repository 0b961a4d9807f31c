"""The settings that a seed draws for its cluster: the number of nodes, and their settings."""

from __future__ import annotations

import enum

from moldau.core.config.broker_settings import LEADER_ONLY, RACK_AWARE
from moldau.simulation.client import PORT
from moldau.simulation.kinds import random_of
from moldau.wire.protocol.jaas import PLAIN_MODULE

CONTROLLER_PORT = 9093
REPLICAS = 3
RACKS = 2
SEPARATE_SHARE = 0.7
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
    "log.retention.check.interval.ms": (1_000, 5_000),
    "controller.quorum.auto.join.enable": ("false", "true"),
    "replica.selector.class": (LEADER_ONLY, RACK_AWARE, RACK_AWARE),
    "log.cleaner.backoff.ms": (200, 2_000),
    "log.cleaner.dedupe.buffer.size": (2_000, 1_000_000),
}
"""Small values, so that events that usually take minutes occur within seconds."""
METADATA_LOGS: tuple[dict[str, str], ...] = (
    {},
    {"metadata.log.max.record.bytes.between.snapshots": "2000"},
    {
        "metadata.log.max.record.bytes.between.snapshots": "1000",
        "metadata.log.segment.ms": "500",
        "metadata.max.retention.bytes": "0",
    },
)
"""Default settings; with snapshots; cleaned so often that a node that was away needs a snapshot."""


FIRST_SEED_WITH_TOKENS = 41
"""Token records move the metadata log and everything that follows. Earlier seeds are those recorded for planted
bugs."""
TOKENS_SHARE = 0.5
TOKENS_LISTENER = "TOKENS"
TOKENS_PORT = 9094
OWNER, OWNER_PASSWORD = "alice", "of-alice"

BROKER, CONTROLLER = "broker", "controller"
BOTH = f"{BROKER},{CONTROLLER}"
SEPARATE_ROLES = {
    4: (BROKER, BOTH, BOTH, CONTROLLER),
    5: (BROKER, BROKER, BOTH, CONTROLLER, CONTROLLER),
}
"""The roles by the number of nodes: three brokers and three controllers."""


class Voters(enum.Enum):
    """Who changes the voters of the quorum. At first all controllers are voters."""

    CONFIGURED = "nobody: the settings name them"
    CHANGED = "the administrator takes them away and adds them"
    REPLACED = "disks are lost: a voter with a new one takes the place of the old one"


def voters_of(seed: int) -> Voters:
    return random_of(seed, "voters").choice((Voters.CONFIGURED, Voters.CONFIGURED, Voters.CHANGED, Voters.REPLACED))


def fewest_replicas_of(seed: int) -> int:
    """The smallest number of replicas of the careless topic, at its creation and after each move; REPLICAS is the
    largest."""
    return random_of(seed, "fewest replicas").choice((1, 2, REPLICAS))


def node_ids_of(seed: int) -> tuple[int, ...]:
    return tuple(range(1, 1 + random_of(seed, "nodes").choice((3, 3, 3, 4, 5))))


def roles_of(seed: int) -> dict[int, str]:
    """The roles of each node. Most clusters of more than three nodes have some nodes with a single role."""
    node_ids = node_ids_of(seed)
    is_separate = len(node_ids) in SEPARATE_ROLES and random_of(seed, "roles").random() < SEPARATE_SHARE
    roles = SEPARATE_ROLES[len(node_ids)] if is_separate else (BOTH,) * len(node_ids)
    return dict(zip(node_ids, roles, strict=True))


def brokers_of(seed: int) -> tuple[int, ...]:
    return tuple(node_id for node_id, roles in roles_of(seed).items() if BROKER in roles)


def controllers_of(seed: int) -> tuple[int, ...]:
    return tuple(node_id for node_id, roles in roles_of(seed).items() if CONTROLLER in roles)


def host_of(node_id: int) -> str:
    return f"node-{node_id}"


def rack_of(node_id: int) -> str:
    return f"rack-{node_id % RACKS}"


def has_tokens(seed: int) -> bool:
    """Whether a client of this story uses delegation tokens."""
    return seed >= FIRST_SEED_WITH_TOKENS and random_of(seed, "has tokens").random() < TOKENS_SHARE


def _settings_of_tokens(seed: int, host: str, roles: str) -> dict[str, str]:
    """Delegation tokens, and an additional listener of each broker, because a listener without logins issues no
    tokens."""
    settings = {
        "delegation.token.secret.key": "a secret of the cluster",
        "delegation.token.expiry.check.interval.ms": str(
            random_of(seed, "checks of tokens").choice((500, 5_000, 3_600_000))
        ),
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{TOKENS_LISTENER}:SASL_PLAINTEXT",
    }
    if BROKER in roles.split(","):
        user = f'username="node" password="of-node" user_node="of-node" user_{OWNER}="{OWNER_PASSWORD}"'
        settings |= {
            "listeners": f"{TOKENS_LISTENER}://{host}:{TOKENS_PORT}",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            f"listener.name.{TOKENS_LISTENER.lower()}.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {user};",
        }
    return settings


def settings_of(seed: int, node_id: int) -> dict[str, str]:
    """The settings of a node. All nodes have the same, except for their identity."""
    host, roles = host_of(node_id), roles_of(seed)[node_id]
    points = {BROKER: f"PLAINTEXT://{host}:{PORT}", CONTROLLER: f"CONTROLLER://{host}:{CONTROLLER_PORT}"}
    drawn = {name: str(random_of(seed, f"setting {name}").choice(choices)) for name, choices in CHOICES.items()}
    drawn |= random_of(seed, "metadata log").choice(METADATA_LOGS)
    everybody = [(one, f"{host_of(one)}:{CONTROLLER_PORT}") for one in controllers_of(seed)]
    if voters_of(seed) is Voters.CONFIGURED:
        drawn["controller.quorum.voters"] = ",".join(f"{one}@{address}" for one, address in everybody)
    else:
        drawn["controller.quorum.bootstrap.servers"] = ",".join(address for _, address in everybody)
    of_tokens = _settings_of_tokens(seed, host, roles) if has_tokens(seed) else {}
    listeners = [points[role] for role in roles.split(",")] + [of_tokens.pop("listeners", "")]
    return (
        drawn
        | of_tokens
        | {
            "node.id": str(node_id),
            "process.roles": roles,
            "listeners": ",".join(filter(None, listeners)),
            "broker.rack": rack_of(node_id),
            "auto.create.topics.enable": "false",
            "broker.heartbeat.interval.ms": str(int(drawn["broker.session.timeout.ms"]) // 4),
            "offsets.topic.replication.factor": str(REPLICAS),
            "transaction.state.log.replication.factor": str(REPLICAS),
            "transaction.state.log.min.isr": str(REPLICAS - 1),
            "min.insync.replicas": str(REPLICAS - 1),
        }
    )


def is_flushed(settings: dict[str, str]) -> bool:
    """Whether acknowledged records are on the disks."""
    return settings["log.flush.interval.messages"] == "1"
