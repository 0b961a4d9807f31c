"""Errors as ksqlDB's messages."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.errors import MoldauError
from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.parser.script import Parsed
from moldau.products.sql.language.statements import (
    AssertSchema,
    AssertSource,
    AssertTopic,
)

BAD_REQUEST = 40000
BAD_STATEMENT = 40001
QUERY_ENDPOINT = 40002
UNAUTHORIZED = 40100
FORBIDDEN = 40300
NOT_FOUND = 40400
TOO_LARGE = 41300
ASSERTION_FAILED = 41700
TOO_MANY_REQUESTS = 42900
FAILED = 50000
NOT_READY = 50302

_ASSERTIONS = (AssertTopic, AssertSchema, AssertSource)


class RejectedRequest(MoldauError):
    """`code`: ksqlDB's; its first three digits are the status. `statement`: the text that the error is of; None if it
    is of the request. `entities`: of the statements before it, which were run."""

    def __init__(self, code: int, message: str, statement: str | None = None, entities: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.code, self.message = code, message
        self.statement, self.entities = statement, tuple(entities)

    @property
    def status(self) -> int:
        return self.code // 100

    @property
    def body(self) -> dict[str, object]:
        found: dict[str, object] = generic_error(self.code, self.message)
        if self.statement is not None:
            found |= {"@type": "statement_error", "statementText": self.statement, "entities": self.entities}
        return found


def generic_error(code: int, message: str) -> dict[str, object]:
    return {"@type": "generic_error", "error_code": code, "message": message}


def script_error(script: str, error: SqlError) -> RejectedRequest:
    """Of a script that cannot be read."""
    return RejectedRequest(BAD_STATEMENT, message_of(error), script)


def statement_error(parsed: Parsed, error: MoldauError, entities: Sequence[object] = ()) -> RejectedRequest:
    """Of a statement that failed."""
    code = FAILED
    if isinstance(parsed.statement, _ASSERTIONS):
        code = ASSERTION_FAILED
    elif isinstance(error, SqlError):
        code = BAD_STATEMENT
    return RejectedRequest(code, message_of(error), statement_text(parsed), entities)


def message_of(error: MoldauError) -> str:
    """With the line of the script and a caret, if the place is known."""
    return f"{error}\n{error.picture}" if isinstance(error, SqlError) and error.source_line else str(error)


def statement_text(parsed: Parsed) -> str:
    """As ksqlDB shows statements."""
    return f"{parsed.text};"
