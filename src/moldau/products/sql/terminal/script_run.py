"""Runs a script, and the queries that it starts, until they are stopped or have processed what is there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
from rich.console import Console

from moldau.products.pipelines.running.progress import ProgressDisplay
from moldau.products.pipelines.running.stopping import StoppedOnPurpose, StopRequest
from moldau.products.sql.engine.answers import QueryStatus
from moldau.products.sql.engine.session import Session
from moldau.products.sql.language.errors import error_at
from moldau.products.sql.language.parser.script import parse_script
from moldau.products.sql.language.statements import Print, RunQuery
from moldau.products.sql.terminal.answers import Printer
from moldau.products.sql.terminal.embedded import EmbeddedEngine
from moldau.products.sql.terminal.statements import ScriptError, check_text, run_shown
from moldau.spark.queries.query_set import LOOKS_AT_ONCE
from moldau.spark.queries.supervised_state import SupervisedState
from moldau.spark.queries.supervision import LOOK_SECONDS


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
    """Runs the statements, until `stop` at most. Returns the exit code."""
    try:
        return run_shown(script.text, embedded, script.session(), printer, script.path, stop.check)
    except StoppedOnPurpose:
        return 0


def keep_running(script: Script, embedded: EmbeddedEngine, console: Console | None, stop: StopRequest) -> Sequence[str]:
    """Shows how the queries run until `stop`, or with `once` until they have processed what is there. `console`: None
    shows nothing. Returns a sentence for each query that was given up. With `once`, raises MoldauError if a query has
    failed."""
    engine = embedded.engine
    with ExitStack() as stack:
        display: ProgressDisplay | None = None
        if console is not None:
            facts = {"script": str(script.path), "stop": "Ctrl-C"}
            title = f"moldau sql · {script.path}"
            display = stack.enter_context(ProgressDisplay(facts, console, title=title))

        def show(*, is_last: bool = False) -> bool:
            if display is not None:
                display.show([*map(_state_of, engine.statuses())], force=is_last)
            return stop.is_asked

        if script.once:
            engine.wait_until_processed(math.inf, show)
            # the checkpoints have said so; the states follow with the next look at each query
            for _ in range(0, len(engine.statuses()), LOOKS_AT_ONCE):
                engine.supervise()
        else:
            while not stop.wait(LOOK_SECONDS):
                show()
        show(is_last=True)
    return engine.failures()


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
