"""`make compare` with few records: the rows that need no other server, and the tables of its page."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.compare import servers, table, work
from benchmarks.compare.systems import CACHED, FLUSHED, MOLDAU, SYSTEMS, System
from benchmarks.compare.values import Acknowledged, Values, number_of
from benchmarks.compare.work import Job

RECORDS = 500
OURS = [one for one in SYSTEMS if one.server in ("", MOLDAU) and one.library != "kafka-python"]


@contextmanager
def running(system: System, folder: Path) -> Iterator[tuple[Job, Any]]:
    """A job whose topic or table exists, and its server."""
    peer = servers.started(servers.makers(None, None)[MOLDAU], folder / MOLDAU) if system.server else None
    try:
        job = Job(system, system.address_of(peer, folder), "few", 100, RECORDS, seconds=30, window=50, rate=500)
        work.create(job)
        yield job, peer
    finally:
        if peer is not None:
            peer.stop()


@pytest.mark.slow
@pytest.mark.parametrize("system", OURS, ids=lambda system: system.name)
def test_two_readers_get_every_record_from_the_first_on(system: System, tmp_path: Path) -> None:
    with running(system, tmp_path) as (job, _):
        assert work.write(job)["records"] == RECORDS
        for reader in ("first", "second"):
            found = work.read(replace(job, reader=reader))
            assert (found["records"], found["first_number"]) == (RECORDS, 0)
        work.delete(job)


@pytest.mark.slow
@pytest.mark.parametrize("system", OURS[:1] + OURS[-1:], ids=lambda system: system.name)
def test_a_kill_loses_no_acknowledged_record(system: System, tmp_path: Path) -> None:
    with running(system, tmp_path) as (job, peer):
        found = work.after_kill(replace(job, records=200_000), peer, tmp_path, random.Random(1))
    assert found["acknowledged"] > 0
    assert found["lost"] == 0


@pytest.mark.slow
def test_a_latency_counts_timed_records_of_another_process(tmp_path: Path) -> None:
    with running(OURS[-1], tmp_path) as (job, _):
        found = work.latency(replace(job, records=50))
    assert 0 < found["p50_ms"] <= found["p99_ms"]


def test_an_acknowledgement_that_comes_twice_counts_once() -> None:
    acknowledged = Acknowledged(memoryview(bytearray(10)))
    for first, end in ((0, 3), (2, 3), (1, 5)):
        acknowledged.mark(first, end)
    assert acknowledged.count == 5


def test_the_clock_starts_when_the_first_record_is_acknowledged() -> None:
    acknowledged = Acknowledged(memoryview(bytearray(3)))
    values = Values(acknowledged, value_bytes=100, records=3, seconds=30)
    drawn = values.at_full_speed()
    first = next(drawn)
    assert first is not None
    assert (number_of(first), len(first)) == (0, 100)
    assert next(drawn) is None
    assert not values.started_at
    acknowledged.mark(0, 1)
    assert [number_of(value) for value in drawn if value] == [1, 2]
    assert values.started_at


def test_every_row_has_one_of_moldau_to_compare_with() -> None:
    rows = [row_of(system, {}) for system in SYSTEMS]
    assert [row["name"] for row in rows if table.reference(rows, row) is None] == []
    assert {row["durability"] for row in rows} == {CACHED, FLUSHED}


def row_of(system: System, figures: dict[str, float]) -> dict[str, Any]:
    row = {"name": system.name, "library": system.library, "server": system.server, "durability": system.durability}
    return {**row, "missing": "", "figures": figures}


def test_a_loss_is_reported_with_its_ratio() -> None:
    ours, other = OURS[0], next(system for system in SYSTEMS if system.server == "kafka")
    slow = row_of(ours, {"write_100_rate": 100.0, "latency_p99_ms": 4.0, "alone_rate": 10.0, "pss_mib": 30.0})
    fast = row_of(other, {"write_100_rate": 250.0, "latency_p99_ms": 1.0, "alone_rate": 9.0, "pss_mib": 20.0})
    assert table.losses([slow, fast]) == [
        "- write, 100 B, in the page cache: Apache Kafka (confluent-kafka) 2.50",
        "- latency p99, in the page cache: Apache Kafka (confluent-kafka) 4.00",
        "- memory at rest: Apache Kafka 1.50",
    ]


def test_the_tables_replace_only_what_is_between_the_markers() -> None:
    page = f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n"
    written = table.page_with(page, "new")
    assert written == f"before\n{table.BEGIN}\n\nnew\n\n{table.END}\nafter\n"
    assert table.page_with(written, "new") == written


def test_a_system_that_is_missing_is_named_with_its_reason() -> None:
    row = row_of(SYSTEMS[-3], {}) | {"missing": "no apt-get"}
    amounts = {"records": 1, "seconds": 1, "window": 1, "latency_rate": 1}
    machine = {"cores": 2, "python": "3", "system": "Linux"}
    result = {"date": "2026-11-30", "machine": machine, "versions": {}, "amounts": amounts, "rounds": 1, "rows": [row]}
    assert f"- Not measured: {row['name']} ({row['library']}): no apt-get" in table.tables(result)
