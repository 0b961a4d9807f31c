"""The rules under all faults. A broken rule raises ViolationError at once."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from moldau.core.log.log import Log
from moldau.ports import Disk
from moldau.simulation.checkers.survivors import log_end_on_disk
from moldau.simulation.trace import Trace
from moldau.simulation.violation import ViolationError
from moldau.wire.records.batch import iterate_batches
from moldau.wire.records.record import read_records

_READ_BYTES = 1 << 20


class ReplicaLedger(msgspec.Struct):
    """The data of one replica: known to its process, and required on its disk after a crash."""

    high_watermark: int = 0
    end_offset: int = 0
    flushed_offset: int = 0


class Ledger:
    """Records every batch that was ever below a high watermark, every acknowledged record, and the data of each
    replica."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.committed: dict[int, bytes] = {}
        """Each batch by its base offset."""
        self.committed_end_offset = 0
        self._unseen: list[range] = []
        """Committed offsets that no checked log contained when they were committed."""
        self.acknowledged: dict[bytes, int] = {}
        """Values acknowledged with acks=all, and their offsets."""
        self.leaders: dict[int, str] = {}
        self.truncations = 0
        """The number of truncations that dropped records."""
        self.is_loss_allowed = False
        """More machines failed than the promise covers, so acknowledged records may be lost."""
        self.replicas: dict[str, ReplicaLedger] = {}

    def allow_loss(self) -> None:
        self.is_loss_allowed = True

    def fail(self, rule: str, detail: str) -> None:
        raise ViolationError(rule, detail)

    # --- brokers ---

    def opened(self, name: str, log: Log, high_watermark: int) -> None:
        """A process has recovered its log."""
        self.replicas[name] = ReplicaLedger(log.log_start_offset, log.log_end_offset, log.recovery_point)
        self._check_epochs(name, log)
        self.high_watermark_moved(name, log, high_watermark)

    def appended(self, name: str, log: Log) -> None:
        self.replicas[name].end_offset = log.log_end_offset

    def flushed(self, name: str, log: Log) -> None:
        self.replicas[name].flushed_offset = log.recovery_point

    def survived(self, name: str, disk: Disk, directory: str, *, is_power_lost: bool) -> None:
        """The process is dead. Its disk must hold all appended data, or after a loss of power all flushed data."""
        known = self.replicas.get(name)
        if known is None:
            return
        kept = known.flushed_offset if is_power_lost else known.end_offset
        found = self.end_on_disk(disk, directory)
        if found < kept:
            self.fail("what a replica has survives its crash", f"{name}: the disk ends at {found}, it had {kept}")

    def end_on_disk(self, disk: Disk, directory: str) -> int:
        """The end of the log that a start will find."""
        return log_end_on_disk(disk, directory)

    def leadership_began(self, name: str, epoch: int, log: Log) -> None:
        known = self.leaders.setdefault(epoch, name)
        if known != name:
            self.fail("one leader in an epoch", f"{known} and {name} lead in epoch {epoch}")
        if epoch < max(self.leaders):
            self.trace.note("late leader", name, epoch)
        self._check_epochs(name, log)
        if not self.is_loss_allowed and epoch == max(self.leaders) and log.log_end_offset < self.committed_end_offset:
            self.fail(
                "a leader has what is committed",
                f"{name} begins epoch {epoch} at {log.log_end_offset}, committed up to {self.committed_end_offset}",
            )

    def joined(self, name: str, log: Log) -> None:
        """The controller has added a replica to the in-sync replicas, so it may become the leader."""
        if not self.is_loss_allowed and log.log_end_offset < self.committed_end_offset:
            self.fail(
                "an in-sync replica has what is committed",
                f"{name} joins at {log.log_end_offset}, committed up to {self.committed_end_offset}",
            )

    def high_watermark_moved(self, name: str, log: Log, offset: int) -> None:
        """All replicas must be equal below their high watermarks."""
        replica = self.replicas[name]
        old, replica.high_watermark = replica.high_watermark, offset
        if self.is_loss_allowed:
            return
        if offset < old:
            self.fail("the high watermark never goes back", f"{name}: from {old} to {offset}")
        self._check_committed(name, log, old, offset)

    def truncated(self, name: str, log: Log, offset: int) -> None:
        """A replica is about to truncate its log: no committed record may be removed."""
        if offset >= log.log_end_offset:
            return
        replica = self.replicas[name]
        replica.end_offset = min(replica.end_offset, offset)
        replica.flushed_offset = min(replica.flushed_offset, offset)
        self.truncations += 1
        self.trace.tell(f"{name} truncates from {log.log_end_offset} to {offset}")
        cut = {} if self.is_loss_allowed else batches_of(log, offset, log.log_end_offset)
        for position, batch in cut.items():
            if self.committed.get(position) == batch:
                self.fail("nothing committed is truncated", f"{name} cuts from {offset}, {position} is committed")

    def _check_committed(self, name: str, log: Log, start_offset: int, end_offset: int) -> None:
        start_offset = max(start_offset, log.log_start_offset)
        if start_offset > self.committed_end_offset:
            self._unseen.append(range(self.committed_end_offset, start_offset))
        for position, batch in batches_of(log, start_offset, end_offset).items():
            known = self.committed.get(position)
            is_new = position >= self.committed_end_offset or any(position in gap for gap in self._unseen)
            if known is None and is_new:
                self.committed[position] = batch
            elif known != batch:
                self.fail("replicas are equal below the high watermark", f"{name} differs at offset {position}")
        self.committed_end_offset = max(self.committed_end_offset, end_offset)

    def _check_epochs(self, name: str, log: Log) -> None:
        entries = log.leader_epochs.entries
        for (epoch, start), (next_epoch, next_start) in pairwise(entries):
            if next_epoch <= epoch or next_start < start:
                self.fail("epochs are in order", f"{name}: {entries}")

    # --- clients ---

    def was_acknowledged(self, values: tuple[bytes, ...], base_offset: int) -> None:
        for offset, value in enumerate(values, base_offset):
            self.acknowledged[value] = offset
        end_offset = base_offset + len(values)
        if not self.is_loss_allowed and end_offset > self.committed_end_offset:
            self.fail("what is acknowledged is committed", f"up to {end_offset} of {self.committed_end_offset}")

    def was_read(self, name: str, records: bytes, high_watermark: int) -> None:
        """A reader got batches."""
        if self.is_loss_allowed:
            return
        if high_watermark > self.committed_end_offset:
            self.fail("readers see what is committed", f"{name}: {high_watermark} of {self.committed_end_offset}")
        for position, header in iterate_batches(records):
            batch = records[position : position + header.size]
            if self.committed.get(header.base_offset) != batch:
                self.fail("readers see what is committed", f"{name}: another batch at {header.base_offset}")

    # --- the end ---

    def check_end(self, logs: dict[str, Log], high_watermarks: dict[str, int]) -> None:
        """At the end all replicas must be equal, byte by byte, and every acknowledged record must exist once and in
        order."""
        self._check_values(self.check_equal(logs, high_watermarks))

    def check_equal(self, logs: dict[str, Log], high_watermarks: dict[str, int]) -> dict[int, bytes]:
        """All replicas must be equal, byte by byte, except for data that one has deleted. Returns their batches by base
        offset."""
        start_offset = max(log.log_start_offset for log in logs.values())
        all_batches = {name: batches_of(log, start_offset, log.log_end_offset) for name, log in logs.items()}
        first_name, first = next(iter(all_batches.items()))
        for name, batches in all_batches.items():
            self._check_epochs(name, logs[name])
            if batches != first:
                self.fail("replicas are equal at the end", f"{first_name} and {name} differ")
            if high_watermarks[name] != logs[name].log_end_offset:
                self.fail("replicas are equal at the end", f"{name}: high watermark {high_watermarks[name]}")
        return first

    def _check_values(self, batches: dict[int, bytes]) -> None:
        offsets: dict[bytes, int] = {}
        last_number: dict[bytes, int] = {}
        last_epoch = -1
        for batch in batches.values():
            epoch = int.from_bytes(batch[12:16], "big", signed=True)
            if epoch < last_epoch:
                self.fail("epochs are in order", f"epoch {epoch} behind {last_epoch}")
            last_epoch = epoch
            for record in read_records(batch):
                value = record.value or b""
                if value in offsets:
                    self.fail("no duplicates", f"{value!r} at {offsets[value]} and {record.offset}")
                offsets[value] = record.offset
                name, _, number = value.partition(b":")
                producer = name.rstrip(b".")
                if int(number) < last_number.get(producer, -1):
                    self.fail("a producer's order is kept", f"{value!r} at {record.offset}")
                last_number[producer] = int(number)
        if self.is_loss_allowed:
            return
        for value, offset in self.acknowledged.items():
            if offsets.get(value) != offset:
                self.fail("acknowledged records survive", f"{value!r} of offset {offset} is at {offsets.get(value)}")


def batches_of(log: Log, start_offset: int, end_offset: int) -> dict[int, bytes]:
    """Whole batches by base offset."""
    batches: dict[int, bytes] = {}
    while start_offset < end_offset:
        records = log.read(start_offset, max_bytes=_READ_BYTES, end_offset=end_offset, may_wait=True).records or b""
        if not len(records):
            break
        for position, header in iterate_batches(records):
            batches[header.base_offset] = bytes(records[position : position + header.size])
            start_offset = header.next_offset
    return batches
