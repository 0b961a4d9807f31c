"""The tables of this package, as versions: each is applied once, in order, and never changed."""

from __future__ import annotations

from moldau.idempotent.errors import MigrationError
from moldau.idempotent.sessions import Session

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # error: NULL for a handled record, the reason of a dead one
        "CREATE TABLE moldau_handled (consumer TEXT NOT NULL, topic TEXT NOT NULL, id {bytes} NOT NULL, "
        "handled_ms BIGINT NOT NULL, error TEXT, PRIMARY KEY (consumer, topic, id))",
        "CREATE INDEX moldau_handled_by_age ON moldau_handled (consumer, handled_ms)",
        "CREATE TABLE moldau_offsets (consumer TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL, "
        "next_offset BIGINT NOT NULL, PRIMARY KEY (consumer, topic, partition))",
    ),
    (
        # batch: the last one that was numbered; holder: the relay that may send until held_until_ms
        "CREATE TABLE moldau_outboxes (topic TEXT PRIMARY KEY, identity TEXT NOT NULL, batch BIGINT NOT NULL, "
        "holder TEXT, held_until_ms BIGINT NOT NULL)",
        # batch: NULL until a relay takes the row
        "CREATE TABLE moldau_outbox (id {serial}, topic TEXT NOT NULL, key {bytes}, value {bytes}, "
        "headers TEXT NOT NULL, batch BIGINT)",
        "CREATE INDEX moldau_outbox_in_order ON moldau_outbox (topic, id)",
        "CREATE INDEX moldau_outbox_by_batch ON moldau_outbox (topic, batch) WHERE batch IS NOT NULL",
    ),
)


async def migrate(session: Session) -> None:
    """Makes the tables, or brings them to the newest version. Programs may call it at the same time. Raises
    MigrationError for tables of a newer version."""
    async with session.transaction():
        if session.dialect.lock_migrations:
            await session.run(session.dialect.lock_migrations)
        await session.run(
            "CREATE TABLE IF NOT EXISTS moldau_migrations (version INTEGER PRIMARY KEY, applied_ms BIGINT NOT NULL)"
        )
        answer = await session.run("SELECT coalesce(max(version), 0) FROM moldau_migrations")
        version = int(answer.rows[0][0])
        if version > len(MIGRATIONS):
            raise MigrationError(f"the tables have version {version}, and this Moldau knows {len(MIGRATIONS)}: update")
        for number, statements in enumerate(MIGRATIONS[version:], version + 1):
            for statement in statements:
                await session.run(statement)
            await session.run("INSERT INTO moldau_migrations VALUES (?, {now_ms})", (number,))
