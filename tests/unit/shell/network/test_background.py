"""The errors of background work that no code waits for."""

from __future__ import annotations

import asyncio
import logging

import pytest

from moldau.errors import InvariantError, StorageFullError
from moldau.shell.io.simulated.clock import ManualClock
from moldau.shell.network.background import BackgroundTasks
from moldau.shell.network.event_log import EventLog


@pytest.mark.asyncio
async def test_a_broken_invariant_is_told_and_every_other_error_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    broken: list[InvariantError] = []
    tasks = BackgroundTasks(asyncio.get_running_loop(), EventLog(ManualClock()), broken.append)

    async def fail(error: Exception) -> None:
        raise error

    for error in (InvariantError("a rule"), StorageFullError("no space"), ValueError("a slip")):
        tasks.spawn(fail(error))
    assert tasks
    with caplog.at_level(logging.ERROR, "moldau"):
        for _ in range(5):
            await asyncio.sleep(0)
    assert not tasks
    assert [str(error) for error in broken] == ["a rule"]
    assert "no space" in caplog.text
    assert "ValueError: a slip" in caplog.text


@pytest.mark.asyncio
async def test_what_is_cancelled_ends_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    broken: list[InvariantError] = []
    tasks = BackgroundTasks(asyncio.get_running_loop(), EventLog(ManualClock()), broken.append)
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait() -> None:
        await never

    tasks.spawn(wait())
    await asyncio.sleep(0)
    tasks.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not tasks
    assert not broken
    assert not caplog.text


@pytest.mark.asyncio
async def test_what_is_spawned_after_the_end_does_not_begin() -> None:
    """The flusher retries when a full disk has room; a clean stop in between flushes the same log itself."""
    tasks = BackgroundTasks(asyncio.get_running_loop(), EventLog(ManualClock()), lambda _: None)
    begun: list[str] = []

    async def work() -> None:
        begun.append("work")

    tasks.cancel()
    tasks.spawn(work())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not tasks
    assert begun == []
