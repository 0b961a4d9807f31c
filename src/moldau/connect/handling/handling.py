"""Runs one stage for one record (Kafka's RetryWithToleranceOperator, KIP-298).

A retriable error is tried again until `errors.retry.timeout` has passed: first after 300 ms, then after twice as long
each time. Where the delay would be above `errors.retry.delay.max.ms`, a random one below that is taken.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from moldau.connect.handling.dead_letters import Consumed, DeadLetter, Failure, dead_letter
from moldau.connect.handling.stages import TOLERATED_STAGES, ErrorSettings, RetriableError, Stage, StoppedError

FIRST_DELAY_MS = 300
_MAX_DOUBLINGS = 40
_log = logging.getLogger(__name__)
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Passed(Generic[_Value]):
    value: _Value


@dataclass(frozen=True, slots=True)
class Skipped:
    """The record is left out. `letter`: to produce, None without a topic for it."""

    failure: Failure
    letter: DeadLetter | None


@dataclass(frozen=True, slots=True)
class Failed:
    """The task fails. Kafka sends a dead letter for the record here too, each time that the task meets it."""

    failure: Failure
    letter: DeadLetter | None


@dataclass(slots=True)
class Counts:
    """Since the task started (Kafka's task-error-metrics)."""

    failures: int = 0
    errors: int = 0
    skipped: int = 0
    retries: int = 0
    logged: int = 0


@dataclass(frozen=True, slots=True)
class Clock:
    """`sleep` waits for these milliseconds, or until the task is stopped: then it returns True. `below`: a random
    number from 0, below the given one."""

    now_ms: Callable[[], int]
    sleep: Callable[[int], bool]
    below: Callable[[int], int] = random.randrange


class Handling:
    """The errors of one task. One thread uses it."""

    def __init__(self, settings: ErrorSettings, connector: str, task: int, clock: Clock) -> None:
        self._settings = settings
        self._connector = connector
        self._task = task
        self._clock = clock
        self.counts = Counts()

    def run(
        self,
        stage: Stage,
        executing: str,
        operation: Callable[[], _Value],
        consumed: Consumed | None = None,
    ) -> Passed[_Value] | Skipped | Failed:
        """`executing`: the name of the class or function that runs. `consumed`: the record of a sink; without it no
        dead letter is made. Raises StoppedError, and does not catch what is no Exception (KeyboardInterrupt)."""
        start_ms, attempts = self._clock.now_ms(), 0
        while True:
            attempts += 1
            try:
                return Passed(operation())
            except StoppedError:
                raise
            except RetriableError as error:
                self.counts.failures += 1
                if not self._waits(start_ms, attempts):
                    return self._ended(Failure(stage, executing, error, attempts), consumed, is_of_record=True)
            except Exception as error:
                self.counts.failures += 1
                is_of_record = stage in TOLERATED_STAGES
                return self._ended(Failure(stage, executing, error, attempts), consumed, is_of_record=is_of_record)

    def reported(
        self, executing: str, error: Exception, consumed: Consumed | None, stage: Stage = Stage.TASK_PUT
    ) -> Skipped | Failed:
        """A record that a sink (KIP-610) or the cluster rejects, while the others of its batch are kept."""
        self.counts.failures += 1
        return self._ended(Failure(stage, executing, error, 1), consumed, is_of_record=True)

    def _waits(self, start_ms: int, attempts: int) -> bool:
        """False: there is no time for another try."""
        settings, now_ms = self._settings, self._clock.now_ms()
        left_ms = None if settings.retry_timeout_ms < 0 else start_ms + settings.retry_timeout_ms - now_ms
        if left_ms is not None and left_ms <= 0:
            return False
        delay_ms = FIRST_DELAY_MS << min(attempts - 1, _MAX_DOUBLINGS)
        if delay_ms > settings.retry_delay_max_ms:
            delay_ms = self._clock.below(settings.retry_delay_max_ms)
        if left_ms is not None:
            delay_ms = min(delay_ms, left_ms)
        if self._clock.sleep(delay_ms):
            raise StoppedError("The task was stopped while it waited for the next try")
        self.counts.retries += 1
        return True

    def _ended(self, failure: Failure, consumed: Consumed | None, *, is_of_record: bool) -> Skipped | Failed:
        if not is_of_record:
            return Failed(failure, None)
        self.counts.errors += 1
        letter = self._letter(failure, consumed)
        if self._settings.is_logged:
            self._logs(failure, consumed)
        if not self._settings.tolerates_all:
            return Failed(failure, letter)
        self.counts.skipped += 1
        return Skipped(failure, letter)

    def _letter(self, failure: Failure, consumed: Consumed | None) -> DeadLetter | None:
        topic = self._settings.letters_topic
        if not topic or consumed is None:
            return None
        has_context = self._settings.letters_have_context
        return dead_letter(topic, consumed, failure, self._connector, self._task, has_context=has_context)

    def _logs(self, failure: Failure, consumed: Consumed | None) -> None:
        self.counts.logged += 1
        place = f", where the consumed record is {consumed}" if self._settings.logs_record and consumed else ""
        _log.error(
            "Error encountered in task %s-%s. Executing stage '%s' with class '%s'%s.",
            self._connector,
            self._task,
            failure.stage.value,
            failure.executing,
            place,
            exc_info=failure.error,
        )
