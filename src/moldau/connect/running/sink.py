"""The task of a sink: notes the offsets of a batch, writes it, and commits them to the group `connect-NAME`."""

from __future__ import annotations

import time
import uuid
from typing import Any, Final

from confluent_kafka import Message, TopicPartition
from pyspark.sql.datasource import (
    CaseInsensitiveDict,
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)

from moldau.connect.contract.describing import Description, RowColumns
from moldau.connect.contract.shared_settings import BATCH_BYTES, BATCH_ROWS, MEMORY, ROW_COLUMNS
from moldau.connect.handling.stages import RowsRejectedError, Stage, error_settings
from moldau.connect.running.arrow import record_batches
from moldau.connect.running.clients import consumer_settings, producer_settings
from moldau.connect.running.contexts import set_context
from moldau.connect.running.conversion import Conversion
from moldau.connect.running.errors import REPLICATION, Errors, make_letters_topic
from moldau.connect.running.incoming import Decoder, Incoming, RowMaker, Shape, positions_of
from moldau.connect.running.intake import Intake, Ranges
from moldau.connect.running.jobs import Step
from moldau.connect.running.memory import check_memory
from moldau.connect.running.places import place_key, read_place, to_json
from moldau.connect.running.protocol import Commands, Progress, Task
from moldau.connect.running.transactions import Transactions
from moldau.errors import MoldauError

LONG_WRITE_S: Final = 5.0
"""After a longer write, the task asks whether another one has taken its place, before it publishes the batch."""


class BatchError(MoldauError):
    """A batch that cannot be written again as it was."""


class SinkJob:
    def __init__(
        self,
        task: Task,
        found: type[DataSource],
        description: Description,
        values: dict[str, Any],
        commands: Commands,
    ) -> None:
        self.progress = Progress()
        self._task = task
        self._is_stopping = commands.is_stopping.is_set
        self._error_settings = error_settings(task.config)
        self._letters_replicas: int = values[REPLICATION]
        self._errors = Errors(self._error_settings, task, commands.is_stopping)
        self._memory_mb: int = values[MEMORY]
        self._columns = RowColumns(values[ROW_COLUMNS] or description.row_columns)
        self._sink = found(CaseInsensitiveDict(task.config))
        self._conversion = Conversion(task.config, task.defaults, self._errors)
        self._transactions = Transactions(producer_settings(task), self._is_stopping)
        settings = consumer_settings(task, f"connect-{task.connector}")
        decoder = Decoder(self._conversion, self._columns)
        self._intake = Intake(task, settings, decoder, values[BATCH_ROWS], values[BATCH_BYTES])
        self._shape: Shape | None = None
        self._made: tuple[RowMaker, DataSourceStreamWriter] | None = None
        self._id, self._batch = "", 0
        self._pending: Ranges = {}
        self._noted_s = 0.0
        self._rejected: set[tuple[str | None, int | None, int | None]] = set()
        """The records of the batch that the target rejects."""
        self._reached: dict[str, dict[str, int]] = {}

    def start(self) -> None:
        self._transactions.start()
        note = read_place(self._task, self._is_stopping) or {"id": uuid.uuid4().hex, "batch": 0, "ranges": {}}
        self._id, self._batch = note["id"], note["batch"]
        ranges = {
            (topic, int(index)): (start, end)
            for topic, parts in note["ranges"].items()
            for index, (start, end) in parts.items()
        }
        committed = self._intake.committed(list(ranges))
        if all(committed.get(one, -1) >= end for one, (_, end) in ranges.items()):
            self._batch += bool(ranges)
        else:
            self._pending = ranges
        make_letters_topic(self._task, self._error_settings, self._letters_replicas)
        self._intake.look_for_partitions()

    def step(self, wait_s: float) -> Step:
        self._intake.look_for_partitions()
        if self._pending:
            batch = self._intake.read_again(self._pending, self._is_stopping)
            ranges = self._pending
        else:
            batch = self._intake.next_batch(wait_s)
            ranges = positions_of(batch)
        if ranges:
            self._note(ranges)
        self.progress.look(self._intake.lag())
        if not ranges:
            return Step.WAITED if self.progress.lag == 0 else Step.BUSY
        self._write(batch)
        self._commit(ranges)
        self._count(batch, ranges)
        return Step.BUSY

    def pause(self) -> None:
        """Nothing is open between two steps."""

    def close(self) -> None:
        self._transactions.abort()
        self._intake.close()
        self._conversion.close()

    def _note(self, ranges: Ranges, *, with_letters: bool = False) -> None:
        parts: dict[str, dict[str, list[int]]] = {}
        for (topic, index), (start, end) in ranges.items():
            parts.setdefault(topic, {})[str(index)] = [start, end]
        note = {"id": self._id, "batch": self._batch, "ranges": parts}
        self._transactions.begin()
        key = place_key(self._task.connector, self._task.slot)
        self._transactions.send(self._task.offsets_topic, to_json(note), key)
        if with_letters:
            self._send_letters()
        self._transactions.commit()
        self._pending, self._noted_s = ranges, time.monotonic()

    def _write(self, batch: Incoming) -> None:
        """A retriable error writes the batch again, here. After another one the next start does so."""
        present = batch.present()
        if not len(present):
            return
        check_memory(self._memory_mb)
        self._rejected.clear()
        maker, writer = self._writer(present)
        set_context(f"{self._task.connector}-{self._task.slot}-{self._id}", self._batch, self._task.slot)
        self._errors.run(Stage.TASK_PUT, type(writer).__qualname__, lambda: self._publish_rest(present, maker, writer))

    def _publish_rest(self, batch: Incoming, maker: RowMaker, writer: DataSourceStreamWriter) -> None:
        """Publishes the batch without the rows that the target rejects. Raises RejectedError if that is not
        tolerated."""
        while len(batch):
            try:
                self._publish(batch, maker, writer)
                return
            except RowsRejectedError as error:
                for place, reason in error.rejected:
                    message = batch.messages[place]
                    where = f"The record {message.topic()}-{message.partition()} at offset {message.offset()}"
                    self._reject(type(writer).__qualname__, f"{where} was rejected: {reason}", message)
                batch = batch.without({place for place, _ in error.rejected})
                # before the target has the batch: a batch that it has is not looked at again, after a crash
                self._note(self._pending, with_letters=True)

    def _reject(self, executing: str, reason: str, message: Message) -> None:
        """Once for a record of the batch, however often the batch is tried."""
        place = (message.topic(), message.partition(), message.offset())
        if place not in self._rejected:
            self._rejected.add(place)
            self._errors.reject(executing, reason, message)

    def _publish(self, batch: Incoming, maker: RowMaker, writer: DataSourceStreamWriter) -> None:
        messages: list[WriterCommitMessage | None] = []
        rows = maker.rows(batch)
        try:
            if isinstance(writer, DataSourceStreamArrowWriter):
                messages.append(writer.write(record_batches(rows, maker.schema)))
            else:
                messages.append(writer.write(rows))
            for place, reason in getattr(messages[0], "rejected", ()):
                self._reject(type(writer).__qualname__, reason, batch.messages[place])
            if time.monotonic() - self._noted_s > LONG_WRITE_S:
                self._note(self._pending)
            writer.commit(messages, self._batch)
        except BaseException:
            writer.abort(messages or [None], self._batch)
            raise

    def _writer(self, batch: Incoming) -> tuple[RowMaker, DataSourceStreamWriter]:
        shape = _joined(self._shape or Shape(), batch) or _joined(Shape(), batch)
        if shape is None:
            raise BatchError(
                f"batch {self._batch} was noted with one schema, and its records have several now: "
                "set the converters and transforms as they were, until the batch is written"
            )
        if self._made is None or shape != self._shape:
            maker = RowMaker(shape, self._columns, self._conversion)
            self._made = (maker, self._sink.streamWriter(maker.schema, False))
            self._shape = shape
        return self._made

    def _commit(self, ranges: Ranges) -> None:
        offsets = [TopicPartition(topic, index, end) for (topic, index), (_, end) in ranges.items()]
        self._transactions.begin()
        self._send_letters()
        self._transactions.send_offsets(offsets, self._intake.group_metadata())
        self._transactions.commit()
        self._pending = {}
        self._batch += 1

    def _send_letters(self) -> None:
        letters = self._errors.take_letters()
        self._transactions.send_all(
            (one.topic, one.value, one.key, None, one.timestamp_ms, one.headers) for one in letters
        )

    def _count(self, batch: Incoming, ranges: Ranges) -> None:
        self._intake.done(ranges)
        for (topic, index), (_, end) in ranges.items():
            self._reached.setdefault(topic, {})[str(index)] = end
        offset = {topic: dict(parts) for topic, parts in self._reached.items()}
        self.progress.count(len(batch), sum(batch.sizes), {topic for topic, _ in ranges}, offset)
        self.progress.look(self._intake.lag())


def _joined(shape: Shape | None, batch: Incoming) -> Shape | None:
    """The shape of all. None: they differ."""
    for one in batch.shapes:
        if shape is not None and one is not shape:
            shape = shape.joined(one)
    return shape
