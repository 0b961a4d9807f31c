"""Kinds of work and of trouble that only some seeds have.

Whether a seed has a kind, and all that the kind draws, comes from streams that bear its name: a new kind changes no
draw of the others. `python -m moldau.simulation --seeds 1..300 --with directories` runs only the seeds that have it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

SHARES = {
    "crashes in renames": 0.3,
    "directories": 0.4,
    "epochs": 0.4,
    "failed flushes": 0.6,
    "flipped bits": 0.3,
    "large batches": 0.15,
    "late cleaning": 0.3,
    "quotas": 0.3,
    "questions": 0.3,
    "refusals": 0.1,
    "retention by bytes": 0.4,
    "sessions": 0.5,
    "snapshots": 0.6,
    "times": 0.4,
}
"""By kind the share of the seeds that have it."""


def has_kind(seed: int, kind: str) -> bool:
    """Whether the story of `seed` has `kind`, one of SHARES."""
    return Random(f"{seed}/has {kind}").random() < SHARES[kind]


def kind_random(seed: int, kind: str) -> Random:
    """What `kind` draws from."""
    return Random(f"{seed}/{kind}")


def directory_path(place: int) -> str:
    """What clients know the log directory by."""
    return f"/directory-{place}"


def settings_of(below: Callable[[int], int]) -> dict[str, str]:
    """The broker's settings of a seed: small, so that rolls, checkpoints and retention happen within seconds."""

    def choose(*values: int | str) -> str:
        return str(values[below(len(values))])

    settings = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://broker:9092",
        "offsets.topic.num.partitions": choose(1, 2),
        "group.initial.rebalance.delay.ms": choose(0, 500),
        "log.flush.offset.checkpoint.interval.ms": choose(500, 5_000, 60_000),
        "log.flush.start.offset.checkpoint.interval.ms": choose(500, 5_000),
        "replica.high.watermark.checkpoint.interval.ms": choose(500, 5_000),
        "log.retention.check.interval.ms": choose(1_000, 3_000),
        "log.initial.task.delay.ms": choose(100, 1_000),
        "auto.create.topics.enable": "false",
        "log.cleaner.backoff.ms": choose(200, 1_000),
        "log.cleaner.dedupe.buffer.size": choose(2_000, 1_000_000),
        "offsets.retention.minutes": str(OFFSETS_RETENTION_MINUTES),
        "offsets.retention.check.interval.ms": "20000",
        "moldau.record.validation": choose("header", "header", "full"),
        "moldau.connection.pending.responses": choose(1, 3, 64),
        "moldau.connection.pending.response.bytes": choose(100, 8_388_608),
        "moldau.connection.high.water.bytes": choose(500, 20_000, 1_048_576),
        "moldau.parked.fetches": choose(1, 2, 10_000),
        "moldau.open.files": choose(16, 4_096),
    }
    if below(2):
        settings["log.flush.interval.messages"] = "1"
    return settings


def kind_settings(seed: int) -> dict[str, str]:
    """What the kinds of `seed` add to its settings."""
    settings: dict[str, str] = {}
    if has_kind(seed, "snapshots"):
        random = kind_random(seed, "snapshots")
        settings["metadata.log.max.record.bytes.between.snapshots"] = str(random.choice((500, 2_000, 1 << 20)))
        settings["metadata.log.max.snapshot.interval.ms"] = str(random.choice((1_000, 5_000)))
        settings["metadata.max.retention.bytes"] = str(random.choice((0, 100 << 20)))
        settings["metadata.log.segment.ms"] = str(random.choice((3_000, 604_800_000)))
    if has_kind(seed, "sessions"):
        random = kind_random(seed, "sessions")
        settings["max.incremental.fetch.session.cache.slots"] = str(random.choice((1, 3, 1_000)))
    if has_kind(seed, "refusals"):
        settings["auto.create.topics.enable"] = "true"
        settings["max.connections.per.ip.overrides"] = f"{CROWD}:{CROWD_LIMIT}"
        # less than this may be given to no running broker, whatever else is changed
        settings["log.cleaner.dedupe.buffer.size"] = str(2 << 20)
    if has_kind(seed, "large batches"):
        settings["moldau.request.memory.bytes"] = settings["moldau.response.memory.bytes"] = "1048576"
    if has_kind(seed, "quotas"):
        random = kind_random(seed, "quotas")
        settings["quota.window.num"] = str(random.choice((2, 11)))
        settings["controller.quota.window.num"] = "2"
    return settings


CROWD, CROWD_LIMIT = "crowd", 2
"""An address, and how many of its connections are served."""
OFFSETS_RETENTION_MINUTES = 5
"""Longer than any story lasts, so that nothing expires before its end."""
