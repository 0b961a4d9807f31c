"""What the loop of a task runs: a source or a sink."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol

from moldau.connect.running.protocol import Commands, Progress, Task


class Step(Enum):
    BUSY = auto()
    IDLE = auto()
    """Nothing is new; the loop waits."""
    WAITED = auto()
    """Nothing is new, and the job itself has waited."""
    FINISHED = auto()


class Job(Protocol):
    progress: Progress

    def start(self) -> None:
        """Fences earlier tasks of the slot and finds its place."""

    def step(self, wait_s: float) -> Step:
        """One batch. May wait for records as long as `wait_s`; the loop waits after IDLE."""

    def pause(self) -> None:
        """No step follows until the task is resumed."""

    def close(self) -> None:
        """Ends an open transaction. Called once, also after an error."""


OpenJob = Callable[[Task, Commands], tuple[Job, float]]
"""Makes the job of a task, and the seconds between two looks."""
