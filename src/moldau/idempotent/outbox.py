"""Rows that wait for their topic: written with the business data, read by a relay in the order of their ids.

A relay sends the rows that are in the table, and deletes them; it keeps no "last id". So a row of a transaction that
commits late, with an id lower than those already sent, is not missed. Of two transactions of which the second saw the
first, the second has the higher id."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from moldau.idempotent.blocking import run, settled
from moldau.idempotent.records import Headers
from moldau.idempotent.sessions import Dialect, Session
from moldau.idempotent.stores import Store

_ADD = "INSERT INTO moldau_outbox (topic, key, value, headers) VALUES (?, ?, ?, ?)"


class Row(NamedTuple):
    """One record that waits."""

    key: bytes | None
    value: bytes | None
    headers: Headers


class Claim(NamedTuple):
    """What a relay finds when it takes an outbox. `batch`: the number of the last batch, which may be sent or not."""

    identity: str
    batch: int
    is_waiting: bool


async def add_row(
    dialect: Dialect, connection: Any, topic: str, row: tuple[bytes | None, bytes | None, Headers]
) -> None:
    """Writes one row in the open transaction of a connection of the driver."""
    key, value, headers = row
    coded = [[name, None if text is None else base64.b64encode(text).decode()] for name, text in headers]
    await settled(connection.execute(dialect.text(_ADD), (topic, key, value, json.dumps(coded))))


class Outbox:
    """The rows for one topic. A relay sends them; see OutboxRelay."""

    def __init__(self, store: Store, topic: str) -> None:
        self._dialect, self._topic = store.dialect, topic

    def add(
        self,
        connection: Any,
        value: bytes | None,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        """Writes a row in the transaction that is open on your connection. The record leaves if you commit it."""
        run(add_row(self._dialect, connection, self._topic, (key, value, tuple(headers))))


async def take(session: Session, topic: str, holder: str, identity: str, lease_ms: int) -> Claim | None:
    """Makes this relay the holder of the outbox; None if another one holds it. A new outbox gets `identity`."""
    async with session.transaction():
        await session.run(
            "INSERT INTO moldau_outboxes (topic, identity, batch, held_until_ms) VALUES (?, ?, 0, 0) "
            "ON CONFLICT DO NOTHING",
            (topic, identity),
        )
        answer = await session.run(
            "SELECT identity, batch, holder, held_until_ms > {now_ms} FROM moldau_outboxes "
            "WHERE topic = ? {skip_locked}",
            (topic,),
        )
        if not answer.rows:
            return None  # its holder is at work
        found, batch, other, is_held = answer.rows[0]
        if is_held and other != holder:
            return None
        await session.run(
            "UPDATE moldau_outboxes SET holder = ?, held_until_ms = {now_ms} + ? WHERE topic = ?",
            (holder, lease_ms, topic),
        )
        waiting = await session.run(
            "SELECT 1 FROM moldau_outbox WHERE topic = ? AND batch IS NOT NULL LIMIT 1", (topic,)
        )
        return Claim(str(found), int(batch), bool(waiting.rows))


async def next_batch(
    session: Session, topic: str, holder: str, lease_ms: int, sent: int, at_most: int
) -> tuple[int, list[Row]] | None:
    """Deletes the rows of the batches that are sent, and gives the next one: the batch that is numbered and not sent,
    or a new number for the first rows. None if another relay took the outbox."""
    async with session.transaction():
        answer = await session.run(
            "SELECT batch FROM moldau_outboxes WHERE topic = ? AND holder = ? {for_update}", (topic, holder)
        )
        if not answer.rows:
            return None
        batch = int(answer.rows[0][0])
        await session.run("DELETE FROM moldau_outbox WHERE topic = ? AND batch <= ?", (topic, sent))
        rows = await _rows(session, topic)
        if not rows:
            marked = await session.run(
                "UPDATE moldau_outbox SET batch = ? WHERE id IN "
                "(SELECT id FROM moldau_outbox WHERE topic = ? ORDER BY id LIMIT ?)",
                (batch + 1, topic, at_most),
            )
            if marked.changed:
                batch += 1
                rows = await _rows(session, topic)
        await session.run(
            "UPDATE moldau_outboxes SET batch = ?, held_until_ms = {now_ms} + ? WHERE topic = ?",
            (batch, lease_ms, topic),
        )
    return batch, rows


async def _rows(session: Session, topic: str) -> list[Row]:
    """The numbered rows, in order."""
    answer = await session.run(
        "SELECT key, value, headers FROM moldau_outbox WHERE topic = ? AND batch >= 0 ORDER BY id", (topic,)
    )
    return [Row(key, value, _headers(coded)) for key, value, coded in answer.rows]


def _headers(coded: str) -> Headers:
    return tuple((name, None if text is None else base64.b64decode(text)) for name, text in json.loads(coded))
