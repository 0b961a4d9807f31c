"""The start offset of each leader epoch (KIP-101, KIP-279): finds where logs diverge."""

from __future__ import annotations

from itertools import pairwise

from moldau.core.log.files.checkpoint import decode_leader_epochs, encode_leader_epochs

UNKNOWN = (-1, -1)


class LeaderEpochs:
    """Entries (epoch, start offset), both strictly increasing. `is_dirty` until `encode()` is saved.

    `written_epoch`: the latest epoch with a batch in the log. `latest_epoch` may have begun without a batch.
    `read_offset`: the beginning of the last batch that recovery read, -1 before the first.
    """

    __slots__ = ("entries", "is_dirty", "latest_epoch", "read_offset", "written_epoch")

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self.entries: list[tuple[int, int]] = entries or []
        self.latest_epoch = self.written_epoch = self.entries[-1][0] if self.entries else -1
        self.is_dirty = False
        self.read_offset = -1

    @classmethod
    def decode(cls, data: bytes) -> LeaderEpochs:
        """The epochs of a file. Raises ValueError for a damaged one."""
        entries = decode_leader_epochs(data)
        for (epoch, start_offset), (next_epoch, next_offset) in pairwise(entries):
            if next_epoch <= epoch or next_offset < start_offset:
                raise ValueError("leader epochs are not in order")
        return cls(entries)

    def encode(self) -> bytes:
        """The content of the file `leader-epoch-checkpoint`, as `decode` reads it."""
        return encode_leader_epochs(self.entries)

    def begin(self, epoch: int, log_end_offset: int) -> None:
        """A leader of `epoch` begins at the log end. A known or older epoch changes nothing.

        Entries at or after the log end are removed, because their batches are gone. Nothing needs saving before the
        first batch of the epoch: a start forgets an epoch without batches.
        """
        if epoch <= self.latest_epoch:
            return
        while self.entries and self.entries[-1][1] >= log_end_offset:
            self.entries.pop()
        self.entries.append((epoch, log_end_offset))
        self.latest_epoch = epoch

    def assign(self, epoch: int, start_offset: int) -> None:
        """The log has a batch of `epoch` at `start_offset`. A written or older epoch changes nothing."""
        self.begin(epoch, start_offset)
        if epoch > self.written_epoch:
            self.written_epoch = epoch
            self.is_dirty = True

    def take_in(self, epoch: int, start_offset: int, previous_offset: int) -> int:
        """As `assign`, for batches in order; the one before begins at `previous_offset`. Returns the latest epoch.

        Epochs never fall, and no checksum covers the epoch of a batch. If only the batch before has a later epoch, that
        epoch is a flipped bit and is dropped.
        """
        entries = self.entries
        is_first = len(entries) == 1 or (len(entries) > 1 and entries[-2][0] <= epoch)
        if 0 <= epoch < self.latest_epoch and is_first and entries[-1][1] == previous_offset:
            entries.pop()
            self._changed()
        self.assign(epoch, start_offset)
        return self.latest_epoch

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch that is not above `epoch`; UNKNOWN where Kafka answers -1, -1."""
        if epoch == -1 or epoch > self.latest_epoch:
            return UNKNOWN
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        found = -1
        for known, start_offset in self.entries:
            if known > epoch:
                # an epoch before the first entry ends where the first begins
                return (found if found >= 0 else epoch), start_offset
            found = known
        return UNKNOWN

    def epoch_of_offset(self, offset: int) -> int:
        """The epoch of the record at `offset`, -1 if unknown."""
        found = -1
        for epoch, start_offset in self.entries:
            if start_offset > offset:
                break
            found = epoch
        return found

    def truncate_from_end(self, end_offset: int) -> None:
        """Removes entries at or after `end_offset`, the new log end."""
        kept = [entry for entry in self.entries if entry[1] < end_offset]
        if len(kept) != len(self.entries):
            self.entries = kept
            self._changed()

    def keep_before(self, offset: int, epoch: int) -> None:
        """A batch of `epoch` is at `offset`: only older entries stay."""
        kept = [entry for entry in self.entries if entry[1] < offset and entry[0] <= epoch]
        if len(kept) != len(self.entries):
            self.entries = kept
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """The log now begins at `start_offset`, and so does the epoch there."""
        behind = [entry for entry in self.entries if entry[1] <= start_offset]
        if behind and (behind[-1][1] != start_offset or len(behind) > 1):
            ahead = self.entries[len(behind) :]
            self.entries = [(behind[-1][0], start_offset), *ahead]
            self._changed()

    def learn(self, known: LeaderEpochs) -> bool:
        """Takes the starts of epochs from another replica where compaction removed their batches here. Returns whether
        the epochs changed."""
        begun = dict(known.entries)
        for epoch, start_offset in self.entries:
            begun[epoch] = min(start_offset, begun.get(epoch, start_offset))
        entries = sorted(entry for entry in begun.items() if entry[0] <= self.latest_epoch)
        if entries == self.entries:
            return False
        self.entries = entries
        self._changed()
        return True

    def clear(self) -> None:
        """The log begins again elsewhere: removes all entries."""
        if self.entries:
            self.entries = []
            self._changed()

    def _changed(self) -> None:
        self.latest_epoch = self.entries[-1][0] if self.entries else -1
        self.written_epoch = min(self.written_epoch, self.latest_epoch)
        self.is_dirty = True
