"""Numbers as Java parses and narrows them, for Cast and MaskField."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from moldau.connect.converting.java_numbers import as_float

_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_FLOATING = re.compile(r"[+-]?(NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)", re.ASCII)


def parsed_whole(text: str, bits: int) -> int:
    """Raises ValueError for another text, or a number beyond the bits (Long.parseLong)."""
    if not _WHOLE.fullmatch(text) or not -(1 << bits - 1) <= int(text) < 1 << bits - 1:
        raise ValueError(f'For input string: "{text}"')
    return int(text)


def parsed_floating(text: str, bits: int) -> float:
    """Raises ValueError for another text (Double.parseDouble, without its hexadecimal numbers)."""
    trimmed = text.strip("".join(map(chr, range(33))))
    if not _FLOATING.fullmatch(trimmed):
        raise ValueError(f'For input string: "{text}"')
    number = float(trimmed.rstrip("fFdD") if trimmed[-1] in "fFdD" else trimmed)
    return to_float32(number) if bits == 32 else number


def narrowed(number: int | float | Decimal, bits: int) -> int:
    """The lowest bits of the number, as a signed number. A floating one is brought into the range of an int or a long
    first, as Number.byteValue does."""
    if isinstance(number, float):
        if math.isnan(number):
            return 0
        widest = max(bits, 32)
        number = max(-(1 << widest - 1), min((1 << widest - 1) - 1, _whole(number, widest)))
    low = int(number) & (1 << bits) - 1
    return low - (1 << bits) if low >> bits - 1 else low


def _whole(number: float, bits: int) -> int:
    return int(math.copysign(1 << bits, number)) if math.isinf(number) else int(number)


def to_float32(number: float) -> float:
    """The nearest number of 32 bits; infinite beyond the largest."""
    try:
        return as_float(number)
    except OverflowError:
        return math.copysign(math.inf, number)
