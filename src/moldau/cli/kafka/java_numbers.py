"""Formats numbers as Java's `%.2f` does: halves are rounded up, and NaN and Infinity are words."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal


def fixed(value: float, digits: int) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return str(Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


def ratio(part: float, whole: float) -> float:
    """Java's division of two doubles: a division by zero gives Infinity or NaN."""
    if whole:
        return part / whole
    return math.copysign(math.inf, part) if part else math.nan
