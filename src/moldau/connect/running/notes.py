"""The batches of a sink's slot: each is noted with its offsets before it is written, and done with its offsets in the
group `connect-NAME` (see `moldau.connect.running`)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import TopicPartition

from moldau.connect.handling.dead_letters import DeadLetter
from moldau.connect.running.clients import producer_settings
from moldau.connect.running.partitions import Partition
from moldau.connect.running.places import Count, count_key, place_key, to_json
from moldau.connect.running.protocol import Task
from moldau.connect.running.transactions import Transactions
from moldau.errors import MoldauError

LONG_WRITE_S: Final = 5.0
"""After a longer write, the task asks whether another one has taken its place, before it publishes the batch."""

Ranges = Mapping[Partition, tuple[int, int]]
"""The first offset of each partition, and the one after its last."""
Committed = Callable[[list[Partition]], Mapping[Partition, int]]
"""The committed offsets of the group; partitions without one are left out."""


class BatchError(MoldauError):
    """A batch that cannot be written again as it was."""

    def __init__(self, number: int) -> None:
        super().__init__(
            f"batch {number} was noted with one schema, and its records have several now: "
            "set the converters and transforms as they were, until the batch is written"
        )


class Notes:
    """`number`: of the batch that is written next, or again. `pending`: its offsets, if it is to be written again."""

    def __init__(self, task: Task, is_stopping: Callable[[], bool]) -> None:
        self.number = 0
        self.pending: Ranges = {}
        self._id = ""
        self._task = task
        self._is_stopping = is_stopping
        self._transactions = Transactions(producer_settings(task), is_stopping)
        self._noted_s = 0.0

    @property
    def query_id(self) -> str:
        """The query that a writer sees."""
        return f"{self._task.connector}-{self._task.slot}-{self._id}"

    @property
    def slot(self) -> int:
        return self._task.slot

    def fence(self) -> None:
        """Ends what earlier tasks of the slot write. Raises FencedError, StoppedError, KafkaException."""
        self._transactions.start()

    def resume(self, noted: Mapping[str, Any] | None, committed: Committed) -> None:
        """`noted`: the slot's place, read after `fence`. Raises KafkaException."""
        note = noted or {"id": uuid.uuid4().hex, "batch": 0, "ranges": {}}
        self._id, self.number = note["id"], note["batch"]
        ranges = {
            (topic, int(index)): (start, end)
            for topic, parts in note["ranges"].items()
            for index, (start, end) in parts.items()
        }
        reached = committed(list(ranges))
        if all(reached.get(one, -1) >= end for one, (_, end) in ranges.items()):
            self.number += bool(ranges)
        else:
            self.pending = ranges

    def note(self, ranges: Ranges, letters: Sequence[DeadLetter] = (), count: Count | None = None) -> None:
        """With dead letters that a batch which is written again would not give again, and the number of slots. Raises
        FencedError."""
        parts: dict[str, dict[str, list[int]]] = {}
        for (topic, index), (start, end) in ranges.items():
            parts.setdefault(topic, {})[str(index)] = [start, end]
        note = {"id": self._id, "batch": self.number, "ranges": parts}
        connector, kept_in = self._task.connector, self._task.offsets_topic
        self._transactions.begin()
        self._transactions.send(kept_in, to_json(note), place_key(connector, self.slot))
        if count is not None:
            self._transactions.send(kept_in, count.to_json(), count_key(connector))
        self._send(letters)
        self._transactions.commit()
        self.pending, self._noted_s = ranges, time.monotonic()

    def check(self) -> None:
        """Before a batch is published. Raises FencedError if another task has taken the place of this one, as far as
        it must be asked."""
        if time.monotonic() - self._noted_s > LONG_WRITE_S:
            self.note(self.pending)

    def done(self, ranges: Ranges, letters: Sequence[DeadLetter], group: object) -> None:
        """Commits the offsets, and sends dead letters in the same transaction. `group`: the metadata of the group."""
        offsets = [TopicPartition(topic, index, end) for (topic, index), (_, end) in ranges.items()]
        self._transactions.begin()
        self._send(letters)
        self._transactions.send_offsets(offsets, group)
        self._transactions.commit()
        self.pending = {}
        self.number += 1

    def close(self) -> None:
        """Ends an open transaction."""
        self._transactions.abort()

    def _send(self, letters: Sequence[DeadLetter]) -> None:
        self._transactions.send_all(
            (one.topic, one.value, one.key, None, one.timestamp_ms, one.headers) for one in letters
        )
