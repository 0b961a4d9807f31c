"""Small charts as the points of an SVG polyline: only numbers, so foreign text cannot get in."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Chart(msgspec.Struct, frozen=True):
    """`line` and `area`: the texts of `points` and of `d`; empty with fewer than two values. `top`: the end of the
    axis; 0 if all values are 0."""

    line: str
    area: str
    top: float
    width: int
    height: int
    since: str = ""
    """The time at the left edge: `2 min ago`."""
    lasted: str = ""
    """The time from the first value to the last: `14 s`."""


def draw(values: Sequence[float], *, width: int, height: int, slots: int = 0, span_s: float = 0.0) -> Chart:
    """`values` from left to right, the last at the right edge. `slots`: with fewer values the left side stays empty;
    `span_s`: the seconds between the first and the last."""
    shown = list(values)
    if len(shown) < 2:
        return Chart("", "", 0.0, width, height)
    count = max(len(shown), slots)
    step = width / (count - 1)
    left = width - step * (len(shown) - 1)
    top = round_up(max(shown))
    inner = height - 3
    points = [
        (left + index * step, height - 1 - (value / top if top else 0.0) * inner) for index, value in enumerate(shown)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    area = f"M{points[0][0]:.1f},{height} L" + " L".join(f"{x:.1f},{y:.1f}" for x, y in points) + f" L{width},{height}Z"
    since = f"{_duration(span_s * (count - 1) / (len(shown) - 1))} ago"
    return Chart(line, area, top, width, height, since, _duration(span_s))


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def round_up(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, ...: keeps the axis steady."""
    if value <= 0:
        return 0.0
    power = 1.0
    while power < value:
        power *= 10
    while power / 10 >= value:
        power /= 10
    for part in (0.1, 0.2, 0.5, 1.0):
        if power * part >= value:
            return power * part
    return power
