"""The rules of a transactional copier. It copies each number once and in order, and each transaction is atomic.

A copier copies the numbers 0, 1, 2, ... in transactions that also commit its source offset. So the committed records of
the target agree with the committed offset: the target has every number below the offset once, and no other. A
read_committed reader sees no trace of an aborted transaction.
"""

from __future__ import annotations

import enum

import msgspec

from moldau.errors import ProtocolError
from moldau.simulation.violation import ViolationError
from moldau.types import Buffer


class Outcome(enum.Enum):
    """The outcome of a transaction, as far as the copier knows it."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Copied(msgspec.Struct, frozen=True):
    """One record of the target: the number, and the transaction that wrote it."""

    transaction: str
    number: int

    def encode(self) -> bytes:
        return f"{self.transaction} {self.number}".encode()

    @classmethod
    def decode(cls, data: Buffer | None) -> Copied:
        """Raises ProtocolError for a record that no copier wrote."""
        transaction, _, number = bytes(data or b"").decode().partition(" ")
        if not number.isdecimal():
            raise ProtocolError(f"{data!r} is none of the copier's records")
        return cls(transaction, int(number))


class CopyLedger:
    """All transactions of one copier, over all its lives."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.outcomes: dict[str, Outcome] = {}
        self.position = 0
        """The largest offset whose commit was acknowledged or read."""
        self._commits_begun: dict[str, None] = {}
        """Transactions whose commit was sent, with or without a response."""
        self._places: dict[int, tuple[int, int, str]] = {}
        """The partition, offset and transaction of the copy of each number, as read_committed readers saw them."""

    def begun(self, transaction: str) -> None:
        """The copier begins a transaction."""
        self.outcomes[transaction] = Outcome.OPEN

    def commit_begun(self, transaction: str) -> None:
        """The copier is about to send the commit: from now on readers may see its records."""
        self._commits_begun[transaction] = None

    def ended(self, transaction: str, outcome: Outcome, position: int) -> None:
        """The broker acknowledged the end. After a commit, `position` is the copier's new offset."""
        known = self.outcomes[transaction]
        if known not in (Outcome.OPEN, outcome):
            raise ViolationError("a transaction ends once", f"{self.name}: {transaction} was {known}, now {outcome}")
        self.outcomes[transaction] = outcome
        if outcome is Outcome.COMMITTED:
            self.position = max(self.position, position)

    def position_read(self, position: int, known: int) -> None:
        """The group's committed offset was read while no transaction was open. `known`: the known offset when the
        request was sent."""
        if position < known:
            raise ViolationError("committed positions stay", f"{self.name}: the position is {position}, was {known}")
        self.position = max(self.position, position)

    def record_read(self, partition: int, offset: int, copied: Copied) -> None:
        """A read_committed reader got this record."""
        if self.outcomes.get(copied.transaction) is Outcome.ABORTED:
            raise ViolationError(
                "aborted records are not read", f"{self.name}: {copied} at {partition}:{offset} was aborted"
            )
        if copied.transaction not in self._commits_begun:
            raise ViolationError(
                "open transactions are not read",
                f"{self.name}: {copied} at {partition}:{offset}, and nobody has asked for its commit",
            )
        place = partition, offset, copied.transaction
        known = self._places.setdefault(copied.number, place)
        if known != place:
            raise ViolationError("each number is copied once", f"{self.name}: {copied.number} at {known} and {place}")

    def check_whole(self, seen: dict[int, list[tuple[int, Copied]]], position: int) -> None:
        """Called after a reader has read every partition to its end. `seen`: offsets and records in order, by
        partition."""
        self.position_read(position, self.position)
        numbers: list[int] = []
        for partition, records in seen.items():
            last = -1
            for offset, copied in records:
                if copied.number <= last:
                    raise ViolationError(
                        "copies keep their order", f"{self.name}: {copied} at {partition}:{offset} after {last}"
                    )
                last = copied.number
                numbers.append(copied.number)
        if sorted(numbers) != list(range(position)):
            wanted, found = dict.fromkeys(range(position)), dict.fromkeys(numbers)
            missing = [number for number in wanted if number not in found]
            beyond = [number for number in found if number not in wanted]
            raise ViolationError(
                "a transaction is all or nothing",
                f"{self.name}: position {position}, {len(numbers)} copies, missing {missing[:9]}, beyond {beyond[:9]}",
            )
