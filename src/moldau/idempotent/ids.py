"""The ids of handled and dead records, and the offsets that the database keeps."""

from __future__ import annotations

from datetime import timedelta

from moldau.idempotent.records import Partition
from moldau.idempotent.sessions import Session

DELETED_AT_ONCE = 10_000


async def add_id(session: Session, consumer: str, topic: str, id: bytes, error: str | None = None) -> bool:
    """Whether the id is new. If another transaction adds it at the same time, the database waits for its end."""
    answer = await session.run(
        "INSERT INTO moldau_handled (consumer, topic, id, handled_ms, error) VALUES (?, ?, ?, {now_ms}, ?) "
        "ON CONFLICT DO NOTHING",
        (consumer, topic, id, error),
    )
    return answer.changed == 1


async def reason_of(session: Session, consumer: str, topic: str, id: bytes) -> str | None:
    """Why the record is dead; None if it is not."""
    answer = await session.run(
        "SELECT error FROM moldau_handled WHERE consumer = ? AND topic = ? AND id = ?", (consumer, topic, id)
    )
    return answer.rows[0][0] if answer.rows else None


async def expire(session: Session, consumer: str, older_than: timedelta, at_most: int) -> int:
    """Deletes so many ids that are older, the oldest first; gives their number."""
    age_ms = int(older_than.total_seconds() * 1000)
    async with session.transaction():
        answer = await session.run(
            "DELETE FROM moldau_handled WHERE (consumer, topic, id) IN (SELECT consumer, topic, id FROM moldau_handled "
            "WHERE consumer = ? AND handled_ms < {now_ms} - ? ORDER BY handled_ms LIMIT ?)",
            (consumer, age_ms, at_most),
        )
        return answer.changed


_KEY = "WHERE consumer = ? AND topic = ? AND partition = ?"


async def read_offset(session: Session, consumer: str, place: Partition) -> int | None:
    """The next offset to handle; None if no record of the partition was handled."""
    answer = await session.run(f"SELECT next_offset FROM moldau_offsets {_KEY}", (consumer, *place))
    return int(answer.rows[0][0]) if answer.rows else None


async def lock_offset(session: Session, consumer: str, place: Partition, first: int) -> int:
    """The next offset to handle, `first` if none is kept. No other consumer writes it until the transaction ends."""
    statement = f"SELECT next_offset FROM moldau_offsets {_KEY} {{for_update}}"
    answer = await session.run(statement, (consumer, *place))
    if not answer.rows:
        await session.run(
            "INSERT INTO moldau_offsets (consumer, topic, partition, next_offset) VALUES (?, ?, ?, ?) "
            "ON CONFLICT DO NOTHING",
            (consumer, *place, first),
        )
        answer = await session.run(statement, (consumer, *place))
    return int(answer.rows[0][0])


async def write_offset(session: Session, consumer: str, place: Partition, offset: int) -> None:
    """Keeps the next offset to handle; the transaction has it locked."""
    await session.run(f"UPDATE moldau_offsets SET next_offset = ? {_KEY}", (offset, consumer, *place))
