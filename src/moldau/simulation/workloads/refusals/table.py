"""The table of rejected requests, and the records that they need. The simulation and the conformance tests share it."""

from __future__ import annotations

from collections.abc import Iterator

from moldau.simulation.workloads.refusals.case import BATCH_RECORDS, BATCHES, Case, Ground
from moldau.simulation.workloads.refusals.cluster_cases import cluster_cases
from moldau.simulation.workloads.refusals.group_cases import group_cases
from moldau.simulation.workloads.refusals.record_cases import record_cases
from moldau.simulation.workloads.refusals.settings_cases import settings_cases
from moldau.simulation.workloads.refusals.topic_cases import topic_cases
from moldau.wire.records.builder import build_batch


def all_cases(ground: Ground) -> Iterator[Case]:
    """Every request that does not change the state."""
    yield from topic_cases(ground)
    yield from settings_cases()
    yield from record_cases(ground)
    yield from group_cases(ground)
    yield from cluster_cases()


def batches_to_write(producer_ids: tuple[int, int], now_ms: int) -> list[bytes]:
    """The batches of partition 0 of PLAIN, in order."""
    first, second = producer_ids
    lives = [(first, 0, number * BATCH_RECORDS, BATCH_RECORDS) for number in range(BATCHES)]
    lives += [(second, 0, 0, 1), (second, 1, 0, 1)]
    return [
        build_batch(
            [(b"key", b"record %d" % number, now_ms, ()) for number in range(count)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        for producer_id, epoch, sequence, count in lives
    ]
