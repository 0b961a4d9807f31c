"""The response of /inserts-stream: an acknowledgement for each row that is written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from moldau.errors import MoldauError
from moldau.products.sql.catalog.catalog import Relation
from moldau.products.sql.engine.session import Session
from moldau.products.sql.serving.http.errors import FAILED, NOT_READY, RejectedRequest, message_of
from moldau.products.sql.serving.http.forms import DELIMITED
from moldau.products.sql.serving.http.inserts import Literals, batches, insert_of, literals_of
from moldau.products.sql.serving.http.live import Sending
from moldau.products.sql.serving.http.pieces import PiecesResponse
from moldau.products.sql.serving.http.statements import Statements
from moldau.products.sql.serving.http.values import encoded

Parts = AsyncIterator[list[bytes]]
"""The lines of the request as they come."""


class AcksResponse(PiecesResponse):
    """Writes rows as they come, each part of the request as few INSERTs, and ends after the first row that fails: those
    before it are written, and none after it."""

    def __init__(
        self,
        sending: Sending,
        engine: Statements,
        relation: Relation,
        parts: Parts,
        may_go_on: Callable[[], bool],
    ) -> None:
        super().__init__(DELIMITED, sending.stalled_s)
        self._sending, self._engine, self._relation, self._parts = sending, engine, relation, parts
        self._may_go_on = may_go_on
        self._session = Session()
        self._number = 0

    async def pieces(self) -> AsyncIterator[bytes]:
        try:
            async for lines in self._parts:
                rows, wrong = self._rows(lines)
                for batch in batches(rows):
                    if not self._may_go_on():
                        wrong = RejectedRequest(NOT_READY, "the service stops, or the session has ended: ask again")
                        break
                    try:
                        await run_in_threadpool(self._write, batch)
                    except MoldauError as error:
                        wrong = RejectedRequest(FAILED, message_of(error))
                        break
                    yield b"".join(self._ack() for _ in batch)
                if wrong is not None:
                    yield encoded(self._error(wrong)) + b"\n"
                    return
        except RejectedRequest as error:  # a line that is too long
            yield encoded(self._error(error)) + b"\n"
        except ClientDisconnect:
            pass

    async def ended(self) -> None:
        self._sending.give_back()

    def _rows(self, lines: Sequence[bytes]) -> tuple[list[Literals], RejectedRequest | None]:
        """The rows before the first wrong one, and its error."""
        found: list[Literals] = []
        for line in lines:
            try:
                found.append(literals_of(line, self._relation))
            except RejectedRequest as error:
                return found, error
        return found, None

    def _write(self, rows: Sequence[Literals]) -> None:
        self._engine.run(insert_of(self._relation, rows), self._session)

    def _ack(self) -> bytes:
        self._number += 1
        return encoded({"status": "ok", "seq": self._number - 1}) + b"\n"

    def _error(self, error: RejectedRequest) -> dict[str, object]:
        return {"status": "error", "seq": self._number, "error_code": error.code, "message": error.message}
