"""Runs the statements of a text one after the other, and those of RUN SCRIPT."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from moldau.errors import MoldauError
from moldau.products.sql.catalog.catalog import Catalog
from moldau.products.sql.catalog.deciding import apply, decide, decides
from moldau.products.sql.catalog.declarative import in_our_words
from moldau.products.sql.engine.answers import Answer
from moldau.products.sql.engine.session import Session
from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.parser.script import Parsed, parse_script
from moldau.products.sql.language.statements import RunScript
from moldau.products.sql.language.tokens import MAX_BYTES
from moldau.products.sql.terminal.answers import Printer

MAX_NESTED = 10
"""How deep scripts may run scripts."""


class SqlService(Protocol):
    """Port to what runs statements: an engine in this process, or a server."""

    @property
    def catalog(self) -> Catalog:
        """The newest value."""

    def run(self, parsed: Parsed, session: Session) -> Answer:
        """Runs a statement. Raises SqlError and MoldauError."""


class ScriptError(MoldauError):
    """A statement of a script failed. `text`: the script; `cause`: the error."""

    def __init__(self, path: Path | None, text: str, cause: MoldauError) -> None:
        super().__init__(str(cause) if path is None else f"{path}: {cause}")
        self.path, self.text, self.cause = path, text, cause


def run_text(
    text: str,
    service: SqlService,
    session: Session,
    show: Callable[[Answer], None],
    path: Path | None = None,
) -> None:
    """Parses all of it, then runs statement by statement, up to the first error. `path`: of the file that has it, for
    paths of RUN SCRIPT, which are relative to it. Raises ScriptError."""
    _run(text, service, session, show, (path,))


def run_shown(
    text: str, service: SqlService, session: Session, printer: Printer, path: Path, check: Callable[[], None]
) -> int:
    """As `run_text`, and prints the answers. `check`: asked after each one; what it raises ends the run. Returns 0, or
    the exit code of the error that it has shown: 2 for a statement that is rejected before any other has run, otherwise
    1."""
    count = 0

    def show(answer: Answer) -> None:
        nonlocal count
        count += 1
        printer.show(answer)
        check()

    try:
        run_text(text, service, session, show, path)
    except ScriptError as error:
        printer.error(error.cause, error.text)
        return 2 if count == 0 and isinstance(error.cause, SqlError) else 1
    return 0


def _run(
    text: str,
    service: SqlService,
    session: Session,
    show: Callable[[Answer], None],
    paths: tuple[Path | None, ...],
) -> None:
    try:
        for parsed in parse_script(text, session.variables, service.catalog.types):
            if isinstance(parsed.statement, RunScript):
                found = _next_to(paths[-1], parsed.statement.path.text)
                if len(paths) > MAX_NESTED:
                    raise MoldauError(f"scripts run scripts more than {MAX_NESTED} deep")
                _run(read_script(found), service, session, show, (*paths, found))
            else:
                show(service.run(parsed, session))
    except ScriptError:
        raise
    except MoldauError as error:
        raise ScriptError(paths[-1], text, error) from error


def check_text(text: str, session: Session, path: Path | None = None) -> None:
    """What a script would be rejected for, as far as its text alone tells, on an empty catalog. Raises ScriptError."""
    catalog = Catalog()
    try:
        for parsed in map(in_our_words, parse_script(text, session.variables)):
            if decides(parsed.statement):
                for change in decide(catalog, parsed, session.properties).changes:
                    catalog = apply(catalog, change)
            elif isinstance(parsed.statement, RunScript):
                return  # what it defines is read when it runs
    except SqlError as error:
        raise ScriptError(path, text, error) from error


def read_script(path: Path) -> str:
    """Raises MoldauError for a file that cannot be read, is no UTF-8 or too long."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise MoldauError(f"{path} has more than {MAX_BYTES} bytes: split it into several scripts")
        return data.decode()
    except OSError as error:
        raise MoldauError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise MoldauError(f"{path} is not UTF-8") from error


def _next_to(path: Path | None, named: str) -> Path:
    return Path(named).expanduser() if path is None else path.parent / Path(named).expanduser()
