"""The statements of a request: what they may be, and who may send them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from moldau.errors import MoldauError
from moldau.products.service.people import Person, Role
from moldau.products.sql.catalog.catalog import Catalog
from moldau.products.sql.engine.answers import Answer, QueryStatus
from moldau.products.sql.engine.looking.looking import only_looks
from moldau.products.sql.engine.session import Session, session_of
from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.parser.script import Parsed, parse_script
from moldau.products.sql.language.statements import Explain, Print, RunQuery, RunScript, Show
from moldau.products.sql.serving.http.bodies import Asked
from moldau.products.sql.serving.http.entities import Answered, Entity, entity_of
from moldau.products.sql.serving.http.errors import (
    BAD_REQUEST,
    BAD_STATEMENT,
    FORBIDDEN,
    QUERY_ENDPOINT,
    RejectedRequest,
    script_error,
    statement_error,
    statement_text,
)
from moldau.products.sql.serving.http.inserts import text_literal


class Statements(Protocol):
    """The part of the engine that runs statements."""

    @property
    def catalog(self) -> Catalog: ...

    def run(self, parsed: Parsed, session: Session) -> Answer:
        """Raises SqlError, and another MoldauError for what is not a fault of the statement."""

    def statuses(self) -> Sequence[QueryStatus]: ...


def read_script(engine: Statements, asked: Asked) -> list[Parsed]:
    """Raises RejectedRequest."""
    try:
        script = parse_script(asked.sql, asked.variables, engine.catalog.types)
    except SqlError as error:
        raise script_error(asked.sql, error) from error
    if not script:
        raise RejectedRequest(BAD_REQUEST, "the request has no statement")
    return script


def session_for(engine: Statements, asked: Asked) -> Session:
    """The session of one request. Raises RejectedRequest for an unknown property or value."""
    session = session_of(asked.variables, {})
    for name, value in asked.properties.items():
        set_property(engine, session, name, value)
    return session


def set_property(engine: Statements, session: Session, name: str, value: str | None) -> None:
    """As SET, or UNSET without a value. Raises RejectedRequest."""
    text = f"UNSET {text_literal(name)}" if value is None else f"SET {text_literal(name)} = {text_literal(value)}"
    try:
        engine.run(parse_script(text, substitutes=False)[0], session)
    except SqlError as error:
        raise RejectedRequest(BAD_REQUEST, error.problem) from error


def check_script(script: Sequence[Parsed], person: Person) -> None:
    """Raises RejectedRequest for a statement that /ksql does not take, or not from this person."""
    for parsed in script:
        if isinstance(parsed.statement, RunQuery | Print):
            raise RejectedRequest(QUERY_ENDPOINT, "SELECT and PRINT are sent to /query", statement_text(parsed))
        if isinstance(parsed.statement, RunScript):
            raise RejectedRequest(
                BAD_STATEMENT, "RUN SCRIPT is for the shell: send the statements of the file", statement_text(parsed)
            )
        is_look = only_looks(parsed.statement) or isinstance(parsed.statement, Explain)
        if person.role < Role.EDITOR and not is_look:
            raise RejectedRequest(
                FORBIDDEN, f"{person.principal} is no editor here and may only look", statement_text(parsed)
            )


def run_script(engine: Statements, script: Sequence[Parsed], session: Session, first_number: int) -> list[Entity]:
    """The entities. Raises RejectedRequest, with those of the statements before the failed one."""
    found: list[Entity] = []
    for number, parsed in enumerate(script, first_number):
        before = engine.catalog
        try:
            answer = engine.run(parsed, session)
        except MoldauError as error:
            raise statement_error(parsed, error, found) from error
        after = engine.catalog
        shown, is_changed = parsed.statement, after != before
        statuses = engine.statuses() if isinstance(shown, Show) and shown.is_extended else ()
        entity = entity_of(Answered(parsed, answer, after, number, is_changed=is_changed, statuses=statuses))
        if entity is not None:
            found.append(entity)
    return found
