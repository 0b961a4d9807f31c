"""Formats times as Java's SimpleDateFormat does, in the time zone of the machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Final

from moldau.cli.kafka.options import ArgumentError

# a quoted text, a repeated letter, or other characters
_PARTS = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+", re.DOTALL)
_MONTHS: Final[tuple[str, ...]] = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
    *("November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

Field = Callable[[datetime], int]
_NUMBERS: Final[dict[str, Field]] = {
    "d": lambda time: time.day,
    "D": lambda time: time.timetuple().tm_yday,
    "u": lambda time: time.isoweekday(),
    "H": lambda time: time.hour,
    "k": lambda time: time.hour or 24,
    "K": lambda time: time.hour % 12,
    "h": lambda time: time.hour % 12 or 12,
    "m": lambda time: time.minute,
    "s": lambda time: time.second,
    "S": lambda time: time.microsecond // 1000,
}


def format_time(pattern: str, time_ms: int) -> str:
    """Raises ArgumentError for a pattern that Java rejects or that Moldau does not support (weeks)."""
    time = datetime.fromtimestamp(time_ms / 1000).astimezone()
    found: list[str] = []
    position = 0
    while position < len(pattern):
        part = _PARTS.match(pattern, position)
        if part is None:
            raise ArgumentError("Unterminated quote")
        position = part.end()
        if part[1] is not None:
            found.append(part[1].replace("''", "'") or "'")
        elif part[2] is not None:
            found.append(_field(part[2], len(part[0]), time))
        else:
            found.append(part[0])
    return "".join(found)


def _field(letter: str, count: int, time: datetime) -> str:
    if letter in _NUMBERS:
        return str(_NUMBERS[letter](time)).zfill(count)
    if letter in "yY":
        return f"{time.year % 100:02}" if count == 2 else str(time.year).zfill(count)
    if letter in "ML":
        name = _MONTHS[time.month - 1]
        return name if count > 3 else name[:3] if count == 3 else str(time.month).zfill(count)
    if letter == "E":
        name = _DAYS[time.weekday()]
        return name if count > 3 else name[:3]
    if letter == "a":
        return "AM" if time.hour < 12 else "PM"
    if letter == "G":
        return "AD"
    if letter == "z":
        return time.tzname() or "UTC"
    if letter == "Z":
        return time.strftime("%z")
    if letter == "X":
        offset = time.strftime("%z")
        if offset in ("+0000", "-0000"):
            return "Z"
        return {1: offset[:3], 2: offset}.get(count, f"{offset[:3]}:{offset[3:]}")
    raise ArgumentError(f"Illegal pattern character '{letter}'")
