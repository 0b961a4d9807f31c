"""The leader epochs of one partition: they never decrease, and the broker reports their ends correctly."""

from __future__ import annotations

from moldau.simulation.violation import ViolationError


class EpochLedger:
    """The leader epochs in the batches of one partition. They never decrease, and OffsetForLeaderEpoch agrees with
    them."""

    def __init__(self, name: str, *, may_have_gaps: bool = False) -> None:
        self._name = name
        self._may_have_gaps = may_have_gaps
        """A recovery that rebuilds the epochs finds only the first batch of each that compaction has left."""
        self._epochs: dict[int, int] = {}
        self.bounds: dict[int, tuple[int, int]] = {}
        """The known first offset and end offset of each epoch."""
        self.current = -1
        """The newest epoch in any response."""

    def read(self, base_offset: int, next_offset: int, epoch: int) -> None:
        """A batch with this epoch was read."""
        known = self._epochs.setdefault(next_offset, epoch)
        if known != epoch:
            raise ViolationError(
                "a batch keeps its epoch", f"{self._name}: {known} became {epoch} before {next_offset}"
            )
        begin, end = self.bounds.get(epoch, (base_offset, next_offset))
        begin, end = self.bounds[epoch] = (min(begin, base_offset), max(end, next_offset))
        for other, (other_begin, other_end) in self.bounds.items():
            if (other < epoch and other_end > begin) or (other > epoch and other_begin < end):
                raise ViolationError(
                    "leader epochs never fall",
                    f"{self._name}: epoch {epoch} at {begin} to {end}, epoch {other} at {other_begin} to {other_end}",
                )

    def named(self, epoch: int) -> None:
        """The broker reported that the partition now has this epoch."""
        if epoch < self.current:
            raise ViolationError("leader epochs never fall", f"{self._name}: {self.current} became {epoch}")
        self.current = epoch

    def least_end(self, epoch: int) -> int:
        """The lowest possible end of `epoch` and all earlier ones, as far as known."""
        return max((end for other, (_, end) in self.bounds.items() if other <= epoch), default=0)

    def ended(self, asked: int, epoch: int, end_offset: int, least_end: int, log_start_offset: int) -> None:
        """OffsetForLeaderEpoch of `asked` returned this epoch and end. `least_end` was known when the request was sent.
        A deleted epoch ends at the log start offset, as in Apache Kafka."""
        if epoch > asked or (epoch < 0 and any(other >= asked for other in self.bounds)):
            raise ViolationError("leader epochs end where they end", f"{self._name}: asked {asked}, got {epoch}")
        if epoch < 0:
            return
        later = [bounds for other, bounds in self.bounds.items() if other > asked]
        most = min((begin for begin, _ in later), default=end_offset)
        if self._may_have_gaps:
            most = max((end for _, end in later), default=end_offset)
        if end_offset < least_end or most < end_offset > log_start_offset:
            raise ViolationError(
                "leader epochs end where they end",
                f"{self._name}: epoch {asked} ends at {end_offset}, known are {sorted(self.bounds.items())}",
            )

    def cut(self, end_offset: int) -> None:
        """A crash of the machine removed the log from `end_offset` on."""
        self._epochs = {end: epoch for end, epoch in self._epochs.items() if end <= end_offset}
        self.bounds = {
            epoch: (begin, min(end, end_offset)) for epoch, (begin, end) in self.bounds.items() if begin < end_offset
        }
