"""Dates as java.text.SimpleDateFormat writes and reads them, in UTC and with English names.

Of its letters: G y M L d E u D H h k K m s S a z Z X, and quoted text. Other letters are rejected by name. Reading is
lenient as in Java: a month 13 is January of the next year, and text after the end of the pattern is ignored.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

DAY_MS = 86_400_000
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LETTERS = "GyMLdEuDHhkKmsSazZX"
_INT = 1 << 31
_DIGITS = re.compile(r"-?[0-9]+")
_ZONE = re.compile(
    r"(?:(?=GMT[+-]\d{1,2}:)GMT|(?=[+-]\d{4}))(?P<sign>[+-])(?P<hours>\d{1,2}):?(?P<minutes>\d{2})|UTC|GMT|UT",
    re.IGNORECASE | re.ASCII,
)
_ISO_ZONES = (
    re.compile(r"Z|(?P<sign>[+-])(?P<hours>\d{2})(?P<minutes>)", re.ASCII),
    re.compile(r"Z|(?P<sign>[+-])(?P<hours>\d{2})(?P<minutes>\d{2})", re.ASCII),
    re.compile(r"Z|(?P<sign>[+-])(?P<hours>\d{2}):(?P<minutes>\d{2})", re.ASCII),
)
"""Of one to three X."""
_SPACES = " \t"
_WINDOW_YEARS = 80
"""A year of two digits lies at most 80 years before the format was made, and less than 20 after it."""


class DateError(ValueError):
    """A text that does not fit the pattern, or a time outside of the years 1 to 9999."""


class PatternError(ValueError):
    """A pattern that is wrong, or has a letter that is not supported."""


def millis_of(value: object) -> int:
    """Milliseconds since 1970 UTC: a date is its midnight, a time lies on the first day. A datetime without a zone is
    in UTC."""
    match value:
        case datetime.datetime():
            aware = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
            return (aware - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(milliseconds=1)
        case datetime.date() | datetime.time():
            return days_of(value) * DAY_MS + millis_of_day(value)
    raise DateError(f"{type(value).__name__} is no date or time")


def days_of(value: object) -> int:
    """Days since 1970."""
    match value:
        case datetime.datetime():
            return millis_of(value) // DAY_MS
        case datetime.date():
            return value.toordinal() - _EPOCH
    return 0


def millis_of_day(value: object) -> int:
    match value:
        case datetime.datetime():
            return millis_of(value) % DAY_MS
        case datetime.time():
            return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000 + value.microsecond // 1_000
    return 0


def timestamp_of(millis: int) -> datetime.datetime:
    """Raises DateError outside of the years 1 to 9999."""
    try:
        return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(milliseconds=millis)
    except OverflowError:
        raise DateError(f"{millis} ms lie outside of the years 1 to 9999") from None


def default_text(millis: int) -> str:
    """The text of a date or time in Values.dateFormatFor: a time up to the end of 1970-01-01, a date at
    midnight, else both."""
    moment = timestamp_of(millis)
    if millis < DAY_MS:
        return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    if millis % DAY_MS == 0:
        return f"{moment.date().isoformat()}"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


@dataclass(frozen=True, slots=True)
class _Item:
    """A run of one letter, or (letter empty) literal text. `abuts`: digits of the next number follow directly."""

    letter: str
    count: int
    text: str = ""
    abuts: bool = False


class DateFormat:
    """One pattern. `now_ms`: the time from which years of two digits are counted."""

    def __init__(self, pattern: str, now_ms: int) -> None:
        self.pattern = pattern
        self._items = _items(pattern)
        now = timestamp_of(now_ms)
        self._window = now.replace(year=now.year - _WINDOW_YEARS, day=min(now.day, 28))

    def format(self, millis: int) -> str:
        """Raises DateError outside of the years 1 to 9999."""
        moment = timestamp_of(millis)
        return "".join(_written(item, moment) if item.letter else item.text for item in self._items)

    def parse(self, text: str) -> int:
        """Milliseconds since 1970. Raises DateError."""
        found: dict[str, int] = {}
        position = 0
        for item in self._items:
            position = self._read(item, text, position, found)
        return _millis(found)

    def _read(self, item: _Item, text: str, at: int, found: dict[str, int]) -> int:
        if not item.letter:
            if not text.startswith(item.text, at):
                raise DateError(f'Unparseable date: "{text}"')
            return at + len(item.text)
        limit = at + item.count  # Java counts blanks too
        while at < len(text) and text[at] in _SPACES:
            at += 1
        if item.abuts:
            end = _read_digits(item, text, at, limit, found)
        else:
            end = _READERS.get(item.letter, _read_number)(item, text, at, found)
        if item.letter == "y" and item.count <= 2 and end - at == 2 and text[at:end].isdigit():
            found["y"] = self._full_year(found["y"], found)
        return end

    def _full_year(self, year: int, found: dict[str, int]) -> int:
        first = self._window.year
        full = first - first % 100 + year + (100 if year < first % 100 else 0)
        if year == first % 100:
            found["window"] = full  # decided by the rest of the date
        return full


def _items(pattern: str) -> list[_Item]:
    items: list[_Item] = []
    for match in re.finditer(r"'((?:[^']|'')*)'|(')|([A-Za-z])\3*|[^A-Za-z']+", pattern):
        whole, quoted, open_quote, letter = match.group(0), match.group(1), match.group(2), match.group(3)
        if open_quote:
            raise PatternError(f"Unterminated quote in the date format {pattern}")
        if letter and letter not in _LETTERS:
            raise PatternError(f"The letter {letter} of the date format {pattern} is not supported, only {_LETTERS}")
        if letter == "X" and len(whole) > 3:
            raise PatternError(f"invalid ISO 8601 format: length={len(whole)}")
        text = "" if letter else whole if quoted is None else (quoted.replace("''", "'") or "'")
        if items and not letter and not items[-1].letter:
            items[-1] = _Item("", 0, items[-1].text + text)
        else:
            items.append(_Item(letter or "", len(whole) if letter else 0, text))
    for place in range(len(items) - 1):
        if _is_number(items[place]) and _is_number(items[place + 1]):
            items[place] = _Item(items[place].letter, items[place].count, "", True)
    return items


def _is_number(item: _Item) -> bool:
    return item.letter in tuple("yduDHhkKmsS") or (item.letter in tuple("ML") and item.count <= 2)


def _written(item: _Item, moment: datetime.datetime) -> str:
    letter, count = item.letter, item.count
    if letter == "y":
        return f"{moment.year % 100:02d}" if count == 2 else f"{moment.year:0{count}d}"
    if letter in "ML" and count >= 3:
        name = _MONTHS[moment.month - 1]
        return name if count > 3 else name[:3]
    if letter == "E":
        name = _DAYS[moment.weekday()]
        return name if count > 3 else name[:3]
    if letter in _WORDS:
        return _WORDS[letter](moment, count)
    return f"{_NUMBERS[letter](moment):0{count}d}"


_WORDS: Mapping[str, Callable[[datetime.datetime, int], str]] = {
    "G": lambda moment, count: "AD",
    "a": lambda moment, count: "AM" if moment.hour < 12 else "PM",
    "z": lambda moment, count: "Coordinated Universal Time" if count > 3 else "UTC",
    "Z": lambda moment, count: "+0000",
    "X": lambda moment, count: "Z",
}
_NUMBERS: Mapping[str, Callable[[datetime.datetime], int]] = {
    "M": lambda moment: moment.month,
    "L": lambda moment: moment.month,
    "d": lambda moment: moment.day,
    "u": lambda moment: moment.isoweekday(),
    "D": lambda moment: moment.timetuple().tm_yday,
    "H": lambda moment: moment.hour,
    "k": lambda moment: moment.hour or 24,
    "K": lambda moment: moment.hour % 12,
    "h": lambda moment: moment.hour % 12 or 12,
    "m": lambda moment: moment.minute,
    "s": lambda moment: moment.second,
    "S": lambda moment: moment.microsecond // 1_000,
}


def _read_number(item: _Item, text: str, at: int, found: dict[str, int]) -> int:
    return _read_digits(item, text, at, len(text), found)


def _read_digits(item: _Item, text: str, at: int, limit: int, found: dict[str, int]) -> int:
    """Reads a number that ends before `limit`."""
    match = _DIGITS.match(text, at, min(limit, len(text)))
    if match is None or not -_INT <= int(match.group(0)) < _INT or (item.abuts and match.end() < limit):
        raise DateError(f'Unparseable date: "{text}"')
    found[item.letter] = int(match.group(0))
    if item.letter in "ML":
        found["M"] = found[item.letter]
    return match.end()


def _read_name(item: _Item, text: str, at: int, found: dict[str, int], *, names: Sequence[str]) -> int:
    for number, name in enumerate(names):
        for one in (name, name[:3]):
            if text[at : at + len(one)].lower() == one.lower():
                found[item.letter] = number
                return at + len(one)
    raise DateError(f'Unparseable date: "{text}"')


def _read_month(item: _Item, text: str, at: int, found: dict[str, int]) -> int:
    if item.count <= 2:
        return _read_number(item, text, at, found)
    end = _read_name(item, text, at, found, names=_MONTHS)
    found[item.letter] += 1
    found["M"] = found[item.letter]
    return end


def _read_iso_zone(item: _Item, text: str, at: int, found: dict[str, int]) -> int:
    match = _ISO_ZONES[item.count - 1].match(text, at)
    return _zone(match, text, found)


def _read_zone(item: _Item, text: str, at: int, found: dict[str, int]) -> int:
    """A name of UTC, or an offset. Java also reads the names of other zones."""
    return _zone(_ZONE.match(text, at), text, found)


def _zone(match: re.Match[str] | None, text: str, found: dict[str, int]) -> int:
    if match is None:
        raise DateError(f'Unparseable date: "{text}"')
    sign, hours, minutes = (match.group(name) for name in ("sign", "hours", "minutes"))
    offset = (int(hours or 0) * 60 + int(minutes or 0)) * 60_000
    found["zone"] = -offset if sign == "-" else offset
    return match.end()


_READERS: Mapping[str, Callable[[_Item, str, int, dict[str, int]], int]] = {
    "M": _read_month,
    "L": _read_month,
    "E": partial(_read_name, names=_DAYS),
    "G": partial(_read_name, names=["BC", "AD"]),
    "a": partial(_read_name, names=["AM", "PM"]),
    "z": _read_zone,
    "Z": _read_zone,
    "X": _read_iso_zone,
}


def _millis(found: Mapping[str, int]) -> int:
    """Milliseconds of the fields that were read; 1970-01-01 00:00 where nothing was."""
    if found.get("G") == 0:
        raise DateError("a year before Christ")
    if ("E" in found or "u" in found) and "d" not in found and "D" not in found:
        raise DateError("a day of the week without a day")
    year, month = divmod((found.get("y", 1970)) * 12 + found.get("M", 1) - 1, 12)
    try:
        day = datetime.date(year, month + 1, 1).toordinal() - _EPOCH
        day += found.get("D", found.get("d", 1)) - 1 if "M" not in found or "d" in found else 0
        if "D" in found and "d" not in found:
            day = datetime.date(year, 1, 1).toordinal() - _EPOCH + found["D"] - 1
    except ValueError:
        raise DateError(f"the year {year} lies outside of 1 to 9999") from None
    hour = found.get("H", found.get("k", 0) % 24 if "k" in found else None)
    if hour is None:
        twelfth = found.get("K", found.get("h", 0) % 12 if "h" in found else 0)
        hour = twelfth + 12 * found.get("a", 0)
    clock = ((hour * 60 + found.get("m", 0)) * 60 + found.get("s", 0)) * 1_000 + found.get("S", 0)
    millis = day * DAY_MS + clock - found.get("zone", 0)
    timestamp_of(millis)
    return millis
