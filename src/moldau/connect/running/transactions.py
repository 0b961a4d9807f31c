"""Transactions of a task. A later task with the same transactional id fences this one, which then writes nothing."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from moldau.errors import MoldauError

TRY_S: Final = 5.0
"""One try of a request to the coordinator. The task looks for "stop" between two tries."""
FULL_WAIT_S: Final = 0.05
ANY_PARTITION: Final = -1
"""The producer chooses (librdkafka's RD_KAFKA_PARTITION_UA)."""

_FENCED: Final = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)

_PERMANENT: Final = (
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_MSG_SIZE,
    KafkaError.INVALID_RECORD,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.POLICY_VIOLATION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)
"""Errors of a record that another try does not mend."""

Headers = Sequence[tuple[str, bytes | None]]
Outgoing = tuple[str, bytes | str | None, bytes | str | None, int | None, int | None, Headers]
"""A record: topic, value, key, partition (None: the producer chooses), time in ms (None: now), headers."""


class FencedError(MoldauError):
    """Another task has taken the place of this one."""


class AbortedError(MoldauError):
    """The transaction is aborted: its batch can be tried again."""


class RejectedError(MoldauError):
    """The cluster does not take a record, and would not at the next try."""


class TooLargeError(RejectedError):
    """Records are larger than their topic takes. `marks`: of these records (`mark_of`)."""

    def __init__(self, sentence: str, marks: frozenset[bytes]) -> None:
        super().__init__(sentence)
        self.marks = marks


class BatchTooLargeError(MoldauError):
    """A topic does not take batches of this size. Its records may fit one by one (`send_singly`)."""


class StoppedError(MoldauError):
    """The task is stopped while it waits for the cluster."""


class Transactions:
    """A transactional producer. `is_stopping` ends waiting for the cluster."""

    def __init__(self, settings: Mapping[str, Any], is_stopping: Callable[[], bool]) -> None:
        self._failed: KafkaError | None = None
        self._failed_topic = ""
        self._too_large: dict[bytes, str] = {}
        """A sentence for each record of the transaction that is too large, by its mark."""
        self._settings = settings
        self._is_single = False
        self._producer = Producer({**settings, "on_delivery": self._delivered})
        self._is_stopping = is_stopping
        self._is_open = False

    def start(self) -> None:
        """Fences the tasks before this one and ends their transactions. Raises FencedError, StoppedError,
        KafkaException."""
        self._repeat(lambda: self._producer.init_transactions(TRY_S))

    def send_singly(self) -> None:
        """Each batch has one record from now on, which is slower. Call `start` then, and read the place again: a task
        that has taken the place of this one is fenced, too."""
        self._is_single = True
        self._producer = Producer({**self._settings, "batch.num.messages": 1, "on_delivery": self._delivered})

    def begin(self) -> None:
        self._failed = None
        self._too_large = {}
        self._producer.begin_transaction()
        self._is_open = True

    def send(self, topic: str, value: bytes | str | None, key: bytes | str | None = None) -> None:
        self.send_all([(topic, value, key, None, None, ())])

    def send_all(self, records: Iterable[Outgoing]) -> None:
        """Waits while the producer's buffer is full. Raises RejectedError, AbortedError, FencedError, StoppedError."""
        produce = self._producer.produce
        for topic, value, key, partition, timestamp_ms, headers in records:
            index = ANY_PARTITION if partition is None else partition
            listed = list(headers) if headers else None
            while True:
                try:
                    # by place, because names cost as much as the call
                    produce(topic, value, key, index, None, None, timestamp_ms or 0, listed)
                    break
                except BufferError:
                    self._producer.poll(FULL_WAIT_S)
                    self._check_stopping()
                except KafkaException as exception:
                    self._note_failure(exception.args[0], topic)
                    if exception.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                        self._note_too_large(topic, value, key)
                    raise self._ended(exception.args[0]) from exception

    def serve(self) -> None:
        """Handles what the cluster has answered. Call it now and then while records are sent."""
        self._producer.poll(0)

    def send_offsets(self, offsets: Sequence[TopicPartition], group: object) -> None:
        self._repeat(lambda: self._producer.send_offsets_to_transaction(list(offsets), group, TRY_S))

    def commit(self) -> None:
        """Raises RejectedError or AbortedError for a transaction that failed, FencedError, StoppedError."""
        self._repeat(lambda: self._producer.commit_transaction(TRY_S))
        self._is_open = False

    def abort(self) -> None:
        """Does nothing without an open transaction."""
        if self._is_open:
            self._is_open = False
            self._repeat(lambda: self._producer.abort_transaction(TRY_S))

    def _repeat(self, request: Callable[[], object]) -> None:
        while True:
            try:
                request()
                return
            except KafkaException as exception:
                error: KafkaError = exception.args[0]
                if not error.retriable():
                    raise self._ended(error) from exception
            self._check_stopping()
            time.sleep(FULL_WAIT_S)

    def _ended(self, error: KafkaError) -> MoldauError | KafkaException:
        """The error to raise, after the transaction is aborted where that is possible."""
        if error.fatal() or error.code() in _FENCED:
            self._is_open = False
            if error.code() in _FENCED or _is_fenced(error):
                return FencedError(f"another task with this transactional id has started: {error.str()}")
            return KafkaException(error)
        failed = self._failed
        if self._is_open:
            self.abort()
            if failed is None:
                return AbortedError(error.str())
            reason = f"{failed.str()} (topic {self._failed_topic})"
            if self._too_large:
                return TooLargeError("; ".join(self._too_large.values()), frozenset(self._too_large))
            if failed.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                return BatchTooLargeError(reason)
            return RejectedError(reason) if failed.code() in _PERMANENT else AbortedError(reason)
        return KafkaException(error)

    def _check_stopping(self) -> None:
        if self._is_stopping():
            raise StoppedError("stopped while the cluster did not answer")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._note_failure(error, message.topic() or "")
            if self._is_single and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                self._note_too_large(message.topic() or "", message.value(), message.key())

    def _note_too_large(self, topic: str, value: bytes | str | None, key: bytes | str | None) -> None:
        size = len(_bytes(value)) + len(_bytes(key))
        sentence = f"a record of {size} bytes is larger than the topic {topic} takes (max.message.bytes)"
        self._too_large[mark_of(topic, value, key)] = sentence

    def _note_failure(self, error: KafkaError, topic: str) -> None:
        """The first error is the cause of the others."""
        if self._failed is None and error.code() != KafkaError._PURGE_QUEUE:
            self._failed, self._failed_topic = error, topic


def mark_of(topic: str, value: bytes | str | None, key: bytes | str | None) -> bytes:
    """Tells a record from others, in few bytes."""
    found = hashlib.blake2b(digest_size=16)
    for part in (topic, value, key):
        found.update(b"-" if part is None else b"%d:" % len(_bytes(part)) + _bytes(part))
    return found.digest()


def _bytes(part: bytes | str | None) -> bytes:
    return part.encode() if isinstance(part, str) else part or b""


def _is_fenced(error: KafkaError) -> bool:
    return error.code() == KafkaError._FATAL and "fenced" in error.str().lower()
