"""Keys with known anomalies: bounded noise, and one large value in each.

The noise is uniform, so a value is at most 1.8 standard deviations from the mean; the planted value is about 14.
"""

from __future__ import annotations

import math
import random

import msgspec

SOURCE = "planted"
_SEED = 20

# key, level, amplitude of the noise to either side, time of the planted value (as a fraction of the run)
_PLANTS = (
    ("planted/oven.celsius", 180.0, 3.0, 0.45),
    ("planted/queue.length", 40.0, 6.0, 0.65),
    ("planted/pressure.bar", 6.2, 0.15, 0.85),
)
_PLANTED_HEIGHTS = 8.0


class Plant(msgspec.Struct, frozen=True):
    """One planted anomaly."""

    key: str
    tick: int
    value: float


class PlantedSeries:
    """The values of the planted keys tick by tick, the same in every run of the same length."""

    def __init__(self, ticks: int) -> None:
        self._random = random.Random(_SEED)
        self.plants = tuple(
            Plant(key, math.floor(ticks * part), level + _PLANTED_HEIGHTS * noise)
            for key, level, noise, part in _PLANTS
        )

    def sample(self, tick: int) -> dict[str, float]:
        values: dict[str, float] = {}
        for plant, (key, level, noise, _) in zip(self.plants, _PLANTS, strict=True):
            usual = level + self._random.uniform(-noise, noise)
            values[key] = plant.value if tick == plant.tick else round(usual, 3)
        return values
