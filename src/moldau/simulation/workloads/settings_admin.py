"""Changes settings of topics while everything runs, and checks that the broker remembers the acknowledged ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.simulation.checkers.group_ledger import NOTHING, CommittedOffset
from moldau.simulation.client import Client
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.client_loop import ClientLoop
from moldau.wire.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from moldau.simulation.client_world import ClientWorld

TOPIC = 2
TOPIC_SOURCE = 1
SET, DELETE = 0, 1
NO_DELETION = ("retention.ms", "segment.ms")
"""Settings that are never removed: with the default of seven days no log would expire in this world, and nothing would
test expiry."""

CHOICES = (
    ("cached", "max.message.bytes", (900_000, 1_000_012, 2_000_000)),
    ("cached", "flush.ms", (500, 5_000)),
    ("flushed", "delete.retention.ms", (0, 500)),
    ("flushed", "segment.jitter.ms", (0, 200)),
    ("expiring", "retention.ms", (2_000, 4_000, 8_000)),
    ("expiring", "segment.ms", (1_500, 3_000)),
    ("compacted", "min.compaction.lag.ms", (0, 500)),
)


class SettingValue(CommittedOffset):
    """The possible values of a topic's setting; NOTHING: not set. The metadata log is flushed before each response."""

    def read(self, offset: int) -> None:
        try:
            super().read(offset)
        except ViolationError as violation:
            raise ViolationError("settings are what was acknowledged", violation.detail) from violation


class SettingsLedger:
    """The settings that an administrator has changed, by topic and name."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], SettingValue] = {}

    def created(self, topic: str, configs: dict[str, str]) -> None:
        """`topic` was created with these settings."""
        for owner, name, _ in CHOICES:
            if owner == topic:
                value = SettingValue(f"{topic} {name}", is_flushed=True)
                value.known = int(configs.get(name, NOTHING))
                self.values[topic, name] = value


class SettingsAdmin(ClientLoop):
    """Sets, removes and describes one setting at a time."""

    def __init__(self, world: ClientWorld, name: str, ledger: SettingsLedger) -> None:
        super().__init__(world, name)
        self.ledger = ledger

    async def step(self) -> None:
        client = await self.client()
        topic, name, choices = self.random.choice(CHOICES)
        if self.random.random() < 0.6:
            is_deletion = self.random.random() < 0.3 and name not in NO_DELETION
            await self.alter(client, topic, name, NOTHING if is_deletion else self.random.choice(choices))
        else:
            await self.describe(client, topic, name)
        await self.pause()

    async def alter(self, client: Client, topic: str, name: str, wanted: int) -> None:
        value = self.ledger.values[topic, name]
        change = IncrementalAlterableConfig(
            name, DELETE if wanted == NOTHING else SET, None if wanted == NOTHING else str(wanted)
        )
        request = IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(TOPIC, topic, (change,)),))
        attempt, outdated = value.begin(wanted)

        def note(answer: IncrementalAlterConfigsResponse) -> None:
            error_code = answer.responses[0].error_code
            self.world.trace.note("altered", topic, name, wanted, error_code)
            if error_code == 0:
                value.acknowledged(attempt, outdated)
            else:
                self.must_be_retriable(error_code, f"IncrementalAlterConfigs of {topic} {name}")

        try:
            await client.request(request, note=note)
        finally:
            attempt.is_over = True

    async def describe(self, client: Client, topic: str, name: str) -> None:
        request = DescribeConfigsRequest((DescribeConfigsResource(TOPIC, topic, (name,)),))

        def note(answer: DescribeConfigsResponse) -> None:
            result = answer.results[0]
            if result.error_code:
                self.must_be_retriable(result.error_code, f"DescribeConfigs of {topic}")
                return
            (found,) = result.configs
            is_set = found.config_source == TOPIC_SOURCE
            self.ledger.values[topic, name].read(int(found.value or 0) if is_set else NOTHING)

        await client.request(request, note=note)


class SettingsAuditor(SettingsAdmin):
    """Describes every setting once."""

    def __init__(self, world: ClientWorld, name: str, ledger: SettingsLedger) -> None:
        super().__init__(world, name, ledger)
        self.left = list(ledger.values)

    def is_done(self) -> bool:
        return not self.left

    async def step(self) -> None:
        await self.describe(await self.client(), *self.left[-1])
        self.left.pop()
