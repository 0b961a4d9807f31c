"""A machine's log in a partition of an internal topic, as in `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic

from moldau.core.coordination.host import LoadedRecord, LoadedTransactionEnd
from moldau.core.coordination.machine import Decision, Now, Record
from moldau.core.replication.partition import Partition
from moldau.errors import ProtocolError
from moldau.ports import Workers
from moldau.shell.coordination.runtime import Fold, LongWork
from moldau.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Buffer, Offset, Pausing, ProducerEpoch, ProducerId
from moldau.wire.records import record as wire
from moldau.wire.records.batch import BatchHeader, iterate_batches
from moldau.wire.records.builder import build_batch_pausing
from moldau.wire.records.compression import Compression
from moldau.wire.records.control import ControlType, build_end_transaction_batch, decode_control_key

LOAD_BYTES = 1 << 20
MAX_COLD_READS = 8


class PartitionLog(Generic[Record]):
    """The half of `MachineLog` that reads and writes; the owner handles the events after an append and after a
    failure."""

    def __init__(
        self,
        partition: Partition,
        workers: Workers,
        pauses: LongWork,
        encode_record: Callable[[Record], tuple[bytes, bytes | None]],
        decode_record: Callable[[Buffer | None, Buffer | None], Record | None],
        compression: Compression = Compression.NONE,
    ) -> None:
        """`encode_record` returns key and value; `decode_record` returns None for a record to skip."""
        self.partition = partition
        self._workers = workers
        self._pauses = pauses
        self._encode_record = encode_record
        self._decode_record = decode_record
        self._compression = compression

    @property
    def end_offset(self) -> int:
        """The log end offset, which the next record gets."""
        return self.partition.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """The offset below which records are committed."""
        return self.partition.high_watermark

    # -- loading

    async def replay(self, fold: Fold) -> None:
        """Folds the whole log. Of the records of one read, only the last one of each key is decoded and folded, as
        after compaction: groups commit the same few offsets again and again."""
        offset, goes_on = self.partition.log.log_start_offset, True
        while goes_on and offset < self.end_offset:
            data = await self._read(offset)
            if not data:
                return  # compaction left no records up to the end
            latest: dict[bytes | None, wire.Record] = {}
            begin = offset
            for position, header in iterate_batches(data):
                records = wire.read_records(memoryview(data)[position : position + header.size])
                if header.is_transactional or header.is_control:
                    # transactional records count when their marker arrives, or never
                    await fold(self._decoded(latest.values()))
                    latest.clear()
                    await fold(self._decoded(records, header))
                else:
                    for record in records:
                        latest.pop(record.key, None)
                        latest[record.key] = record
                offset = header.next_offset
                await self._pauses.pause(len(records))
            goes_on = await fold(self._decoded(latest.values()))
            if offset == begin:
                directory = self.partition.log.directory
                raise ProtocolError(f"{directory}: no whole record batch at offset {offset}")

    async def _read(self, offset: int) -> bytes:
        """Reads from `offset`, or from the current log start if that is later."""
        for attempt in range(MAX_COLD_READS + 1):
            may_wait = attempt == MAX_COLD_READS
            # the partition may have moved to another log directory since, and retention may have deleted segments
            log = self.partition.log
            start = max(offset, log.log_start_offset)
            read = log.read(start, max_bytes=LOAD_BYTES, end_offset=log.log_end_offset, may_wait=may_wait)
            if read.cold is None:
                break
            await self._workers.run(read.cold.run)
        return bytes(read.records or b"")

    def _decoded(
        self, records: Iterable[wire.Record], header: BatchHeader | None = None
    ) -> Iterator[LoadedRecord[Record] | LoadedTransactionEnd]:
        """`header`: of a transaction's batch, with pending records, or of the marker that ends them."""
        producer_id = NO_PRODUCER_ID if header is None else ProducerId(header.producer_id)
        producer_epoch = NO_PRODUCER_EPOCH if header is None else ProducerEpoch(header.producer_epoch)
        for record in records:
            offset = Offset(record.offset)
            if header is not None and header.is_control:
                kind = decode_control_key(record.key)
                if kind in (ControlType.ABORT, ControlType.COMMIT):
                    yield LoadedTransactionEnd(offset, producer_id, producer_epoch, kind is ControlType.COMMIT)
                continue
            decoded = self._decode(record)
            if decoded is not None:
                yield LoadedRecord(offset, decoded, producer_id, producer_epoch)

    def _decode(self, record: wire.Record) -> Record | None:
        try:
            return self._decode_record(record.key, record.value)
        except ProtocolError as error:
            raise ProtocolError(f"offset {record.offset}: {error}") from error

    # -- appending

    def encode(self, decision: Decision[Any, Any, Record], now: Now) -> Pausing[bytearray]:
        """The decision as one record batch: its records, or the marker that ends a transaction. Raises 47 and 52 for a
        marker of an earlier epoch of the producer or of the transaction coordinator."""
        producer_id, producer_epoch, marker = decision.producer_id, decision.producer_epoch, decision.marker
        if marker is not None:
            self.partition.log.producer_state.check_marker(
                producer_id, producer_epoch, marker.coordinator_epoch, decision.transaction_version
            )
            batch = build_end_transaction_batch(
                marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=now.wall_ms
            )
        else:
            batch = yield from build_batch_pausing(
                ((*self._encode_record(record), now.wall_ms, ()) for record in decision.records),
                compression=self._compression,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
            )
        return bytearray(batch)

    def append(self, batch: Buffer, now: Now) -> int:
        """Appends the batch and returns its last offset. Raises StorageFailedError, StorageFullError."""
        return self.partition.append_own(batch, now.wall_ms).last_offset
