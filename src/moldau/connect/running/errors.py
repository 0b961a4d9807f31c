"""Errors of records in a task: which are left out, and where their dead letters go."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.connect.handling.dead_letters import Consumed, DeadLetter
from moldau.connect.handling.handling import Clock, Failed, Handling, Passed, Skipped
from moldau.connect.handling.stages import IN_STAGE, ErrorSettings, Stage
from moldau.connect.running.clients import base_settings
from moldau.connect.running.protocol import Task

REQUEST_S: Final = 30.0
REPLICATION: Final = "errors.deadletterqueue.topic.replication.factor"
_Value = TypeVar("_Value")


class Errors:
    """Dead letters are kept until `take_letters`: they are sent in the transaction of the batch's offsets."""

    def __init__(self, settings: ErrorSettings, task: Task, is_stopping: threading.Event) -> None:
        clock = Clock(lambda: time.monotonic_ns() // 1_000_000, lambda ms: is_stopping.wait(ms / 1000))
        self._handling = Handling(settings, task.connector, task.slot, clock)
        self._letters: list[DeadLetter] = []

    def run(
        self, stage: Stage, executing: str, operation: Callable[[], _Value], message: Message | None = None
    ) -> Passed[_Value] | None:
        """None: the record is left out. `message`: the record of a sink. Raises the error of a record that is not
        tolerated."""
        consumed = None if message is None else consumed_of(message)
        outcome = self._handling.run(stage, executing, operation, consumed)
        if isinstance(outcome, Passed):
            return outcome
        self._left_out(outcome, consumed)
        return None

    def reject(self, executing: str, reason: str, message: Message) -> None:
        """A record that a sink rejects. Its place is added to a reason that lacks it. Raises RejectedError if that is
        not tolerated."""
        consumed = consumed_of(message)
        place = f"{consumed.topic}-{consumed.partition} at offset {consumed.offset}"
        if place not in reason:
            reason = f"The record {place} was rejected: {reason}"
        self._left_out(self._handling.reported(executing, RejectedError(reason), consumed), consumed)

    def too_large(self, error: Exception) -> None:
        """Records of a source that their topic does not take. Raises the error if that is not tolerated."""
        outcome = self._handling.reported("Producer", error, None, Stage.KAFKA_PRODUCE)
        self._left_out(outcome, None)

    def take_letters(self) -> list[DeadLetter]:
        taken, self._letters = self._letters, []
        return taken

    @property
    def skipped(self) -> int:
        """Records that were left out since the start."""
        return self._handling.counts.skipped

    def _left_out(self, outcome: Skipped | Failed, consumed: Consumed | None) -> None:
        if isinstance(outcome, Failed):
            failure = outcome.failure
            at = "" if consumed is None else f", at {consumed.topic}-{consumed.partition} offset {consumed.offset}"
            failure.error.add_note(f"{IN_STAGE}{failure.stage} of {failure.executing}{at}")
            raise failure.error
        if outcome.letter is not None:
            self._letters.append(outcome.letter)


class RejectedError(Exception):
    """A record that a sink rejects, with the sink's reason."""


def consumed_of(message: Message) -> Consumed:
    return Consumed(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
        timestamp_ms=message.timestamp()[1],
    )


def make_letters_topic(task: Task, settings: ErrorSettings, replicas: int) -> None:
    """Makes the topic of dead letters if it does not exist, as Kafka Connect does. Raises KafkaException."""
    if not settings.letters_topic:
        return
    client: Any = AdminClient(base_settings(task))
    made = client.create_topics([NewTopic(settings.letters_topic, 1, replicas)], request_timeout=REQUEST_S)
    try:
        made[settings.letters_topic].result(REQUEST_S)
    except KafkaException as exception:
        if exception.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
