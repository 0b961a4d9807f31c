"""How far a task is: what its process tells, with the rate of its records."""

from __future__ import annotations

from typing import Any

import msgspec

LATE = 2.0
"""Intervals without news, after which the rate is 0: a task tells only what has changed."""


class Told(msgspec.Struct, frozen=True):
    """The progress that a process tells: totals since its start (`moldau.connect.running`)."""

    records: int = 0
    bytes: int = 0
    batches: int = 0
    lag: int | None = None
    idle: bool = False
    offset: Any = None


class TaskProgress(msgspec.Struct, frozen=True):
    """As the REST interface shows it. `bytes`: of keys and values. `memory_bytes`: of the process and those it
    has started."""

    records: int
    records_per_second: float
    bytes: int
    batches: int
    lag: int | None
    idle: bool
    offset: Any
    memory_bytes: int | None


class Looks(msgspec.Struct, frozen=True):
    """The newest progress of a process, and when it came. `interval_s`: since the one before, or since the start."""

    told: Told
    told_s: float
    interval_s: float
    new_records: int

    def after(self, given: object, now_s: float) -> Looks:
        """With a further line. One of another shape counts as none."""
        try:
            told = msgspec.convert(given, Told)
        except msgspec.ValidationError:
            return self
        return Looks(told, now_s, now_s - self.told_s, told.records - self.told.records)

    def shown(self, now_s: float, memory_bytes: int | None) -> TaskProgress:
        told = self.told
        is_late = now_s - self.told_s > LATE * max(self.interval_s, 1.0)
        rate = 0.0 if is_late or self.interval_s <= 0 else max(0.0, self.new_records / self.interval_s)
        return TaskProgress(
            told.records, round(rate, 1), told.bytes, told.batches, told.lag, told.idle, told.offset, memory_bytes
        )


def looks_from(started_s: float) -> Looks:
    """Of a process that has told nothing yet."""
    return Looks(Told(), started_s, 0.0, 0)
