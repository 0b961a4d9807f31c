"""The stages of a record on its way between a connector and a topic, and the settings of errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from moldau.connect.configuration import Importance, Kind, Setting, in_range, one_of, parse
from moldau.errors import MoldauError


class Stage(StrEnum):
    """The names are Kafka's: a dead letter has them in a header."""

    TASK_POLL = "TASK_POLL"
    TASK_PUT = "TASK_PUT"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    KAFKA_CONSUME = "KAFKA_CONSUME"


TOLERATED_STAGES = frozenset({Stage.TRANSFORMATION, Stage.KEY_CONVERTER, Stage.VALUE_CONVERTER, Stage.HEADER_CONVERTER})
"""Here any error is one of the record. In the other stages only a retriable error can be tolerated."""


IN_STAGE = "in stage "
"""How the line of a trace begins that says where a record failed."""


class RetriableError(MoldauError):
    """An error that may be gone at the next try. A connector raises it for a target that is away."""


class RowsRejectedError(MoldauError):
    """The target rejects these rows of a batch, by their places in it, with its reasons. Nothing of the batch was
    published. A sink's `commit` raises it; the task writes the batch again without the rows, if that is tolerated."""

    def __init__(self, rejected: Sequence[tuple[int, str]]) -> None:
        super().__init__(f"{len(rejected)} rows were rejected, the first one: {rejected[0][1]}")
        self.rejected = tuple(rejected)


class StoppedError(MoldauError):
    """The task is stopped while it waits for the next try. The record counts as not handled."""


@dataclass(frozen=True, slots=True)
class ErrorSettings:
    """Milliseconds. `retry_timeout_ms` -1: without end. `letters_topic` empty: no dead letters."""

    tolerates_all: bool = False
    retry_timeout_ms: int = 0
    retry_delay_max_ms: int = 60_000
    is_logged: bool = False
    logs_record: bool = False
    letters_topic: str = ""
    letters_have_context: bool = False


_SETTINGS = (
    Setting("errors.tolerance", Kind.STRING, "none", Importance.MEDIUM, check=one_of("none", "all")),
    Setting("errors.retry.timeout", Kind.LONG, 0, Importance.MEDIUM, check=in_range(-1)),
    Setting("errors.retry.delay.max.ms", Kind.LONG, 60_000, Importance.MEDIUM, check=in_range(1)),
    Setting("errors.log.enable", Kind.BOOLEAN, False),
    Setting("errors.log.include.messages", Kind.BOOLEAN, False),
    Setting("errors.deadletterqueue.topic.name", Kind.STRING, ""),
    Setting("errors.deadletterqueue.context.headers.enable", Kind.BOOLEAN, False),
)
"""The task's reading of them. Their documentation is in `contract.shared_settings`."""


def error_settings(config: Mapping[str, str | None]) -> ErrorSettings:
    """Those of a connector's configuration. Raises ConfigError."""
    tolerance, timeout, delay, is_logged, logs_record, topic, context = parse(_SETTINGS, config).values()
    return ErrorSettings(
        tolerance == "all",
        int(str(timeout)),
        int(str(delay)),
        bool(is_logged),
        bool(logs_record),
        str(topic),
        bool(context),
    )
