"""Parses the address of a PostgreSQL table, and connects to its server.

libpq reads the password itself, from PGPASSWORD or ~/.pgpass on each machine that runs tasks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from moldau.errors import MoldauError
from moldau.products.pipelines.core.keys import Text
from moldau.products.pipelines.core.section import Section

if TYPE_CHECKING:
    from psycopg import Connection, Cursor

PARAMETERS = {
    "connect_timeout": 10, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}  # fmt: skip
"""libpq's parameters, unless the address sets them. A machine that disappears silently is noticed within a minute. The
kernel alone would probe it after two hours, and send to it for a quarter of an hour."""


POSTGRESQL = Text("postgresql", "The connection string of libpq, without a password.")
TABLE = Text("table", "The name of the table; in PostgreSQL also `schema.table`.")


class PostgresqlError(MoldauError):
    """PostgreSQL rejected a statement; the message says why."""


class UnreachableError(PostgresqlError):
    """PostgreSQL is unavailable, or rejects for a reason that may pass."""


def server_of(section: Section) -> str:
    """libpq's connection string, from `postgresql`. Raises SpecError."""
    server = POSTGRESQL.of(section)
    if re.search(r"://[^/@]*:[^/]+@|\bpassword\s*=", server):
        section.refuse(POSTGRESQL, "must not hold a password: put it into ~/.pgpass, or PGPASSWORD")
    return server


def table_of(section: Section) -> tuple[str, ...]:
    """The name in `table`, after its schema if the file names one. Raises SpecError."""
    table = tuple(TABLE.of(section).split("."))
    if len(table) > 2 or not all(table):
        section.refuse(TABLE, "must be `table` or `schema.table`")
    return table


def connect(server: str) -> Connection[Any]:
    """Raises psycopg's errors."""
    import psycopg  # a pipeline file is checked without this import
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    address = make_conninfo("", **{**PARAMETERS, **conninfo_to_dict(server)})
    return psycopg.connect(address, cursor_factory=psycopg.RawCursor)


@contextmanager
def connected(server: str, refused: str) -> Iterator[Connection[Any]]:
    """One transaction, committed at the end. `refused`: the beginning of an error message. Raises UnreachableError for
    an error that may pass, PostgresqlError for all others."""
    import psycopg  # a pipeline file is checked without this import

    try:
        connection = connect(server)
    except psycopg.OperationalError as error:
        raise UnreachableError(f"PostgreSQL cannot be reached: {sentence(error)}") from error
    except psycopg.Error as error:
        raise PostgresqlError(f"`postgresql` is no connection string: {sentence(error)}") from error
    try:
        with connection:
            yield connection
    except psycopg.OperationalError as error:
        raise UnreachableError(f"{refused}: {sentence(error)}") from error
    except psycopg.Error as error:
        raise PostgresqlError(f"{refused}: {sentence(error)}") from error


def execute(connection: Connection[Any], sql: str, *values: object) -> Cursor[Any]:
    """`sql` holds quoted names only; every value is a parameter `$1`, `$2`, ..."""
    return connection.execute(sql, values or None)


def sentence(error: Exception) -> str:
    """PostgreSQL's own words in one line. They hold no password."""
    return "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
