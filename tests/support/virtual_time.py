"""Waits on a loop with virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from moldau.simulation.loop import VirtualLoop

PATIENCE_S = 60


async def until(condition: Callable[[], object]) -> None:
    """Returns when `condition` holds; it is checked every 20 ms of virtual time."""
    assert isinstance(asyncio.get_running_loop(), VirtualLoop)
    for _ in range(PATIENCE_S * 50):
        if condition():
            return
        await asyncio.sleep(0.02)
    pytest.fail("it took too long")
