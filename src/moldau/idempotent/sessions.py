"""A connection to a database, with its transactions, for the databases and drivers that stores name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from moldau.idempotent.blocking import settled
from moldau.idempotent.errors import BrokenTransactionError, LostConnectionError

State: TypeAlias = Literal["open", "failed", "ended", "lost"]
"""Of a transaction: `failed`, a statement of it failed and it can only be rolled back; `ended`, nothing is open."""


class Answer(NamedTuple):
    """Rows of a statement, and the number of rows that it changed."""

    rows: list[tuple[Any, ...]]
    changed: int


@dataclass(frozen=True)
class Dialect:
    """What differs between PostgreSQL and SQLite. The texts of statements have `?` for parameters, and these words in
    braces."""

    name: str
    begin: str
    placeholder: str
    words: dict[str, str]
    state: Callable[[Any], State]
    is_transient: Callable[[BaseException], bool]
    lock_migrations: str | None

    def text(self, statement: str) -> str:
        """The statement in this dialect."""
        for word, meaning in self.words.items():
            statement = statement.replace("{" + word + "}", meaning)
        return statement.replace("?", self.placeholder)


class Session:
    """One connection, made at the first use and again after it was lost. Not for two threads at a time."""

    def __init__(self, connect: Callable[[], Any], dialect: Dialect) -> None:
        self._connect, self.dialect = connect, dialect
        self._connection: Any = None
        self._texts: dict[str, str] = {}

    async def run(self, statement: str, parameters: Sequence[object] = ()) -> Answer:
        """Runs one statement in the open transaction."""
        text = self._texts.get(statement)
        if text is None:
            text = self._texts[statement] = self.dialect.text(statement)
        cursor = await settled(self._connection.execute(text, parameters))
        rows = await settled(cursor.fetchall()) if cursor.description else []
        return Answer([tuple(row) for row in rows], cursor.rowcount)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """A transaction, with the connection of the driver. It is committed at the end of the block and rolled back by
        an error. After a lost connection nobody knows whether it was committed: the caller looks again."""
        if self._connection is None:
            self._connection = await settled(self._connect())
        try:
            await self.run(self.dialect.begin)
            yield self._connection
            self.check()
            await self.run("COMMIT")
        except BaseException as error:
            await self._roll_back(error)
            raise

    def check(self) -> None:
        """Raises BrokenTransactionError or LostConnectionError unless the transaction is open and has not failed:
        PostgreSQL answers COMMIT of a failed one with a rollback, and no error."""
        state = self.dialect.state(self._connection)
        if state == "lost":
            raise LostConnectionError("the connection to the database ended within a transaction")
        if state == "failed":
            raise BrokenTransactionError("a statement failed and the handler hid its error: let it pass")
        if state == "ended":
            raise BrokenTransactionError("the handler ended the transaction: leave commit and rollback to the library")

    async def _roll_back(self, error: BaseException) -> None:
        if self.is_transient(error) or not isinstance(error, Exception):
            await self.close()  # the state of the connection is not known, also after a cancelled call
            return
        if self.dialect.state(self._connection) != "ended":
            try:
                await self.run("ROLLBACK")
            except Exception:
                await self.close()

    def is_transient(self, error: BaseException) -> bool:
        """Whether the same transaction may succeed on a new connection."""
        return isinstance(error, LostConnectionError) or self.dialect.is_transient(error)

    async def close(self) -> None:
        """Closes the connection; what is not committed is rolled back. The next use makes a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it may be broken
                await settled(connection.close())
