"""Clients that change settings and quotas all the time. In the end every image has the acknowledged values."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moldau.core.metadata.image import ConfigResource, MetadataImage, ResourceType
from moldau.simulation.checkers.group_ledger import NOTHING, Attempt, CommittedOffset
from moldau.simulation.workloads.quota_admin import OTHERS, RATES, QuotaAdmin, QuotaValue
from moldau.simulation.workloads.settings_admin import SettingsAdmin, SettingsLedger, SettingValue

if TYPE_CHECKING:
    from moldau.simulation.cluster.world import ClusterWorld

RESTS_S = (0.5, 2.0, 6.0)
SETTINGS = (
    ("events", "max.message.bytes", (900_000, 1_000_012, 2_000_000)),
    ("events", "segment.jitter.ms", (0, 200)),
    ("copied", "max.message.bytes", (900_000, 1_000_012, 2_000_000)),
)
"""No rule about records depends on these settings."""


class _Late(CommittedOffset):
    """A value that an unanswered change may reach at any time, because a controller that was cut off decides late."""

    def acknowledged(self, attempt: Attempt, outdated: list[Attempt]) -> None:
        super().acknowledged(attempt, [])


class LateSetting(_Late, SettingValue):
    pass


class LateQuota(_Late, QuotaValue):
    pass


class SettingsChanger(SettingsAdmin):
    """Sets and removes settings of topics. Does not read them, because a broker may have older metadata."""

    def __init__(self, world: ClusterWorld, name: str) -> None:
        super().__init__(world, name, SettingsLedger())
        for topic, setting, _ in SETTINGS:
            self.ledger.values[topic, setting] = LateSetting(f"{topic} {setting}", is_flushed=True)

    async def step(self) -> None:
        await asyncio.sleep(self.random.choice(RESTS_S))
        topic, setting, choices = self.random.choice(SETTINGS)
        wanted = self.random.choice((NOTHING, *choices))
        await self.alter(await self.client(), topic, setting, wanted)

    def check(self, image: MetadataImage) -> None:
        """In the end each setting has the last acknowledged value."""
        for (topic, setting), value in self.ledger.values.items():
            configs = image.configs.get(ConfigResource(ResourceType.TOPIC, topic), {})
            value.read(int(configs.get(setting, NOTHING)))


class QuotasChanger(QuotaAdmin):
    """Sets and removes quotas of client ids that no client has."""

    def __init__(self, world: ClusterWorld, name: str) -> None:
        super().__init__(world, name)  # type: ignore[arg-type]  # of its world a change uses only the time and the trace
        self.values = {
            place: LateQuota(value.name, is_flushed=True) for place, value in self.values.items() if place[0] in OTHERS
        }

    def is_done(self) -> bool:
        return self.world.is_draining

    async def step(self) -> None:
        await asyncio.sleep(self.random.choice(RESTS_S))
        client_id, key = self.random.choice(list(self.values))
        await self.alter(await self.client(), client_id, key, self.random.choice((NOTHING, *RATES)))

    def check(self, image: MetadataImage) -> None:
        """In the end each quota has the last acknowledged value."""
        for (client_id, key), value in self.values.items():
            quotas = image.client_quotas.get((("client-id", client_id),), {})
            value.read(int(quotas.get(key, NOTHING)))
