"""Retries work that fails only while a server is unavailable."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")

logger = logging.getLogger("moldau.pipelines")

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.2, 10.0
LOOK_SECONDS = 0.2
"""How often a pause checks whether it is cut short."""


def _never() -> bool:
    return False


_IS_CUT: ContextVar[Callable[[], bool]] = ContextVar("is_cut", default=_never)


@contextmanager
def patient_until(is_cut: Callable[[], bool]) -> Iterator[None]:
    """Within this context, `keep_trying` in this thread retries nothing once `is_cut` is true."""
    token = _IS_CUT.set(is_cut)
    try:
        yield
    finally:
        _IS_CUT.reset(token)


def _asks_for_none(_: Exception) -> float:
    return 0.0


def keep_trying(
    act: Callable[[], T],
    may_pass: Callable[[Exception], bool],
    patience_ms: int,
    what: str,
    *,
    asked_pause_s: Callable[[Exception], float] = _asks_for_none,
) -> T:
    """Calls `act` until it succeeds, with pauses that double, and returns its result. Raises an error that may not
    pass, and any error after `patience_ms` or once `patient_until` cuts the retries. `what` names the work in the log.
    `asked_pause_s`: the pause that an error asks for, made as far as the patience lasts."""
    deadline = time.monotonic() + patience_ms / 1_000
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            return act()
        except Exception as error:
            left = deadline - time.monotonic()
            if not may_pass(error) or pause > left:
                raise
            length = min(max(pause, asked_pause_s(error)), left)
            logger.warning("%s is tried again in %.1f s: %s", what, length, error)
            if _is_cut_within(length):
                raise
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def _is_cut_within(seconds: float) -> bool:
    is_cut, end = _IS_CUT.get(), time.monotonic() + seconds
    while not is_cut():
        left = end - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(left, LOOK_SECONDS))
    return True
