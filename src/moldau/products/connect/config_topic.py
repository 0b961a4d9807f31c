"""Where the configurations are kept: a topic that one worker at a time writes, or the memory of a worker alone.

Every worker applies the committed records to its state. The first transaction of a new writer is a record that changes
nothing; when the writer reads it back, its state has all earlier records. So each request is decided on a complete
state.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from confluent_kafka import KafkaException

from moldau.client.protocol.access import ClusterAccess
from moldau.products.compacted_topic import TopicError, TopicWriter, is_fenced
from moldau.products.connect.core import refusals
from moldau.products.connect.core.configs import ConfigState, Record
from moldau.products.connect.followed_topic import FollowedTopic

T = TypeVar("T")
Decide = Callable[[ConfigState], tuple[Sequence[Record], T]]

_NOTHING: Record = (b"moldau-writer", None)


class Configs(Protocol):
    """Thread-safe."""

    def look(self, ask: Callable[[ConfigState], T]) -> T:
        """The answer of a quick question; the state does not change meanwhile."""
        ...

    def write(self, decide: Decide[T]) -> T:
        """The answer of `decide`, when its records are kept and applied. Raises its errors, and Refusal."""
        ...

    def give_up(self) -> None:
        """Another worker may write now."""
        ...

    def close(self) -> None: ...


class ConfigTopic:
    """The topic of a group of workers."""

    def __init__(
        self, access: ClusterAccess, topic: str, replicas: int | None, group_id: str, changed: Callable[[], None]
    ) -> None:
        """Creates the topic if it is missing, and returns when the state includes all of it. `changed`: called after
        each record, in the reading thread. Raises TopicError."""
        self._state = ConfigState()
        self._changed = changed
        self._writing = threading.Lock()
        self._writer: TopicWriter | None = None
        self._transactional_id = f"{group_id}-configs"
        self._topic = FollowedTopic(access, topic, self._apply, partitions=1, replicas=replicas)
        if self._topic.partitions != 1:
            self._topic.close()
            raise TopicError(
                f"the topic {topic} has {self._topic.partitions} partitions: configurations need one, for their order"
            )

    def look(self, ask: Callable[[ConfigState], T]) -> T:
        with self._topic.changed:
            return ask(self._state)

    def write(self, decide: Decide[T]) -> T:
        with self._writing:
            try:
                writer = self._writer or self._taken()
                records, answer = self.look(decide)
                if records:
                    self._commit(writer, records)
                return answer
            except KafkaException as error:
                self._writer = None
                if is_fenced(error):
                    raise refusals.moving() from error
                raise refusals.store_failed(error.args[0].str()) from error

    def give_up(self) -> None:
        with self._writing:
            self._writer = None

    def close(self) -> None:
        self._topic.close()

    def _taken(self) -> TopicWriter:
        writer = TopicWriter(self._topic, self._transactional_id)
        self._commit(writer, [_NOTHING])
        self._writer = writer
        return writer

    def _commit(self, writer: TopicWriter, records: Sequence[Record]) -> None:
        if not self._topic.has_read(writer.commit(records)):
            raise refusals.store_failed("it was written and not yet read back")

    def _apply(self, key: bytes, value: bytes | None) -> None:
        self._state.apply(key, value)
        self._changed()


class ConfigMemory:
    """The memory of a worker alone (`--standalone`)."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._state = ConfigState()
        self._lock = threading.RLock()
        self._changed = changed

    def look(self, ask: Callable[[ConfigState], T]) -> T:
        with self._lock:
            return ask(self._state)

    def write(self, decide: Decide[T]) -> T:
        with self._lock:
            records, answer = decide(self._state)
            for key, value in records:
                self._state.apply(key, value)
        self._changed()
        return answer

    def give_up(self) -> None:
        return

    def close(self) -> None:
        return
