"""The memory of `moldau pipeline serve` about earlier changes, on the simulator's loop."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest

from moldau.cli.pipelines.pipeline import command_with
from moldau.products.pipelines.serving.directory import SpecDirectory
from moldau.products.pipelines.serving.supervisor import LOOK_EVERY_S, _follow
from moldau.simulation.loop import virtual_loop


def test_changes_that_are_taken_are_not_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run of `serve` lasts for months, and files come and go."""
    files = [tmp_path / f"{name}.yaml" for name in "abc"]
    for file in files:
        file.write_text("name: nothing-else\n", "utf-8")

    async def look_twice() -> int:
        following = asyncio.create_task(_follow(SpecDirectory(tmp_path, {}), {}, command_with(())))
        await asyncio.sleep(1.5 * LOOK_EVERY_S)
        following.cancel()
        gc.collect()
        tasks = [one for one in gc.get_objects() if isinstance(one, asyncio.Task)]
        return sum(one.done() and one.get_loop() is asyncio.get_running_loop() for one in tasks)

    with virtual_loop() as loop:
        assert loop.run_until_complete(look_twice()) <= 1  # the newest one still has a name
    assert [line.partition(": ")[0] for line in capsys.readouterr().out.splitlines()] == [file.name for file in files]
