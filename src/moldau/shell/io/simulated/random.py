"""Randomness that a seed repeats."""

from __future__ import annotations

import random


class SeededRandom:
    """The same seed gives the same choices, on every Python that Moldau runs on (Mersenne Twister)."""

    __slots__ = ("_generator",)

    def __init__(self, seed: int) -> None:
        self._generator = random.Random(seed)

    def random_bytes(self, count: int) -> bytes:
        return self._generator.randbytes(count)

    def random_below(self, bound: int) -> int:
        return self._generator.randrange(bound)
