"""A follower on a full disk copies an abort marker with its index entry, or not at all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.core.log.log import AppendOrigin, Log
from moldau.errors import StorageFullError
from moldau.wire.records.batch import iterate_batches
from moldau.wire.records.control import EndTransactionMarker, build_end_transaction_batch
from tests.support.logs import records_from
from tests.unit.core.log.compacting import committed_records
from tests.unit.core.log.conftest import NOW_MS, Harness

PRODUCER_ID = 9


def append_aborted_transaction(log: Log, batch: bytearray) -> None:
    log.append(batch, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    marker = EndTransactionMarker(is_commit=False, coordinator_epoch=0)
    batch = bytearray(build_end_transaction_batch(marker, producer_id=PRODUCER_ID, producer_epoch=0, timestamp=NOW_MS))
    log.append(batch, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)


def test_aborted_records_stay_aborted_where_the_disk_had_room_for_the_marker_alone(
    make_harness: Callable[..., Harness],
) -> None:
    leader, follower = make_harness(), make_harness()
    batch = leader.batch(1, producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=0, is_transactional=True)
    append_aborted_transaction(leader.log, batch)
    leader.append(1)
    copied = records_from(leader.log, 0)
    sizes = [header.size for _, header in iterate_batches(copied)]
    follower.disk.capacity_bytes = sizes[0] + sizes[1] + 20
    with pytest.raises(StorageFullError):
        follower.log.append_copied(copied, NOW_MS)
    assert follower.log.log_end_offset == 1
    follower.disk.capacity_bytes = None
    follower.log.append_copied(records_from(leader.log, follower.log.log_end_offset), NOW_MS)
    assert records_from(follower.log, 0) == copied
    assert follower.log.aborted_transactions(0, 3) == leader.log.aborted_transactions(0, 3) != []
    assert list(committed_records(follower.log, 3)) == list(committed_records(leader.log, 3))
