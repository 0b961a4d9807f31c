"""Numbers as Java writes them (Double.toString, Float.toString, BigDecimal), for bytes equal to those of Kafka."""

from __future__ import annotations

import contextlib
import math
import struct
from decimal import Decimal

_FLOAT = struct.Struct(">f")
_PLAIN_FROM = 1e-3
_PLAIN_BELOW = 1e7


def double_text(value: float) -> str:
    """As Double.toString since JDK 19 (the shortest digits that read back as the same number)."""
    return _text(value, repr(value))


def float_text(value: float) -> str:
    """As Float.toString since JDK 19. `value` must be in the range of a float."""
    single = as_float(value)
    if not math.isfinite(single):
        return _text(single, repr(single))
    for digits in range(1, 10):
        shorter = float(f"{single:.{digits}g}")
        with contextlib.suppress(OverflowError):  # rounded up, past the largest number of 32 bits
            if as_float(shorter) == single:
                return _text(single, repr(shorter))
    return _text(single, repr(single))


def as_float(value: float) -> float:
    """The nearest number of 32 bits. Raises OverflowError if it is infinite and `value` is not."""
    rounded: float = _FLOAT.unpack(_FLOAT.pack(value))[0]
    return rounded


def _text(value: float, text: str) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        return text if "e" not in text else format(Decimal(text), "f")
    sign, digits, exponent = Decimal(text).normalize().as_tuple()
    if not isinstance(exponent, int):  # never: NaN and infinity are above
        return text
    first, rest = str(digits[0]), "".join(str(one) for one in digits[1:]) or "0"
    return f"{'-' if sign else ''}{first}.{rest}E{exponent + len(digits) - 1}"


def decimal_text(value: Decimal) -> str:
    """As BigDecimal.toString: with an exponent if the scale is negative or the number very small."""
    return str(value)


def unscaled(value: Decimal, scale: int) -> bytes | None:
    """The digits of a Decimal as a signed number in two's complement, the shortest form (BigInteger.toByteArray).

    None if `value` has another scale, as Kafka rejects it.
    """
    sign, digits, exponent = value.as_tuple()
    if exponent != -scale:
        return None
    number = int("".join(map(str, digits)) or "0")
    number = -number if sign else number
    bits = number.bit_length() if number >= 0 else (number + 1).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


def scaled(payload: bytes, scale: int) -> Decimal:
    """The Decimal with these digits, as `unscaled` writes them."""
    number = int.from_bytes(payload, "big", signed=True)
    digits = tuple(map(int, str(abs(number))))
    return Decimal((int(number < 0), digits, -scale))
