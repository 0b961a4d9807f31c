"""Reads times in SQLite, which has no type for them: texts, Julian days, seconds or milliseconds since 1970.

The size of a number tells its unit, as with SQLite's modifier `auto`.

Stored values are compared, which can use an index and is right if all times of a column have one form. (SQLite
documentation, "Date And Time Functions".)
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

Stored = int | float | str

JULIAN_DAYS, SECONDS, MILLISECONDS = "Julian days", "seconds since 1970", "milliseconds since 1970"
_UNITS = {JULIAN_DAYS: 5_373_484.5, SECONDS: 253_402_300_800, MILLISECONDS: 253_402_300_800_000}
"""The unit of a number from 0 up to, not including, this bound. Milliseconds are not a unit of SQLite itself."""
_JULIAN_DAY_OF_1970, _SECONDS_OF_DAY = 2_440_587.5, 86_400
_HALF_A_SECOND = 0.5

_TEXT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:(?P<separator>[ T])[0-9]{2}:[0-9]{2}"
    r"(?P<second>:[0-9]{2}(?:\.[0-9]+)?)?(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})?)?"
)


class TimeForm(msgspec.Struct, frozen=True):
    """`unit`: of a number; "" for a text. `pattern`: of the text, up to its seconds, for `strftime`. A text without
    `zone` is in UTC, as SQLite's functions write it."""

    unit: str
    pattern: str = ""
    zone: tzinfo | None = None

    def __str__(self) -> str:
        zone = f", {self.zone}" if self.zone is not None else ""
        return self.unit or f"texts such as {datetime(2026, 1, 31, 12, tzinfo=UTC).strftime(self.pattern)}{zone}"

    def bound(self, moment: datetime) -> Stored:
        """Values less than this belong to a second (or a minute or day, by the form) that was over at `moment`."""
        if not self.unit:
            return moment.astimezone(self.zone or UTC).strftime(self.pattern)
        seconds = int(moment.timestamp())
        if self.unit == JULIAN_DAYS:
            # the fraction of a day is inexact; half a second earlier is certainly before
            return (seconds - _HALF_A_SECOND) / _SECONDS_OF_DAY + _JULIAN_DAY_OF_1970
        return seconds * 1_000 if self.unit == MILLISECONDS else seconds


def form_of(value: object) -> TimeForm | None:
    """The form of a time; None if the value is not a time."""
    if isinstance(value, str):
        return _form_of_text(value)
    if not isinstance(value, int | float):
        return None
    unit = next((unit for unit, below in _UNITS.items() if 0 <= value < below), None)
    return TimeForm(unit) if unit is not None else None


def _form_of_text(text: str) -> TimeForm | None:
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    try:
        zone = datetime.fromisoformat(text[: 10 if found["separator"] is None else None]).tzinfo
    except ValueError:  # no such day or hour
        return None
    if found["separator"] is None:
        return TimeForm("", "%Y-%m-%d")
    minutes = f"%Y-%m-%d{found['separator']}%H:%M"
    return TimeForm("", minutes if found["second"] is None else f"{minutes}:%S", zone)


def before_now(delay_ms: int) -> datetime:
    return datetime.now(UTC) - timedelta(milliseconds=delay_ms)
