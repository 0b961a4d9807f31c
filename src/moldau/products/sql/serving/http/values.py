"""Values of a row as JSON, as ksqlDB writes them."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

import msgspec

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=str)
_WHOLE_MS: Final = 1000


def encoded(value: object) -> bytes:
    """JSON on one line. Decimals are numbers with all their digits, bytes are base64."""
    return _ENCODER.encode(value)


def json_values(values: Sequence[object]) -> list[object]:
    """The values of a row, for `encoded`."""
    return [json_value(one) for one in values]


def json_value(value: object) -> object:
    """`value`: as `ChangedRow` holds it. Times are in UTC and without a zone, with microseconds only where they are
    not whole milliseconds. Numbers that JSON lacks are texts."""
    match value:
        case float():
            return value if math.isfinite(value) else _odd_number(value)
        case Decimal():
            return value if value.is_finite() else str(value)
        case datetime.datetime():
            return _time(value)
        case Mapping():
            return {_key(key): json_value(one) for key, one in value.items()}
        case list() | tuple():
            return [json_value(one) for one in value]
        case bytearray() | memoryview():
            return bytes(value)
    return value


def _odd_number(value: float) -> str:
    """As Java writes it."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _time(value: datetime.datetime) -> str:
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return value.isoformat(timespec="microseconds" if value.microsecond % _WHOLE_MS else "milliseconds")


def _key(key: object) -> str:
    """Keys in JSON are texts."""
    found = json_value(key)
    return found if isinstance(found, str) else encoded(found).decode().strip('"')
