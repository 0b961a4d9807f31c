"""When a task that failed starts again: after 1 s, 2 s, 4 s, ... up to a minute, and a bounded number of times."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_S, LONGEST_S = 1.0, 60.0
HEALTHY_S = 60.0
"""A task that ran so long begins to count again."""


@dataclass(frozen=True, slots=True)
class BackOff:
    """`most`: starts after a failure; then the task stays FAILED until somebody restarts it."""

    most: int
    failures: int = 0

    def after_failure(self, ran_s: float) -> tuple[BackOff, float | None]:
        """The next back-off, and the seconds until the next start. None: there is none."""
        failures = 1 if ran_s >= HEALTHY_S else self.failures + 1
        wait_s = min(LONGEST_S, FIRST_S * 2.0 ** (failures - 1)) if failures <= self.most else None
        return BackOff(self.most, failures), wait_s
