"""Tries again what fails only while somebody else is away."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

logger = logging.getLogger("moldau.pipelines")

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.2, 10.0


def keep_trying(act: Callable[[], T], may_pass: Callable[[Exception], bool], patience_ms: int, what: str) -> T:
    """Calls `act` until it raises no error that may pass, with pauses that double, and gives what it gave; after
    `patience_ms` the error is raised. `what` names the work in the log."""
    deadline = time.monotonic() + patience_ms / 1_000
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            return act()
        except Exception as error:
            if not may_pass(error) or time.monotonic() + pause > deadline:
                raise
            logger.warning("%s is tried again in %.1f s: %s", what, pause, error)
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
