"""The levels of this worker's loggers, by Kafka Connect's names (`/admin/loggers`)."""

from __future__ import annotations

import logging
import threading
import time

import msgspec

from moldau.products.connect.core import refusals

ROOT = "root"
_LEVELS = {
    "OFF": logging.CRITICAL + 10,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG - 5,
}
MOST_LOGGERS = 10_000
"""Loggers whose level was set; Python never forgets a logger."""


class Level(msgspec.Struct, frozen=True):
    """`last_modified`: milliseconds since 1970."""

    level: str
    last_modified: int | None = None


class Loggers:
    """Thread-safe."""

    def __init__(self) -> None:
        self._set: dict[str, Level] = {}
        self._lock = threading.Lock()

    def every(self) -> dict[str, Level]:
        """The root, and each logger whose own level is set."""
        names = [name for name in list(logging.root.manager.loggerDict) if logging.getLogger(name).level]
        return {name: self.one(name) for name in sorted({ROOT, *names, *self._set})}

    def one(self, name: str) -> Level:
        """Raises Refusal."""
        with self._lock:
            if name in self._set:
                return self._set[name]
        if name != ROOT and name not in logging.root.manager.loggerDict:
            raise refusals.Refusal(404, f"Logger {name} not found.")
        return Level(_word(_logger(name).getEffectiveLevel()))

    def set(self, name: str, level: str) -> list[str]:
        """The loggers that have the level now: the named one, and those below it. Raises Refusal."""
        word = checked_level(level)
        with self._lock:
            if name not in self._set and len(self._set) >= MOST_LOGGERS:
                raise refusals.bad_request(f"{MOST_LOGGERS} loggers have a level already")
            below = [one for one in self._set if one.startswith(f"{name}.") or name == ROOT]
            names = sorted({name, *below})
            now = Level(word, time.time_ns() // 1_000_000)
            for one in names:
                _logger(one).setLevel(_LEVELS[word])
                self._set[one] = now
        return names


def checked_level(level: object) -> str:
    """The level in upper case. Raises Refusal."""
    if level is None:
        raise refusals.bad_request("Desired 'level' parameter was not specified in request.")
    if not isinstance(level, str) or level.upper() not in _LEVELS:
        raise refusals.Refusal(404, f"invalid log level '{level}'.")
    return level.upper()


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _word(level: int) -> str:
    return next((word for word, least in _LEVELS.items() if level >= least), "TRACE")
