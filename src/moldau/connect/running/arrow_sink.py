"""The task of a sink whose writer takes Arrow: reads and writes whole record batches.

Only a batch with rows that the target rejects is read again as single records, for their dead letters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import OFFSET_INVALID
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StringType, StructType

from moldau.client.protocol.offsets import EARLIEST_TIMESTAMP
from moldau.columnar.reader import PartitionRange, RangeReader, ReaderSettings
from moldau.columnar.tail import TailReader
from moldau.columnar.texts import valid_texts
from moldau.connect.handling.stages import RowsRejectedError, Stage
from moldau.connect.running.arrow import keep_pandas_out
from moldau.connect.running.arrow_path import access_of, arrow_batch_rows, write_arrow_of
from moldau.connect.running.contexts import set_context
from moldau.connect.running.conversion import Conversion, keeps_bytes
from moldau.connect.running.incoming import Decoder, Incoming
from moldau.connect.running.intake import GATHER_S, Intake
from moldau.connect.running.memory import check_memory
from moldau.connect.running.notes import Ranges
from moldau.connect.running.partitions import Partition
from moldau.connect.running.protocol import Commands, Task
from moldau.connect.running.sink import SinkJob
from moldau.connect.running.transactions import StoppedError
from moldau.transport.access import open_client
from moldau.types import TopicPartition

_TIME = pa.timestamp("us", tz="UTC")


@dataclass(slots=True)
class Pieces:
    """Records that are read together: parts of partitions, in the columns of `moldau.columnar`."""

    parts: list[tuple[Partition, pa.RecordBatch]] = field(default_factory=list)
    size: int = 0

    def __len__(self) -> int:
        return sum(batch.num_rows for _, batch in self.parts)

    def ranges(self) -> Ranges:
        """The first offset of each partition, and the one after its last."""
        found: dict[Partition, tuple[int, int]] = {}
        for place, batch in self.parts:
            offsets = batch.column("offset")
            first = found[place][0] if place in found else offsets[0].as_py()
            found[place] = (first, offsets[-1].as_py() + 1)
        return found

    def ordered(self) -> Pieces:
        """By partition: a batch that is read again must have the order that it had."""
        return Pieces(sorted(self.parts, key=lambda one: one[0]), self.size)


class ArrowIntake(Intake):
    """Reads with our own client. The consumer is only asked for topics and committed offsets."""

    def __init__(self, task: Task, settings: Mapping[str, Any], decoder: Decoder, rows: int, size: int) -> None:
        super().__init__(task, settings, decoder, rows, size)
        self._single = (task, settings, decoder, rows, size)
        self._settings = ReaderSettings(on_data_loss="skip")
        self._client = open_client(access_of(task))
        self._tail = TailReader(self._client, self._settings)
        self._parts: list[tuple[Partition, pa.RecordBatch]] = []
        """Read, and not yet in a batch."""

    def next_batch(self, wait_s: float) -> Pieces:  # type: ignore[override]
        """At most `rows` and about `size` bytes, by partition. Empty: nothing came."""
        batch, rows = Pieces(), 0
        found, self._parts = self._parts or self._poll(wait_s), []
        while found:
            for number, (place, part) in enumerate(found):
                ends = np.cumsum(_sizes(part))
                fitting = min(int(np.searchsorted(ends, self._size - batch.size, "right")), self._rows - rows)
                fitting = fitting or int(not rows)
                if fitting:
                    batch.parts.append((place, part.slice(0, fitting)))
                    batch.size += int(ends[fitting - 1])
                    rows += fitting
                if fitting < part.num_rows:
                    self._parts = [(place, part.slice(fitting)), *found[number + 1 :]]
                    return batch.ordered()
            found = self._poll(GATHER_S) if rows < self._rows and batch.size < self._size else []
        return batch.ordered()

    def read_again(self, ranges: Ranges, is_stopping: Callable[[], bool]) -> Pieces:  # type: ignore[override]
        """The records of a batch that was noted before, in the same order. Those that are deleted since are missing."""
        wanted = [PartitionRange(topic, index, *ends) for (topic, index), ends in ranges.items()]
        batch = Pieces()
        with RangeReader(self._client, wanted, self._settings) as reader:
            for place, part in reader:
                if is_stopping():
                    raise StoppedError("stopped while a batch was read again")
                batch.parts.append(((place.topic, place.partition), part))
                batch.size += int(_sizes(part).sum())
        self.done(ranges)
        self._assign(self._next)
        return batch.ordered()

    def records(self, ranges: Ranges, is_stopping: Callable[[], bool]) -> Incoming:
        """The same, as single records."""
        intake = Intake(*self._single)
        try:
            return intake.read_again(ranges, is_stopping)
        finally:
            intake.close()

    def lag(self) -> int | None:
        """Records after the last batch. None: the end of a partition is not known yet."""
        ends, positions = self._tail.ends, self._tail.positions
        if len(ends) < len(self._next):
            return None
        unread: int = sum(max(end - positions[place], 0) for place, end in ends.items())
        return unread + int(sum(part.num_rows for _, part in self._parts))

    def close(self) -> None:
        self._tail.close()
        self._client.close()
        super().close()

    def _poll(self, wait_s: float) -> list[tuple[Partition, pa.RecordBatch]]:
        return [((place.topic, place.partition), part) for place, part in self._tail.poll(wait_s)]

    def _assign(self, places: Mapping[Partition, int]) -> None:
        self._parts = []
        self._tail.seek(
            {TopicPartition(*one): EARLIEST_TIMESTAMP if at == OFFSET_INVALID else at for one, at in places.items()}
        )


class ArrowSinkJob(SinkJob):
    """`schema`: of the rows of `writer`."""

    _intake: ArrowIntake

    def __init__(self, task: Task, used: Any, commands: Commands, schema: StructType, writer: Any) -> None:
        keep_pandas_out()
        super().__init__(task, used, commands, ArrowIntake, arrow_batch_rows(task, used))
        self._arrow_writer: DataSourceStreamWriter = writer
        self._schema = schema

    def _write(self, batch: Pieces) -> None:  # type: ignore[override]
        if not len(batch):
            return
        check_memory(self._memory_mb)
        self._rejected.clear()
        set_context(self._notes.query_id, self._notes.number, self._notes.slot)
        name = type(self._arrow_writer).__qualname__
        passed = self._errors.run(Stage.TASK_PUT, name, lambda: self._publish_pieces(batch))
        if passed is not None and not passed.value:
            super()._write(self._intake.records(self._notes.pending, self._stopping.is_set))

    def _publish_pieces(self, batch: Pieces) -> bool:
        """False: the target rejects rows, and has nothing of the batch."""
        writer = self._arrow_writer
        messages: list[WriterCommitMessage | None] = []
        try:
            messages.append(write_arrow_of(writer)(rows_of(batch, self._schema, self._conversion)))
            if rejected := getattr(messages[0], "rejected", ()):
                raise RowsRejectedError(rejected)
            self._notes.check()
            writer.commit(messages, self._notes.number)
        except RowsRejectedError:
            writer.abort(messages or [None], self._notes.number)
            return False
        except BaseException:
            writer.abort(messages or [None], self._notes.number)
            raise
        return True


def rows_of(batch: Pieces, schema: StructType, conversion: Conversion) -> Iterator[pa.RecordBatch]:
    """With the columns of a sink's rows. `schema`: whether keys and values are texts."""
    is_text = {name: isinstance(schema[name].dataType, StringType) for name in ("key", "value")}
    for (topic, _), part in batch.parts:
        columns = {name: _text(part.column(name)) if is_text[name] else part.column(name) for name in is_text}
        columns |= {
            "topic": pa.repeat(pa.scalar(topic), part.num_rows),
            "partition": part.column("partition"),
            "offset": part.column("offset"),
            "timestamp": _times(part.column("timestamp")),
            "headers": _headers(part.column("headers"), topic, conversion),
        }
        yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _text(column: pa.Array) -> pa.Array:
    return valid_texts(column.view(pa.string()))


def _times(column: pa.Array) -> pa.Array:
    """A null for no time."""
    times = column.cast(pa.int64())
    return pc.if_else(pc.greater_equal(times, 0), times, None).cast(pa.timestamp("ms", tz="UTC")).cast(_TIME)


def _headers(column: pa.Array, topic: str, conversion: Conversion) -> pa.Array:
    """As the header converter gives them: it reads and writes each."""
    if column.null_count == len(column) or keeps_bytes(conversion.header):
        return column
    found = [
        None if one is None else conversion.headers_again(topic, [(pair["key"], pair["value"]) for pair in one])
        for one in column.to_pylist()
    ]
    return pa.array(
        [None if one is None else [{"key": name, "value": value} for name, value in one] for one in found], column.type
    )


def _sizes(part: pa.RecordBatch) -> Any:
    """Of keys and values."""
    key, value = (
        pc.fill_null(pc.binary_length(part.column(name)), 0).to_numpy(zero_copy_only=False) for name in ("key", "value")
    )
    return key.astype(np.int64) + value
