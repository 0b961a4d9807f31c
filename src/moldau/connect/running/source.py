"""The task of a source: reads batches, and writes each with its place in one transaction."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from moldau.connect.contract.bounds import MAX_ABORTED, MEMORY
from moldau.connect.contract.describing import Reading
from moldau.connect.contract.shared_settings import BATCH_ROWS
from moldau.connect.handling.stages import error_settings
from moldau.connect.running.arrow_path import arrow_batch_rows, is_arrow_source
from moldau.connect.running.clients import producer_settings
from moldau.connect.running.connector import Connector
from moldau.connect.running.conversion import Conversion
from moldau.connect.running.errors import Errors
from moldau.connect.running.jobs import Step
from moldau.connect.running.memory import CHECK_EVERY_ROWS, check_memory
from moldau.connect.running.outgoing import Encode, encoder, rows_of
from moldau.connect.running.output import Output, Sent
from moldau.connect.running.places import count_key, place_key, read_place, to_json
from moldau.connect.running.protocol import Commands, Progress, Task
from moldau.connect.running.reading import FINISHED, ArrowReading, Batch, Place, Reader, open_reader
from moldau.connect.running.slots import place_of_part
from moldau.connect.running.transactions import (
    AbortedError,
    BatchTooLargeError,
    Outgoing,
    RejectedError,
    StoppedError,
    TooLargeError,
    Transactions,
    mark_of,
)

FIRST_WAIT_S: Final = 0.1
LONGEST_WAIT_S: Final = 10.0

_log = logging.getLogger(__name__)


class SourceJob:
    def __init__(self, task: Task, used: Connector, commands: Commands) -> None:
        self.progress = Progress()
        self._task = task
        self._is_stopping = commands.is_stopping.is_set
        self._used = used
        self._source = used.new(task)
        self._schema = used.schema(self._source)
        self._errors = Errors(error_settings(task.config), task, commands.is_stopping)
        self._conversion = Conversion(task.config, task.defaults, self._errors)
        key_columns = tuple(getattr(self._source, "key_columns", ()))
        self._encode = encoder(self._schema, key_columns, task.config, self._conversion)
        self._is_batch = used.reading() is Reading.BATCH
        self._reader: Reader
        self._output: Output
        self._records: RecordOutput | None = None
        """None: the task sends record batches."""
        if is_arrow_source(task, used, self._source, self._schema, self._conversion):
            from moldau.connect.running.arrow_source import ArrowOutput

            self._reader = ArrowReading(self._source.simpleStreamReader(self._schema), arrow_batch_rows(task, used))
            self._output = ArrowOutput(task, used.values[MEMORY], self._is_stopping)
        else:
            self._take_records()
        self._key = place_key(task.connector, task.slot)
        self._has_split = used.description.has_split
        self._place: Place = {}
        self._aborted = 0

    def start(self) -> None:
        self._output.start()
        if self._has_split:
            place = place_of_part(self._task, self._is_stopping, self._write_count)
        else:
            place = read_place(self._task, self._is_stopping)
        self._place = place or self._reader.first()
        self.progress.begin(self._place)

    def step(self, wait_s: float) -> Step:
        batch = self._reader.next(self._place)
        if batch is None:
            return Step.FINISHED if self._is_batch and self._place[FINISHED] else Step.IDLE
        try:
            end = self._write(batch)
        except AbortedError:
            self._aborted += 1
            if self._aborted >= MAX_ABORTED:
                raise
            time.sleep(min(FIRST_WAIT_S * 2**self._aborted, LONGEST_WAIT_S))
            return Step.BUSY
        except (BatchTooLargeError, RejectedError) as error:
            self._send_less(error)
            return Step.BUSY
        self._aborted = 0
        self._place = end
        self._reader.committed(end)
        return Step.BUSY

    def _send_less(self, error: BatchTooLargeError | RejectedError) -> None:
        """Prepares the next try of a batch that the cluster rejects. Raises the error if nothing can be left out."""
        if self._records is None:
            _log.warning("%s: single records are sent from here on", error)
            self._close_parts()
            self._take_records()
            self.start()
        elif isinstance(error, BatchTooLargeError):
            _log.warning("%s: its batches have one record now; set producer.override.batch.size for larger ones", error)
            self._records.send_singly()
            self.start()
        elif isinstance(error, TooLargeError):
            self._errors.too_large(error)
            self._records.leave_out(error.marks)
        else:
            raise error

    def pause(self) -> None:
        """Nothing is open between two steps."""

    def close(self) -> None:
        self._close_parts()
        self._conversion.close()

    def _take_records(self) -> None:
        values = self._used.values
        self._reader = open_reader(self._source, self._used.reading(), self._schema, values[BATCH_ROWS])
        self._output = self._records = RecordOutput(self._task, self._encode, values[MEMORY], self._is_stopping)

    def _close_parts(self) -> None:
        self._output.close()
        self._reader.close()

    def _write(self, batch: Batch) -> Place:
        sent = self._output.write(batch.rows)
        end = batch.end()
        self._output.commit(self._key, to_json(end))
        self.progress.count(sent.records, sent.size, sent.topics, end)
        return end

    def _write_count(self, count: bytes) -> None:
        self._output.write(iter(()))
        self._output.commit(count_key(self._task.connector), count)


class RecordOutput:
    """One record at a time, by librdkafka."""

    def __init__(self, task: Task, encode: Encode, memory_mb: int, is_stopping: Callable[[], bool]) -> None:
        self._offsets_topic = task.offsets_topic
        self._encode = encode
        self._memory_mb = memory_mb
        self._is_stopping = is_stopping
        self._transactions = Transactions(producer_settings(task), is_stopping)
        self._left_out: frozenset[bytes] = frozenset()
        """The marks of records that are not sent, until a batch is committed."""

    def start(self) -> None:
        self._transactions.start()

    def send_singly(self) -> None:
        self._transactions.send_singly()

    def leave_out(self, marks: frozenset[bytes]) -> None:
        self._left_out |= marks

    def write(self, rows: Iterator[Any]) -> Sent:
        sent = Sent()
        self._transactions.begin()
        self._transactions.send_all(self._encoded(rows_of(rows), sent))
        return sent

    def commit(self, key: bytes, place: bytes) -> None:
        self._transactions.send(self._offsets_topic, place, key)
        self._transactions.commit()
        self._left_out = frozenset()

    def close(self) -> None:
        self._transactions.abort()

    def _encoded(self, rows: Iterator[Any], sent: Sent) -> Iterator[Outgoing]:
        """The records of the rows, one by one: a reader may wait for its next row, and rows may be large."""
        encode, records, size = self._encode, 0, 0
        topic, topics = None, set()
        for count, row in enumerate(rows, 1):
            made = encode(row)
            if made is not None and not (self._left_out and mark_of(*made[:3]) in self._left_out):
                yield made
                records += 1
                size += len(made[1] or b"") + len(made[2] or b"")
                if made[0] is not topic:
                    topic = made[0]
                    topics.add(topic)
            if count % CHECK_EVERY_ROWS == 0:
                self._look()
        sent.count(records, size, topics)

    def _look(self) -> None:
        self._transactions.serve()
        check_memory(self._memory_mb)
        if self._is_stopping():
            raise StoppedError("stopped in mid-batch")
