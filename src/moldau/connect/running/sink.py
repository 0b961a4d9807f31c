"""The task of a sink: notes the offsets of a batch, writes it, and commits them to the group `connect-NAME`."""

from __future__ import annotations

from confluent_kafka import Message
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)

from moldau.connect.contract.bounds import MEMORY
from moldau.connect.contract.describing import RowColumns
from moldau.connect.contract.shared_settings import BATCH_BYTES, BATCH_ROWS, ROW_COLUMNS
from moldau.connect.handling.stages import RowsRejectedError, Stage, error_settings
from moldau.connect.running.arrow import record_batches
from moldau.connect.running.clients import consumer_settings
from moldau.connect.running.connector import Connector
from moldau.connect.running.contexts import set_context
from moldau.connect.running.conversion import Conversion
from moldau.connect.running.errors import REPLICATION, Errors, make_letters_topic
from moldau.connect.running.incoming import Decoder, Incoming, RowMaker, Shape
from moldau.connect.running.intake import Intake
from moldau.connect.running.jobs import Step
from moldau.connect.running.memory import check_memory
from moldau.connect.running.notes import BatchError, Ranges
from moldau.connect.running.protocol import Commands, Progress, Task
from moldau.connect.running.slots import LOOK_S, Slots


class SinkJob:
    def __init__(
        self,
        task: Task,
        used: Connector,
        commands: Commands,
        intake: type[Intake] = Intake,
        rows: int | None = None,
    ) -> None:
        """`rows`: of a batch, at most; None: as the configuration says."""
        values = used.values
        self.progress = Progress()
        self._task = task
        self._stopping = commands.is_stopping
        self._error_settings = error_settings(task.config)
        self._letters_replicas: int = values[REPLICATION]
        self._errors = Errors(self._error_settings, task, commands.is_stopping)
        self._memory_mb: int = values[MEMORY]
        self._columns = RowColumns(values[ROW_COLUMNS] or used.description.row_columns)
        self._sink = used.new(task)
        self._conversion = Conversion(task.config, task.defaults, self._errors)
        settings = consumer_settings(task, f"connect-{task.connector}")
        decoder = Decoder(self._conversion, self._columns)
        self._intake = intake(task, settings, decoder, rows or values[BATCH_ROWS], values[BATCH_BYTES])
        self._slots = Slots(task, self._intake.committed, commands.is_stopping.is_set)
        self._notes = self._slots.own
        """Of the slot whose batches are written: the own one, after earlier ones."""
        self._shape: Shape | None = None
        self._made: tuple[RowMaker, DataSourceStreamWriter] | None = None
        self._rejected: set[tuple[str | None, int | None, int | None]] = set()
        """The records of the batch that the target rejects."""
        self._reached: dict[str, dict[str, int]] = {}

    def start(self) -> None:
        self._slots.start()
        self._notes = self._slots.own
        make_letters_topic(self._task, self._error_settings, self._letters_replicas)

    def step(self, wait_s: float) -> Step:
        if not self._notes.pending and not self._has_slot():
            self._stopping.wait(LOOK_S)
            return Step.BUSY
        if self._notes.pending:
            batch = self._intake.read_again(self._notes.pending, self._stopping.is_set)
            ranges = self._notes.pending
        else:
            self._intake.look_for_partitions()
            batch = self._intake.next_batch(wait_s)
            ranges = batch.ranges()
        if ranges:
            self._notes.note(ranges)
        self.progress.look(self._intake.lag())
        if not ranges:
            return Step.WAITED if self.progress.lag == 0 else Step.BUSY
        self._write(batch)
        self._notes.done(ranges, self._errors.take_letters(), self._intake.group_metadata())
        self._count(batch, ranges)
        return Step.BUSY

    def pause(self) -> None:
        """Nothing is open between two steps."""

    def close(self) -> None:
        self._notes.close()
        self._slots.close()
        self._intake.close()
        self._conversion.close()

    def _has_slot(self) -> bool:
        """False: the batches of earlier slots are not ended yet."""
        if self._slots.is_settled:
            return True
        found = self._slots.next()
        if found is not None and found is not self._notes:
            self._notes, self._made, self._reached = found, None, {}
        return found is not None

    def _write(self, batch: Incoming) -> None:
        """A retriable error writes the batch again, here. After another one the next start does so."""
        present = batch.present()
        if not len(present):
            return
        check_memory(self._memory_mb)
        self._rejected.clear()
        maker, writer = self._writer(present)
        set_context(self._notes.query_id, self._notes.number, self._notes.slot)
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
                    self._reject(type(writer).__qualname__, reason, batch.messages[place])
                batch = batch.without({place for place, _ in error.rejected})
                # before the target has the batch: a batch that it has is not looked at again, after a crash
                self._notes.note(self._notes.pending, self._errors.take_letters())

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
            self._notes.check()
            writer.commit(messages, self._notes.number)
        except BaseException:
            writer.abort(messages or [None], self._notes.number)
            raise

    def _writer(self, batch: Incoming) -> tuple[RowMaker, DataSourceStreamWriter]:
        shape = _joined(self._shape or Shape(), batch) or _joined(Shape(), batch)
        if shape is None:
            raise BatchError(self._notes.number)
        if self._made is None or shape != self._shape:
            maker = RowMaker(shape, self._columns, self._conversion)
            self._made = (maker, self._sink.streamWriter(maker.schema, False))
            self._shape = shape
        return self._made

    def _count(self, batch: Incoming, ranges: Ranges) -> None:
        self._intake.done(ranges)
        for (topic, index), (_, end) in ranges.items():
            self._reached.setdefault(topic, {})[str(index)] = end
        offset = {topic: dict(parts) for topic, parts in self._reached.items()}
        self.progress.count(len(batch), batch.size, {topic for topic, _ in ranges}, offset)
        self.progress.look(self._intake.lag())


def _joined(shape: Shape | None, batch: Incoming) -> Shape | None:
    """The shape of all. None: they differ."""
    for one in batch.shapes:
        if shape is not None and one is not shape:
            shape = shape.joined(one)
    return shape
