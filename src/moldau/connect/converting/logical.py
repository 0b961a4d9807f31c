"""Values of logical types, as numbers and bytes and back (Decimal, Date, Time and Timestamp of Kafka Connect)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import TypeVar

from moldau.connect.converting.converter import DataError
from moldau.connect.converting.java_numbers import scaled, unscaled
from moldau.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type

Step = Callable[[object], object]
T = TypeVar("T")

DAY_MS = 86_400_000
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)


def scale_of(schema: Schema) -> int:
    """The scale of a Decimal. Raises DataError."""
    text = schema.parameters.get("scale")
    if text is None:
        raise DataError("Invalid Decimal schema: scale parameter not found.")
    try:
        return int(text)
    except ValueError:
        raise DataError("Invalid scale parameter found in Decimal schema: ") from None


def to_plain(schema: Schema) -> Step | None:
    """A function from a value to the number or bytes under it; None if the schema has no logical type.

    The function raises DataError.
    """
    match schema.name, schema.type:
        case (str(name), Type.BYTES) if name == DECIMAL:
            return _decimal_to_bytes(schema)
        case (str(name), Type.INT32) if name == DATE:
            return date_to_days
        case (str(name), Type.INT32) if name == TIME:
            return time_to_ms
        case (str(name), Type.INT64) if name == TIMESTAMP:
            return timestamp_to_ms
    return None


def from_plain(schema: Schema) -> Step | None:
    """The inverse of `to_plain`. The function raises DataError."""
    match schema.name, schema.type:
        case (str(name), Type.BYTES) if name == DECIMAL:
            scale = scale_of(schema)
            return lambda payload: scaled(_is(bytes, payload, "Decimal"), scale)
        case (str(name), Type.INT32) if name == DATE:
            return days_to_date
        case (str(name), Type.INT32) if name == TIME:
            return ms_to_time
        case (str(name), Type.INT64) if name == TIMESTAMP:
            return ms_to_timestamp
    return None


def _decimal_to_bytes(schema: Schema) -> Step:
    scale = scale_of(schema)

    def converted(value: object) -> bytes:
        if not isinstance(value, Decimal):
            raise DataError(f"Invalid type for Decimal, expected Decimal but was {type(value).__name__}")
        payload = unscaled(value, scale)
        if payload is None:
            raise DataError(f"Decimal value has mismatching scale for given Decimal schema. Schema has scale {scale}.")
        return payload

    return converted


def date_to_days(value: object) -> int:
    if type(value) is not dt.date:
        raise DataError(f"Invalid type for Date, expected date but was {type(value).__name__}")
    return value.toordinal() - _EPOCH_DAY


def time_to_ms(value: object) -> int:
    """The microseconds below a millisecond are cut."""
    if not isinstance(value, dt.time):
        raise DataError(f"Invalid type for Time, expected time but was {type(value).__name__}")
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000


def timestamp_to_ms(value: object) -> int:
    """A time without a zone is UTC. The microseconds below a millisecond are cut."""
    if not isinstance(value, dt.datetime):
        raise DataError(f"Invalid type for Timestamp, expected datetime but was {type(value).__name__}")
    return ((value if value.tzinfo else value.replace(tzinfo=dt.UTC)) - _EPOCH) // _MILLISECOND


def days_to_date(value: object) -> dt.date:
    try:
        return dt.date.fromordinal(_is(int, value, "Date") + _EPOCH_DAY)
    except (ValueError, OverflowError):
        raise DataError(f"Date {value} is outside the years 1 to 9999") from None


def ms_to_time(value: object) -> dt.time:
    milliseconds = _is(int, value, "Time")
    if not 0 <= milliseconds < DAY_MS:
        raise DataError("Time values must use number of milliseconds greater than 0 and less than 86400000")
    seconds, rest = divmod(milliseconds, 1000)
    return dt.time(seconds // 3600, seconds // 60 % 60, seconds % 60, rest * 1000)


def ms_to_timestamp(value: object) -> dt.datetime:
    try:
        return _EPOCH + dt.timedelta(milliseconds=_is(int, value, "Timestamp"))
    except OverflowError:
        raise DataError(f"Timestamp {value} is outside the years 1 to 9999") from None


def _is(kind: type[T], value: object, name: str) -> T:
    if not isinstance(value, kind):
        raise DataError(f"Invalid type for {name}, underlying representation was {type(value).__name__}")
    return value
