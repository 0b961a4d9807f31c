"""Rows between the thread that makes them and the one that reads them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from moldau.products.sql.engine.answers import ChangedRow
from moldau.products.sql.engine.row_streams import MOST_ROWS, BufferedRows, RowsEndedError, StoppedReading

PATIENCE_S = 60.0


def rows_of(limit: int | None = None, idle_s: float = PATIENCE_S) -> BufferedRows:
    return BufferedRows("transient_0", [("n", "bigint")], (), limit=limit, idle_s=idle_s)


def made(stream: BufferedRows, count: int) -> tuple[list[int], threading.Event]:
    """The rows that were made so far, and whether no more are."""
    numbers: list[int] = []
    is_over = threading.Event()

    def make() -> None:
        try:
            for number in range(count):
                stream.put([ChangedRow((number,))])
                numbers.append(number)
        finally:
            is_over.set()

    stream.make(make, str)
    return numbers, is_over


def all_of(stream: BufferedRows) -> list[object]:
    found: list[object] = []
    while not stream.is_over:
        found += [row.values[0] for row in stream.read(100, PATIENCE_S)]
    return found


def test_a_reader_gets_all_rows_in_order_though_more_are_made_than_the_buffer_holds():
    stream = rows_of()
    made(stream, 3 * MOST_ROWS)
    assert all_of(stream) == list(range(3 * MOST_ROWS))


def test_a_reader_who_reads_nothing_loses_the_query_and_the_buffer_stays_bounded():
    stream = rows_of(idle_s=0.01)
    numbers, is_over = made(stream, 3 * MOST_ROWS)
    assert is_over.wait(PATIENCE_S)
    assert len(numbers) == MOST_ROWS
    with pytest.raises(RowsEndedError, match="nobody has read its rows for"):
        stream.read(1, PATIENCE_S)


def test_rows_beyond_the_limit_are_not_made():
    stream = rows_of(limit=3)
    numbers, is_over = made(stream, 10)
    assert all_of(stream) == [0, 1, 2]
    assert is_over.wait(PATIENCE_S)
    assert len(numbers) <= 3


def test_rows_come_before_the_error_that_ends_them():
    stream = rows_of()
    stream.put([ChangedRow((1,))])
    stream.end("the broker is gone")
    assert stream.read(10, PATIENCE_S) == [ChangedRow((1,))]
    with pytest.raises(RowsEndedError, match="the broker is gone"):
        stream.read(10, PATIENCE_S)


@pytest.mark.parametrize("act", [BufferedRows.check, lambda stream: stream.wait(PATIENCE_S)])
def test_a_closed_stream_ends_its_maker(act: Callable[[BufferedRows], None]):
    stream = rows_of()
    stream.close()
    with pytest.raises(StoppedReading):
        act(stream)
