"""The source: reads one page after the other, and the last page again for what is new.

The last page is not asked for again before `poll_ms` have passed. A page without new records is the last one, even if
its cursor has moved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from pyspark.sql.datasource import SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadMaxRows

from moldau.connectors.http.pages import RECORD, Page, Paging, Place
from moldau.connectors.http.requests import MAX_PAGE_BYTES, HttpError, Requester, Server

CURSOR: Final = "cursor"
RECORDS: Final = "records"
ROWS_AT_ONCE: Final = 100_000
"""Rows of a read without a limit, as Spark reads. The last page may be cut."""
MAX_PAGES_AGAIN: Final = 10_000
"""Pages between two places that Spark reads again."""

RowMaker = Callable[[Any], tuple[Any, ...]]
"""A row of a record. Raises ValueError."""


class HttpReader(SimpleDataSourceStreamReader):
    def __init__(self, server: Server, paging: Paging, make_row: RowMaker, initial: str | None, poll_ms: int) -> None:
        self._server = server
        self._paging = paging
        self._make_row = make_row
        self._initial = initial
        self._poll_s = poll_ms / 1_000
        self._requester: Requester | None = None
        self._rests_until_s = 0.0

    def __getstate__(self) -> dict[str, Any]:
        """Spark pickles a reader. Times and connections belong to a process."""
        return {**self.__dict__, "_requester": None, "_rests_until_s": 0.0}

    def initialOffset(self) -> Place:  # noqa: N802 - Spark's name
        return {CURSOR: self._initial, RECORDS: 0}

    def read(self, start: Place, limit: ReadMaxRows | None = None) -> tuple[Iterator[tuple[Any, ...]], Place]:
        """Pages up to the limit, or to the last one. Raises HttpError."""
        place, size = start, 0
        rows: list[tuple[Any, ...]] = []
        most = ROWS_AT_ONCE if limit is None else limit.max_rows
        is_last = time.monotonic() < self._rests_until_s
        while not is_last and len(rows) < most and size < MAX_PAGE_BYTES:
            page = self._page(place)
            new = page.records[place[RECORDS] :]
            found = new[: most - len(rows)]
            rows += self._rows(found, place)
            end = _after(page, place) if len(found) == len(new) else self._within(place, found)
            is_last = not found or (len(found) == len(new) and end[CURSOR] == place[CURSOR])
            if is_last:
                self._rests_until_s = time.monotonic() + self._poll_s
            place, size = end, size + page.size
        return iter(rows), place

    def readBetweenOffsets(self, start: Place, end: Place) -> Iterator[tuple[Any, ...]]:  # noqa: N802 - Spark's name
        """Raises HttpError if the server has other pages now."""
        place = start
        for _ in range(MAX_PAGES_AGAIN):
            if place == end:
                return
            page = self._page(place)
            found, following = self._again(page, place, end)
            yield from self._rows(found, place)
            if following == place:
                break
            place = following
        raise HttpError(f"{self._server.address}: the pages from {start} to {end} cannot be read again")

    def _again(self, page: Page, place: Place, end: Place) -> tuple[list[Any], Place]:
        found = page.records[place[RECORDS] :]
        if place[CURSOR] == end[CURSOR]:
            count = end[RECORDS] - place[RECORDS]
            return (found[:count], end) if len(found) >= count else ([], place)
        if self._paging.cursor_of == RECORD and self._paging.next_page is None:
            for number, record in enumerate(found, 1):
                if self._paging.cursor_in(record) == end[CURSOR]:
                    return found[:number], end
        return found, _after(page, place)

    def _page(self, place: Place) -> Page:
        if self._requester is None:
            self._requester = Requester(self._server)
        cursor = place[CURSOR]
        page = self._paging.read(self._requester.send("GET", self._paging.address_of(cursor)), cursor)
        if len(page.records) < place[RECORDS]:
            raise HttpError(
                f"{self._server.address}: the page of the cursor {cursor} has {len(page.records)} records, and "
                f"{place[RECORDS]} of it were read before: records of a page without a next one may only be added"
            )
        return page

    def _within(self, start: Place, found: list[Any]) -> Place:
        """The place after some records of a page."""
        if self._paging.cursor_of == RECORD:
            cursor = self._paging.cursor_in(found[-1])
            if cursor is not None and cursor != start[CURSOR]:
                return {CURSOR: cursor, RECORDS: 0}
        return {CURSOR: start[CURSOR], RECORDS: start[RECORDS] + len(found)}

    def _rows(self, found: list[Any], start: Place) -> list[tuple[Any, ...]]:
        rows = []
        for number, record in enumerate(found, start[RECORDS] + 1):
            try:
                rows.append(self._make_row(record))
            except ValueError as error:
                where = f"{self._server.address}: record {number} of the page of the cursor {start[CURSOR]}"
                raise HttpError(f"{where}: {error}") from error
        return rows


def _after(page: Page, place: Place) -> Place:
    if page.following is None or page.following == place[CURSOR]:
        return {CURSOR: place[CURSOR], RECORDS: len(page.records)}
    return {CURSOR: page.following, RECORDS: 0}
