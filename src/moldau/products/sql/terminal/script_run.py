"""Runs a script, and the queries that it starts, until they are stopped or have processed what is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from moldau.products.pipelines.running.progress import ProgressDisplay
from moldau.products.pipelines.running.stopping import StoppedOnPurpose, StopRequest
from moldau.products.sql.engine.answers import Answer, QueryStatus
from moldau.products.sql.engine.session import Session
from moldau.products.sql.language.errors import SqlError, error_at
from moldau.products.sql.language.parser.script import parse_script
from moldau.products.sql.language.statements import Print, RunQuery
from moldau.products.sql.terminal.answers import Printer
from moldau.products.sql.terminal.embedded import EmbeddedEngine
from moldau.products.sql.terminal.statements import ScriptError, check_text, run_text
from moldau.spark.queries.supervised_state import SupervisedState
from moldau.spark.queries.supervision import LOOK_SECONDS

SETTLED_LOOKS = 5
"""How often in a row no query may have anything to read: what one query has just written reaches the lag of the next
one a look later."""


class Script(msgspec.Struct, frozen=True):
    """`path`: for its RUN SCRIPT, and for messages. `once`: end when all records that are there are processed."""

    text: str
    path: Path
    variables: dict[str, str]
    once: bool = False

    def session(self) -> Session:
        return Session({name.lower(): value for name, value in self.variables.items()})

    def check(self) -> None:
        """Without Spark and without a broker. Raises ScriptError for what its text alone shows to be wrong."""
        check_text(self.text, self.session(), self.path)
        if not self.once:
            return
        for parsed in parse_script(self.text, self.variables):
            if _is_endless(parsed.statement):
                problem = "with --once, this would not end: add LIMIT, or leave out EMIT"
                raise ScriptError(self.path, self.text, error_at(self.text, (parsed.line, parsed.column), problem))


def _is_endless(statement: object) -> bool:
    match statement:
        case RunQuery(query):
            return query.emit is not None and query.limit is None
        case Print():
            return statement.limit is None
    return False


def run_script(script: Script, embedded: EmbeddedEngine, printer: Printer, stop: StopRequest) -> int:
    """Runs the statements. Returns 0, or the exit code of the error that it has shown: 2 for a statement that is
    rejected before any other has run, otherwise 1."""
    count = 0

    def show(answer: Answer) -> None:
        nonlocal count
        count += 1
        printer.show(answer)
        stop.check()

    try:
        run_text(script.text, embedded, script.session(), show, script.path)
    except StoppedOnPurpose:
        return 0
    except ScriptError as error:
        printer.error(error.cause, error.text)
        return 2 if count == 0 and isinstance(error.cause, SqlError) else 1
    return 0


def keep_running(script: Script, embedded: EmbeddedEngine, console: Console | None, stop: StopRequest) -> Sequence[str]:
    """Shows how the queries run until `stop`, or with `once` until they have processed what is there. `console`: None
    shows nothing. Returns a sentence for each query that was given up."""
    settled = _Settled()
    facts = {"script": str(script.path), "stop": "Ctrl-C"}
    if console is None:
        _wait(script, embedded, stop, settled, lambda statuses: None)
    else:
        with ProgressDisplay(facts, console, title=f"moldau sql · {script.path}") as display:
            _wait(script, embedded, stop, settled, lambda statuses: display.show([*map(_state_of, statuses)]))
    return embedded.engine.failures()


def _wait(
    script: Script,
    embedded: EmbeddedEngine,
    stop: StopRequest,
    settled: _Settled,
    show: Callable[[Sequence[QueryStatus]], None],
) -> None:
    while not stop.wait(LOOK_SECONDS):
        statuses = embedded.statuses()
        show(statuses)
        if script.once and (settled.look(statuses) or embedded.engine.failures()):
            return


class _Settled:
    """Whether no query has had anything to do for SETTLED_LOOKS."""

    def __init__(self) -> None:
        self._before: object = None
        self._count = 0

    def look(self, statuses: Sequence[QueryStatus]) -> bool:
        now = [(one.query.id, one.batches, one.records_read) for one in statuses]
        is_idle = all(one.lag == 0 for one in statuses) and now == self._before
        self._before, self._count = now, self._count + 1 if is_idle else 0
        return self._count >= SETTLED_LOOKS


def _state_of(status: QueryStatus) -> SupervisedState:
    return SupervisedState(
        name=status.query.id,
        batches=status.batches,
        records_read=status.records_read,
        lag=status.lag,
        batch_ms=status.batch_ms,
        state=status.state,
        dead_letters=status.dead_letters,
        trouble=status.error,
    )
