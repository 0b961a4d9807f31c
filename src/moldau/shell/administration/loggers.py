"""The levels of our own log, as Kafka's broker loggers (resource type 8): described and set; lost when the process
ends.

Names are Python's: `root` stands for "moldau", the parent of all others. A logger exists once the module that writes to
it is in use. Levels are Kafka's; Python has no TRACE, which is kept as a level below DEBUG.
"""

from __future__ import annotations

import logging

from moldau.core.config.broker_alteration import invalid_request
from moldau.core.config.setting import invalid_config

ROOT = "root"
_PACKAGE = "moldau"
LEVELS = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": 5,
    "WARN": logging.WARNING,
}


def broker_loggers() -> dict[str, str]:
    """Each logger of ours with the level in force, sorted by name."""
    names = sorted(name for name in logging.root.manager.loggerDict if name.startswith(f"{_PACKAGE}."))
    return {ROOT: _level_of(_PACKAGE), **{name: _level_of(name) for name in names}}


def _level_of(name: str) -> str:
    level = logging.getLogger(name).getEffectiveLevel()
    at_most = [known for known in sorted(LEVELS, key=LEVELS.__getitem__) if LEVELS[known] <= level]
    return at_most[-1] if at_most else "TRACE"


def check_level(name: str, level: str | None) -> None:
    """Raises Kafka's error for a logger or a level that does not exist. `level` None: the parent's level."""
    if name not in broker_loggers():
        raise invalid_config(f"Logger {name} does not exist!")
    if level is None:
        if name == ROOT:
            raise invalid_request("Removing the log level of the root logger is not allowed")
    elif level not in LEVELS:
        raise invalid_config(
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(LEVELS)}"
        )


def set_level(name: str, level: str | None) -> None:
    """Sets the level of a logger; `check_level` must have accepted both."""
    logger = logging.getLogger(_PACKAGE if name == ROOT else name)
    logger.setLevel(logging.NOTSET if level is None else LEVELS[level])
