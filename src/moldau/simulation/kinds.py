"""The kinds of work and trouble that only some seeds have, and the random streams for all draws.

Streams with the name of a kind decide whether a seed has the kind, and everything that the kind draws. Each client,
setting and topic has its own stream too. So a new one changes no draw of the others. `python -m moldau.simulation
--seeds 1..300 --with directories` runs only the seeds that have that kind.
"""

from __future__ import annotations

from random import Random

WORK = {
    "directories": 0.4,
    "epochs": 0.4,
    "expired positions": 0.2,
    "flipped bits": 0.3,
    "large batches": 0.15,
    "late cleaning": 0.3,
    "long requests": 0.15,
    "pipelines": 0.4,
    "questions": 0.3,
    "quotas": 0.3,
    "refusals": 0.1,
    "retention by bytes": 0.4,
    "sessions": 0.5,
    "snapshots": 0.6,
    "times": 0.4,
    "transactions": 0.4,
}
TROUBLE = {
    "aborts": 0.2,
    "broken disks": 0.2,
    "clean restarts": 0.2,
    "clock steps": 0.2,
    "cold reads": 0.2,
    "crashes in commits": 0.5,
    "crashes in renames": 0.3,
    "cuts": 0.2,
    "failed flushes": 0.6,
    "full disks": 0.2,
    "lost snapshots": 0.5,
    "machine crashes": 0.3,
    "machine crashes inside": 0.3,
    "one-way cuts": 0.2,
    "pauses": 0.2,
    "process crashes": 0.3,
    "process crashes inside": 0.3,
    "refused markers": 0.4,
    "resets": 0.2,
    "silences": 0.2,
    "slow disks": 0.2,
    "slow links": 0.2,
    "slow readers": 0.2,
    "storms": 0.2,
    "torn connections": 0.2,
}
SHARES = WORK | TROUBLE
"""The share of seeds that have each kind. For a kind that needs another, the share of seeds with the other."""
ONLY_WITH = dict.fromkeys(("crashes in commits", "lost snapshots", "refused markers"), "transactions")
"""The kind that another one needs to have an effect."""


def has_kind(seed: int, kind: str) -> bool:
    """Whether the story of `seed` has `kind`, one of SHARES."""
    is_drawn = random_of(seed, f"has {kind}").random() < SHARES[kind]
    return is_drawn and (kind not in ONLY_WITH or has_kind(seed, ONLY_WITH[kind]))


def random_of(seed: int, name: str) -> Random:
    """The random stream for `name`: a kind, a client, a setting or a host."""
    return Random(f"{seed}/{name}")


def directory_path(place: int) -> str:
    """The path by which clients name the log directory."""
    return f"/directory-{place}"


CHOICES: dict[str, tuple[int | str, ...]] = {
    "offsets.topic.num.partitions": (1, 2),
    "group.initial.rebalance.delay.ms": (0, 500),
    "log.flush.interval.messages": (1, (1 << 63) - 1),
    "log.flush.offset.checkpoint.interval.ms": (500, 5_000, 60_000),
    "log.flush.start.offset.checkpoint.interval.ms": (500, 5_000),
    "replica.high.watermark.checkpoint.interval.ms": (500, 5_000),
    "log.retention.check.interval.ms": (1_000, 3_000),
    "log.initial.task.delay.ms": (100, 1_000),
    "log.cleaner.backoff.ms": (200, 1_000),
    "log.cleaner.dedupe.buffer.size": (2_000, 1_000_000),
    "moldau.record.validation": ("header", "header", "full"),
    "moldau.connection.pending.responses": (1, 3, 64),
    "moldau.connection.pending.response.bytes": (100, 8_388_608),
    "moldau.connection.high.water.bytes": (500, 20_000, 1_048_576),
    "moldau.parked.fetches": (1, 2, 10_000),
    "moldau.open.files": (16, 4_096),
}
"""Small values, so that segment rolls, checkpoints and retention happen within seconds."""


def settings_of(seed: int, host: str = "broker") -> dict[str, str]:
    """The settings of a node on the machine `host`."""
    settings = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://{host}:9092",
        "auto.create.topics.enable": "false",
        "offsets.retention.minutes": str(OFFSETS_RETENTION_MINUTES),
        "offsets.retention.check.interval.ms": "20000",
    }
    for name, choices in CHOICES.items():
        settings[name] = str(random_of(seed, f"setting {name}").choice(choices))
    return settings | _settings_of_kinds(seed)


def _settings_of_kinds(seed: int) -> dict[str, str]:
    """The settings for the kinds of `seed`."""
    settings: dict[str, str] = {}
    if has_kind(seed, "snapshots"):
        random = random_of(seed, "snapshots")
        settings["metadata.log.max.record.bytes.between.snapshots"] = str(random.choice((500, 2_000, 1 << 20)))
        settings["metadata.log.max.snapshot.interval.ms"] = str(random.choice((1_000, 5_000)))
        settings["metadata.max.retention.bytes"] = str(random.choice((0, 100 << 20)))
        settings["metadata.log.segment.ms"] = str(random.choice((3_000, 604_800_000)))
    if has_kind(seed, "sessions"):
        random = random_of(seed, "sessions")
        settings["max.incremental.fetch.session.cache.slots"] = str(random.choice((1, 3, 1_000)))
    if has_kind(seed, "refusals"):
        settings["auto.create.topics.enable"] = "true"
        settings["max.connections.per.ip.overrides"] = f"{CROWD}:{CROWD_LIMIT}"
        # a running broker accepts no smaller value, whatever other setting changes
        settings["log.cleaner.dedupe.buffer.size"] = str(2 << 20)
    if has_kind(seed, "large batches"):
        settings["moldau.request.memory.bytes"] = settings["moldau.response.memory.bytes"] = "1048576"
    if has_kind(seed, "transactions"):
        random = random_of(seed, "transactions")
        # an acknowledged decision survives a loss of power only if it is flushed
        settings["log.flush.interval.messages"] = "1"
        settings["transaction.state.log.num.partitions"] = str(random.choice((1, 2)))
        settings["transactional.id.expiration.ms"] = random.choice(("2000", "604800000", "604800000"))
        settings["transaction.remove.expired.transaction.cleanup.interval.ms"] = "500"
    if has_kind(seed, "quotas"):
        random = random_of(seed, "quotas")
        settings["quota.window.num"] = str(random.choice((2, 11)))
        settings["controller.quota.window.num"] = "2"
    return settings


CROWD, CROWD_LIMIT = "192.0.2.7", 2
"""An address, and the maximum number of its connections."""
OFFSETS_RETENTION_MINUTES = 5
"""Longer than any story, so that no offset expires before its end."""
