"""What every command hands its parser to, and the numbers that flags take."""

from __future__ import annotations

import argparse
from collections.abc import Callable

Subparsers = argparse._SubParsersAction  # argparse gives the type no public name
MAX_TIMEOUT_S = 86_400


def _whole_number(bits: int) -> Callable[[str], int]:
    largest = (1 << (bits - 1)) - 1

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = largest + 1
        if abs(value) > largest:
            raise argparse.ArgumentTypeError(f"must be a whole number of at most {largest}, not {text!r}")
        return value

    return parse


int16 = _whole_number(16)
"""A replication factor."""
int32 = _whole_number(32)
"""A partition, or how many there are."""
int64 = _whole_number(64)
"""An offset."""


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= MAX_TIMEOUT_S:
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, at most {MAX_TIMEOUT_S}, not {text!r}")
    return value
