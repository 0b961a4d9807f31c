"""Errors of records: tries again in virtual time, tolerance, logs, and dead letters with Kafka's headers."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from moldau.connect.configuration import ConfigError
from moldau.connect.converting import converter
from moldau.connect.converting.converter import DataError
from moldau.connect.handling.dead_letters import Consumed, DeadLetter
from moldau.connect.handling.handling import Clock, Failed, Handling, Passed, Skipped
from moldau.connect.handling.stages import ErrorSettings, RetriableError, Stage, StoppedError, error_settings

CONSUMED = Consumed("t", 3, 17, b"k", b"v", (("h", b"1"),), 1_000)
TOLERATED = (Stage.TRANSFORMATION, Stage.KEY_CONVERTER, Stage.VALUE_CONVERTER, Stage.HEADER_CONVERTER)


class Time:
    """Virtual time: each sleep moves it."""

    def __init__(self, stops_after: int = 1_000) -> None:
        self.now_ms = 5_000
        self.sleeps: list[int] = []
        self._stops_after = stops_after

    def sleep(self, delay_ms: int) -> bool:
        self.sleeps.append(delay_ms)
        self.now_ms += delay_ms
        return len(self.sleeps) > self._stops_after

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.now_ms, self.sleep, lambda limit: limit // 2)


def handling(settings: ErrorSettings, time: Time | None = None) -> Handling:
    return Handling(settings, "orders", 2, (time or Time()).clock)


def failing(times: int, error: Exception) -> Callable[[], str]:
    left = [error] * times

    def operation() -> str:
        if left:
            raise left.pop()
        return "done"

    return operation


def test_a_stage_passes() -> None:
    found = handling(ErrorSettings()).run(Stage.TRANSFORMATION, "c", lambda: 5)
    assert found == Passed(5)


def test_a_retriable_error_is_tried_again_with_growing_delays() -> None:
    time = Time()
    settings = ErrorSettings(retry_timeout_ms=10_000)
    found = handling(settings, time).run(Stage.TASK_PUT, "c", failing(4, RetriableError("away")))
    assert found == Passed("done")
    assert time.sleeps == [300, 600, 1_200, 2_400]


def test_a_converter_is_tried_again_while_its_registry_is_away() -> None:
    time, error = Time(), converter.RetriableError("the registry does not answer")
    found = handling(ErrorSettings(retry_timeout_ms=1_000), time).run(Stage.VALUE_CONVERTER, "c", failing(1, error))
    assert found == Passed("done")
    assert time.sleeps == [300]


def test_the_last_try_is_at_the_timeout() -> None:
    time = Time()
    settings = ErrorSettings(retry_timeout_ms=1_000)
    one = handling(settings, time)
    found = one.run(Stage.TASK_PUT, "c", failing(99, RetriableError("away")))
    assert isinstance(found, Failed)
    assert found.failure.attempts == 4
    assert time.sleeps == [300, 600, 100]
    assert (one.counts.failures, one.counts.retries, one.counts.errors) == (4, 3, 1)


def test_a_delay_above_the_maximum_is_random_below_it() -> None:
    time = Time()
    settings = ErrorSettings(retry_timeout_ms=-1, retry_delay_max_ms=500)
    assert handling(settings, time).run(Stage.TASK_POLL, "c", failing(4, RetriableError("away"))) == Passed("done")
    assert time.sleeps == [300, 250, 250, 250]


@pytest.mark.parametrize("stage", Stage)
def test_only_retriable_errors_are_tried_again(stage: Stage) -> None:
    time = Time()
    settings = ErrorSettings(tolerates_all=True, retry_timeout_ms=60_000)
    found = handling(settings, time).run(stage, "c", failing(1, ValueError("wrong")))
    assert time.sleeps == []
    assert isinstance(found, Skipped if stage in TOLERATED else Failed)


@pytest.mark.parametrize("stage", Stage)
def test_a_retriable_error_is_tolerated_in_every_stage(stage: Stage) -> None:
    found = handling(ErrorSettings(tolerates_all=True)).run(stage, "c", failing(1, RetriableError("away")))
    assert isinstance(found, Skipped)


@pytest.mark.parametrize("stage", Stage)
def test_without_tolerance_an_error_fails_the_task(stage: Stage) -> None:
    assert isinstance(handling(ErrorSettings()).run(stage, "c", failing(1, DataError("wrong"))), Failed)


def test_a_stop_ends_the_tries() -> None:
    time = Time(stops_after=2)
    with pytest.raises(StoppedError):
        handling(ErrorSettings(tolerates_all=True, retry_timeout_ms=-1), time).run(
            Stage.TASK_PUT, "c", failing(99, RetriableError("away"))
        )
    assert len(time.sleeps) == 3


def test_a_dead_letter_has_kafkas_headers() -> None:
    settings = ErrorSettings(tolerates_all=True, letters_topic="dead", letters_have_context=True)
    found = handling(settings).run(Stage.VALUE_CONVERTER, "json", failing(1, DataError("no JSON")), CONSUMED)
    assert isinstance(found, Skipped)
    letter = found.letter
    assert letter is not None
    assert (letter.topic, letter.key, letter.value, letter.timestamp_ms) == ("dead", b"k", b"v", 1_000)
    headers = dict(letter.headers)
    trace = headers.pop("__connect.errors.exception.stacktrace")
    assert trace is not None
    assert b"DataError: no JSON" in trace
    assert headers == {
        "h": b"1",
        "__connect.errors.topic": b"t",
        "__connect.errors.partition": b"3",
        "__connect.errors.offset": b"17",
        "__connect.errors.connector.name": b"orders",
        "__connect.errors.task.id": b"2",
        "__connect.errors.stage": b"VALUE_CONVERTER",
        "__connect.errors.class.name": b"json",
        "__connect.errors.exception.class.name": b"moldau.connect.converting.converter.DataError",
        "__connect.errors.exception.message": b"no JSON",
    }


def test_a_dead_letter_without_context_is_the_record() -> None:
    settings = ErrorSettings(tolerates_all=True, letters_topic="dead")
    found = handling(settings).run(Stage.TRANSFORMATION, "c", failing(1, DataError("x")), CONSUMED)
    assert isinstance(found, Skipped)
    assert found.letter == DeadLetter("dead", b"k", b"v", (("h", b"1"),), 1_000)


def test_a_record_that_a_sink_reports_is_a_dead_letter() -> None:
    one = handling(ErrorSettings(tolerates_all=True, letters_topic="dead"))
    assert isinstance(one.reported("sink", ValueError("too long"), CONSUMED), Skipped)
    assert one.counts.skipped == 1
    assert isinstance(handling(ErrorSettings()).reported("sink", ValueError("too long"), CONSUMED), Failed)


def test_an_unexpected_error_of_a_task_is_no_dead_letter() -> None:
    settings = ErrorSettings(tolerates_all=True, letters_topic="dead")
    found = handling(settings).run(Stage.TASK_PUT, "c", failing(1, ValueError("a bug")), CONSUMED)
    assert isinstance(found, Failed)
    assert found.letter is None


@pytest.mark.parametrize(("logs_record", "place"), [(False, False), (True, True)])
def test_errors_are_logged(logs_record: bool, place: bool, caplog: pytest.LogCaptureFixture) -> None:
    settings = ErrorSettings(tolerates_all=True, is_logged=True, logs_record=logs_record)
    with caplog.at_level(logging.ERROR):
        handling(settings).run(Stage.TRANSFORMATION, "Cast$Value", failing(1, DataError("x")), CONSUMED)
    (row,) = caplog.records
    text = row.getMessage()
    assert "task orders-2. Executing stage 'TRANSFORMATION' with class 'Cast$Value'" in text
    assert ("topic='t', partition=3, offset=17, timestamp=1000" in text) is place
    assert row.exc_info is not None


def test_settings_are_read_from_the_configuration() -> None:
    config = {
        "errors.tolerance": "all",
        "errors.retry.timeout": "-1",
        "errors.retry.delay.max.ms": "1000",
        "errors.log.enable": "true",
        "errors.log.include.messages": "true",
        "errors.deadletterqueue.topic.name": "dead",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    assert error_settings(config) == ErrorSettings(True, -1, 1_000, True, True, "dead", True)
    assert error_settings({"name": "c"}) == ErrorSettings()
    with pytest.raises(ConfigError, match=r"errors\.tolerance"):
        error_settings({"errors.tolerance": "some"})
