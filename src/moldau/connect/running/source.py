"""The task of a source: reads batches, and writes each with its place in one transaction."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.connect.contract.bounds import MAX_ABORTED
from moldau.connect.contract.describing import Reading
from moldau.connect.contract.shared_settings import BATCH_ROWS, MEMORY
from moldau.connect.handling.stages import error_settings
from moldau.connect.running.clients import producer_settings
from moldau.connect.running.connector import Connector
from moldau.connect.running.conversion import Conversion
from moldau.connect.running.errors import Errors
from moldau.connect.running.jobs import Step
from moldau.connect.running.memory import CHECK_EVERY_ROWS, check_memory
from moldau.connect.running.outgoing import encoder, rows_of
from moldau.connect.running.places import count_key, place_key, read_place, to_json
from moldau.connect.running.protocol import Commands, Progress, Task
from moldau.connect.running.reading import FINISHED, Batch, Place, open_reader
from moldau.connect.running.slots import check_source
from moldau.connect.running.transactions import (
    AbortedError,
    BatchTooLargeError,
    Outgoing,
    StoppedError,
    TooLargeError,
    Transactions,
    mark_of,
)

FIRST_WAIT_S: Final = 0.1
LONGEST_WAIT_S: Final = 10.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Sent:
    """`size`: bytes of keys and values."""

    records: int = 0
    size: int = 0
    topics: set[str] = field(default_factory=set)


class SourceJob:
    def __init__(self, task: Task, used: Connector, commands: Commands) -> None:
        self.progress = Progress()
        self._task = task
        self._is_stopping = commands.is_stopping.is_set
        self._memory_mb: int = used.values[MEMORY]
        source = used.new(task)
        schema = used.schema(source)
        self._errors = Errors(error_settings(task.config), task, commands.is_stopping)
        self._conversion = Conversion(task.config, task.defaults, self._errors)
        self._encode = encoder(schema, tuple(getattr(source, "key_columns", ())), task.config, self._conversion)
        reading = used.reading()
        self._is_batch = reading is Reading.BATCH
        self._reader = open_reader(source, reading, schema, used.values[BATCH_ROWS])
        self._transactions = Transactions(producer_settings(task), self._is_stopping)
        self._key = place_key(task.connector, task.slot)
        self._has_split = used.description.has_split
        self._place: Place = {}
        self._aborted = 0
        self._left_out: frozenset[bytes] = frozenset()
        """The marks of records that are not sent, until a batch is committed."""

    def start(self) -> None:
        self._transactions.start()
        if self._has_split:
            check_source(self._task, self._is_stopping, self._write_count)
        self._place = read_place(self._task, self._is_stopping) or self._reader.first()
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
        except BatchTooLargeError as error:
            _log.warning("%s: its batches have one record now; set producer.override.batch.size for larger ones", error)
            self._transactions.send_singly()
            self.start()
            return Step.BUSY
        except TooLargeError as error:
            self._errors.too_large(error)
            self._left_out |= error.marks
            return Step.BUSY
        self._aborted = 0
        self._left_out = frozenset()
        self._place = end
        self._reader.committed(end)
        return Step.BUSY

    def pause(self) -> None:
        """Nothing is open between two steps."""

    def close(self) -> None:
        self._transactions.abort()
        self._reader.close()
        self._conversion.close()

    def _write(self, batch: Batch) -> Place:
        sent = _Sent()
        self._transactions.begin()
        self._transactions.send_all(self._encoded(rows_of(batch.rows), sent))
        end = batch.end()
        self._transactions.send(self._task.offsets_topic, to_json(end), self._key)
        self._transactions.commit()
        self.progress.count(sent.records, sent.size, sent.topics, end)
        return end

    def _write_count(self, count: bytes) -> None:
        self._transactions.begin()
        self._transactions.send(self._task.offsets_topic, count, count_key(self._task.connector))
        self._transactions.commit()

    def _encoded(self, rows: Iterator[Any], sent: _Sent) -> Iterator[Outgoing]:
        """The records of the rows, one by one: a reader may wait for its next row, and rows may be large."""
        encode, records, size = self._encode, 0, 0
        topic = None
        for count, row in enumerate(rows, 1):
            made = encode(row)
            if made is not None and not (self._left_out and mark_of(*made[:3]) in self._left_out):
                yield made
                records += 1
                size += len(made[1] or b"") + len(made[2] or b"")
                if made[0] is not topic:
                    topic = made[0]
                    sent.topics.add(topic)
            if count % CHECK_EVERY_ROWS == 0:
                self._look()
        sent.records, sent.size = records, size

    def _look(self) -> None:
        self._transactions.serve()
        check_memory(self._memory_mb)
        if self._is_stopping():
            raise StoppedError("stopped in mid-batch")
