"""The check of tables that are written while drivers are killed: it finds the faults of falsified tables."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.exactly_once.tables import FLOWS, Row, faults_of_rows, rows_of_flow

BATCHES = range(10)
BATCH = 1_000
RECORDS = BATCH * len(BATCHES)
EARLY = 2

Table = dict[Row, Row]
"""Rows by their keys."""


def by_key(flow: str, rows: Iterable[Row]) -> Table:
    if flow == "numbers":
        return {row: row for row in rows}
    return {(row[0], row[3]) if flow == "histories" else row[:1]: row for row in rows}


def told_by(flow: str, batch: int) -> tuple[Table, set[Row]]:
    """The rows that a batch writes, and the keys of those that it removes."""
    before, after = (by_key(flow, rows_of_flow(flow, range(end * BATCH))) for end in (batch, batch + 1))
    return dict(after.items() - before.items()), before.keys() - after.keys()


def table_after(flow: str, batches: Iterable[int]) -> list[Row]:
    """The result of these batches in this order, if Spark's state has all earlier records at each."""
    table: Table = {}
    for batch in batches:
        rows, gone = told_by(flow, batch)
        table = {key: row for key, row in {**table, **rows}.items() if key not in gone}
    return list(table.values())


@pytest.mark.parametrize("flow", FLOWS)
def test_each_batch_once_is_right(flow: str):
    assert faults_of_rows(flow, table_after(flow, BATCHES), RECORDS) == []


@pytest.mark.parametrize("flow", FLOWS)
def test_a_lost_early_batch_shows(flow: str):
    table = table_after(flow, [batch for batch in BATCHES if batch != EARLY])
    assert any("missing" in fault for fault in faults_of_rows(flow, table, RECORDS))


@pytest.mark.parametrize("flow", FLOWS)
def test_an_early_batch_whose_rows_are_there_twice_shows(flow: str):
    table = [*table_after(flow, BATCHES), *told_by(flow, EARLY)[0].values()]
    assert any("too many" in fault for fault in faults_of_rows(flow, table, RECORDS))


def test_an_early_batch_that_is_counted_twice_shows():
    early = range(EARLY * BATCH, (EARLY + 1) * BATCH)
    assert faults_of_rows("sums", rows_of_flow("sums", [*range(RECORDS), *early]), RECORDS) != []


def test_an_early_batch_that_is_written_again_behind_later_ones_shows_in_a_history():
    """As by an earlier driver that comes back: ended rows are open again."""
    table = table_after("histories", [*BATCHES[:7], EARLY, *BATCHES[7:]])
    assert faults_of_rows("histories", table, RECORDS) != []


def test_one_row_of_a_history_that_is_left_open_shows():
    table = table_after("histories", BATCHES)
    ended = next(place for place, row in enumerate(table) if row[-1] is not None)
    table[ended] = (*table[ended][:-1], None)
    assert faults_of_rows("histories", table, RECORDS) == ["1 rows missing", "1 rows too many"]
