"""Transactions of a source that gives record batches of Arrow: as `transactions`, without an object for each record."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import pyarrow as pa

from moldau.client.protocol.access import ClusterAccess
from moldau.columnar.transactional_writer import TransactionalWriter
from moldau.connect.running.transactions import FULL_WAIT_S, AbortedError, FencedError, RejectedError, StoppedError
from moldau.errors import KafkaError, MoldauError

_FENCED: Final = ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
_PERMANENT: Final = (
    "MESSAGE_TOO_LARGE",
    "RECORD_LIST_TOO_LARGE",
    "INVALID_RECORD",
    "INVALID_TOPIC_EXCEPTION",
    "TOPIC_AUTHORIZATION_FAILED",
    "POLICY_VIOLATION",
    "UNKNOWN_TOPIC_OR_PARTITION",
)
"""Errors of a record that another try does not mend."""


class ArrowTransactions:
    """`is_stopping` ends waiting for the cluster."""

    def __init__(
        self, access: ClusterAccess, transactional_id: str, compression: str, is_stopping: Callable[[], bool]
    ) -> None:
        self._access = access
        self._id = transactional_id
        self._compression = compression
        self._is_stopping = is_stopping
        self._writer: TransactionalWriter | None = None
        self._is_open = False

    def start(self) -> None:
        """Fences the tasks before this one and ends their transactions. Raises FencedError, StoppedError,
        KafkaError."""

        def begin() -> None:
            self._writer = TransactionalWriter(self._access, self._id, compression=self._compression)

        self._repeat(begin)

    def begin(self) -> None:
        self._current().begin()
        self._is_open = True

    def send(self, topic: str, value: bytes, key: bytes) -> None:
        rows = [pa.array([topic]), pa.array([key], pa.binary()), pa.array([value], pa.binary())]
        self.write(pa.RecordBatch.from_arrays(rows, names=["topic", "key", "value"]))

    def write(self, batch: pa.RecordBatch) -> None:
        """Raises RejectedError, AbortedError, FencedError."""
        try:
            self._current().write(batch)
        except KafkaError as error:
            raise self._ended(error) from error

    def commit(self) -> None:
        """Raises RejectedError or AbortedError for a transaction that failed, FencedError, StoppedError."""
        try:
            self._current().flush()
        except KafkaError as error:
            raise self._ended(error) from error
        try:
            self._repeat(self._current().commit)
        finally:
            self._is_open = False  # or its outcome is not known: the next start ends it

    def abort(self) -> None:
        """Does nothing without an open transaction."""
        if self._is_open:
            self._is_open = False
            self._repeat(self._current().abort)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _repeat(self, request: Callable[[], object]) -> None:
        """A repeated end of a transaction ends it once."""
        while True:
            try:
                request()
                return
            except KafkaError as error:
                if error.name in _FENCED:
                    raise _fenced(error) from error
                if not error.is_retriable:
                    raise
            if self._is_stopping():
                raise StoppedError("stopped while the cluster did not answer")
            time.sleep(FULL_WAIT_S)

    def _ended(self, error: KafkaError) -> MoldauError:
        """The error to raise, after the transaction is aborted."""
        if error.name in _FENCED:
            self._is_open = False
            return _fenced(error)
        self.abort()
        return RejectedError(str(error)) if error.name in _PERMANENT else AbortedError(str(error))

    def _current(self) -> TransactionalWriter:
        if self._writer is None:
            raise RuntimeError("not started")
        return self._writer


def _fenced(error: KafkaError) -> FencedError:
    return FencedError(f"another task with this transactional id has started: {error}")
