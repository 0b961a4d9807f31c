"""The allowed views of a transactional copier's output for readers of committed records."""

from __future__ import annotations

import pytest

from moldau.simulation.checkers.copy_ledger import Copied, CopyLedger, Outcome
from moldau.simulation.violation import ViolationError

COPIED = Copied("copier-1/1", 0)


def open_transaction():
    ledger = CopyLedger("copier")
    ledger.begun(COPIED.transaction)
    return ledger


def test_a_record_is_read_once_its_commit_was_sent_whether_or_not_it_was_answered():
    ledger = open_transaction()
    ledger.commit_begun(COPIED.transaction)
    ledger.record_read(0, 0, COPIED)
    ledger.ended(COPIED.transaction, Outcome.COMMITTED, 1)
    ledger.record_read(0, 0, COPIED)


def test_records_of_an_open_transaction_are_not_read_before_its_commit():
    with pytest.raises(ViolationError, match="nobody has asked for its commit"):
        open_transaction().record_read(0, 0, COPIED)


def test_a_record_of_an_aborted_transaction_is_not_read():
    ledger = open_transaction()
    ledger.commit_begun(COPIED.transaction)
    ledger.ended(COPIED.transaction, Outcome.ABORTED, 0)
    with pytest.raises(ViolationError, match="was aborted"):
        ledger.record_read(0, 0, COPIED)
