"""Queries that send their rows to a client.

A query is closed when its client has gone, when the client has read nothing for long, when somebody closes it by its
id, and when the service ends. What waits for a client is one read of rows, and the buffers of the query and of the
connection.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from moldau.errors import MoldauError
from moldau.products.service.people import Person, Role
from moldau.products.sql.engine.answers import ChangedRow, RowStream
from moldau.products.sql.serving.http.errors import (
    BAD_REQUEST,
    FAILED,
    FORBIDDEN,
    NOT_READY,
    TOO_MANY_REQUESTS,
    RejectedRequest,
    message_of,
)
from moldau.products.sql.serving.http.forms import Form, Header
from moldau.products.sql.serving.http.pieces import STALLED_S, PiecesResponse

MAX_OPEN = 20
"""A query that waits for rows holds one of the 40 threads that the service has for blocking work."""
READ_S = 0.25
"""How long one read waits for rows, so how late a closed query ends."""
IDLE_S = 5.0
"""A client without rows gets a sign of life after this time, where its form has one."""
ROWS_AT_ONCE = 500
PIECE_BYTES = 65_536
"""Rows are sent when they have this size."""


class Sending:
    """The queries that send rows now. Use from the service's loop.

    `most`: open at once, with the requests that send rows to us.
    """

    def __init__(self, *, most: int = MAX_OPEN, stalled_s: float = STALLED_S) -> None:
        self.stalled_s = stalled_s
        self._most, self._places = most, 0
        self._open: dict[str, LiveResponse] = {}

    def take_place(self) -> None:
        """Before a query starts. Raises RejectedRequest if there is none."""
        if self._places >= self._most:
            raise RejectedRequest(
                TOO_MANY_REQUESTS, f"{self._most} requests send or take rows already: end one, or try again later"
            )
        self._places += 1

    def give_back(self) -> None:
        self._places -= 1

    def begin(self, live: LiveResponse) -> None:
        """`live`: has the place that was taken for it, until it ends."""
        self._open[live.query_id] = live

    def end(self, live: LiveResponse) -> None:
        self._open.pop(live.query_id, None)
        self.give_back()

    def close(self, query_id: str, person: Person) -> None:
        """Ends a query of the person, or any as an editor. Raises RejectedRequest."""
        live = self._open.get(query_id)
        if live is None:
            raise RejectedRequest(BAD_REQUEST, f"No query with id {query_id}")
        if live.principal != person.principal and person.role < Role.EDITOR:
            raise RejectedRequest(FORBIDDEN, f"the query {query_id} is not one of {person.principal}")
        live.is_closed = True


class LiveResponse(PiecesResponse):
    """Sends rows as they come. `last`: the message at the end; `may_go_on`: whether the service and the person's
    session are open."""

    def __init__(
        self,
        sending: Sending,
        stream: RowStream,
        form: Form,
        person: Person,
        last: str,
        may_go_on: Callable[[], bool],
    ) -> None:
        super().__init__(form.media_type, sending.stalled_s)
        self.query_id, self.principal = stream.query_id, person.principal
        self.is_closed = False
        self._sending, self._stream, self._form = sending, stream, form
        self._last, self._may_go_on = last, may_go_on
        sending.begin(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watching = asyncio.create_task(self._watch(receive))
        try:
            await super().__call__(scope, receive, send)
        finally:
            watching.cancel()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.is_closed = True

    async def pieces(self) -> AsyncIterator[bytes]:
        form, stream = self._form, self._stream
        yield form.header(Header(stream.query_id, stream.columns))
        sent_s = time.monotonic()
        while not stream.is_over and not self.is_closed:
            if not self._may_go_on():
                yield form.error(NOT_READY, "the service stops, or the session has ended: ask again")
                return
            try:
                rows = await run_in_threadpool(stream.read, ROWS_AT_ONCE, READ_S)
            except MoldauError as error:
                yield form.error(FAILED, message_of(error))
                return
            for piece in _joined(form, rows):
                yield piece
            if rows:
                sent_s = time.monotonic()
            elif form.idle and time.monotonic() - sent_s >= IDLE_S:
                sent_s = time.monotonic()
                yield form.idle
        yield form.end(self._last)

    async def ended(self) -> None:
        self._sending.end(self)
        await run_in_threadpool(self._stream.close)


def _joined(form: Form, rows: Sequence[ChangedRow]) -> Iterator[bytes]:
    waiting = bytearray()
    for row in rows:
        waiting += form.row(row)
        if len(waiting) >= PIECE_BYTES:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)
