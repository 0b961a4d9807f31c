"""What the programs of this folder share: the order of a round, and how they write figures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
Figures = dict[str, float]


def in_turn(things: Sequence[T], round_number: int) -> Sequence[T]:
    """Forwards and backwards in turn: no peer is always the first."""
    return things if round_number % 2 == 0 else things[::-1]


def number(value: object) -> str:
    if not isinstance(value, int | float):
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def short(figures: Figures) -> str:
    return ", ".join(f"{name} {number(value)}" for name, value in figures.items())


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
