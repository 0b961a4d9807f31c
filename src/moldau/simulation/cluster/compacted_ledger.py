"""The replicas of a compacted partition. Each broker cleans its own replica, so their batches differ.

Below the high watermark, two replicas that have an offset have the same record there. At the end, the last record of
each key is the same on all of them.
"""

from __future__ import annotations

from moldau.core.log.log import Log
from moldau.simulation.replication.ledger import Ledger, batches_of
from moldau.simulation.trace import Trace
from moldau.wire.records.batch import read_header
from moldau.wire.records.record import Record, read_records


class CompactedLedger(Ledger):
    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self._records: dict[int, Record] = {}
        """Every record seen below a high watermark, by offset."""
        self.cleaned_replicas = 0
        """The number of replicas that lacked records in the end."""

    def _check_committed(self, name: str, log: Log, start_offset: int, end_offset: int) -> None:
        for offset, record in records_of(log, start_offset, end_offset).items():
            if self._records.setdefault(offset, record) != record:
                self.fail("replicas are equal below the high watermark", f"{name} differs at offset {offset}")
        self.committed_end_offset = max(self.committed_end_offset, end_offset)

    def check_equal(self, logs: dict[str, Log], high_watermarks: dict[str, int]) -> dict[int, bytes]:
        """All replicas must have the same end offset, and the same last record of each key."""
        first: tuple[int, dict[bytes | None, Record]] | None = None
        for name, log in logs.items():
            self._check_epochs(name, log)
            end_offset = log.log_end_offset
            records = records_of(log, log.log_start_offset, end_offset)
            self.cleaned_replicas += len(records) < end_offset - log.log_start_offset
            last = {record.key: record for record in records.values()}
            first = first or (end_offset, last)
            if first != (end_offset, last) or high_watermarks[name] != end_offset:
                self.fail("replicas are equal at the end", f"{name} differs: it ends at {end_offset}")
        return {}


def records_of(log: Log, start_offset: int, end_offset: int) -> dict[int, Record]:
    """The records by offset, in order, without markers."""
    found = {}
    for batch in batches_of(log, start_offset, end_offset).values():
        if not read_header(batch).is_control:
            found.update({record.offset: record for record in read_records(batch)})
    return found
