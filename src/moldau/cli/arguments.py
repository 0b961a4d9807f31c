"""Parses the values of flags: numbers, times, durations, files."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.output import CommandError

if TYPE_CHECKING:
    from moldau.client.protocol.secrets import Origin

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
"""A partition, or a number of partitions."""
int64 = _whole_number(64)
"""An offset."""


def at_least_one(text: str) -> int:
    """A count of at least one."""
    value = int32(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {text!r}")
    return value


def not_empty(text: str) -> str:
    """Rejects an unset shell variable: an empty value must not mean the default."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty")
    return text


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= MAX_TIMEOUT_S:
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, at most {MAX_TIMEOUT_S}, not {text!r}")
    return value


STANDARD_INPUT = "-"


def input_path(text: str) -> Path:
    """A file to read; `-` is standard input."""
    return Path("/dev/stdin") if text == STANDARD_INPUT else Path(text)


def origin_of(text: str) -> Origin | None:
    """The origin by which secrets in this file are referred to; None for standard input, which cannot be read again."""
    from moldau.client.protocol.secrets import Origin

    return None if text == STANDARD_INPUT else Origin(str(Path(text).absolute()))


def settings_in(path: str) -> dict[str, str]:
    """The settings of a node as its file gives them. Raises CommandError."""
    from moldau.core.config.properties import parse_properties

    try:
        return parse_properties(input_path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not UTF-8") from error


# --- times ---

TIMES = "2026-01-31, 2026-01-31T12:00:00 (UTC without a zone), or a duration before now: 90s, 15m, 1h30m, 2d, 1w"
_UNITS_MS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|[wdhms])")
_MAX_MS = 1 << 53


def time_ms(text: str) -> int:
    """Milliseconds since 1970 for a date, a time, or a duration before now. Raises ArgumentTypeError."""
    moment = moment_ms(text)
    if moment is not None:
        return moment
    try:
        return max(0, int(time.time() * 1000) - duration_ms(text))
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write {TIMES}") from None


def moment_ms(text: str) -> int | None:
    """Milliseconds since 1970 for an ISO 8601 date or time, in UTC if it names no zone; None for any other text."""
    if not re.match(r"\d{4}-\d", text):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))


def duration_ms(text: str) -> int:
    """Milliseconds for `1h`, `1h30m`, `2d`, `500ms`, or ISO 8601's PT1H30M. Raises ArgumentTypeError."""
    from moldau.cli.administration.offset_arguments import parse_duration_ms

    lower = text.lower()
    if lower and not _DURATION.sub("", lower):
        found = sum(float(number) * _UNITS_MS[unit] for number, unit in _DURATION.findall(lower))
        if found < _MAX_MS:
            return int(found)
    else:
        try:
            return parse_duration_ms(text)
        except ValueError:
            pass
    raise argparse.ArgumentTypeError(f"{text!r} is no duration: write 90s, 15m, 1h30m, 2d, 1w or PT1H30M")
