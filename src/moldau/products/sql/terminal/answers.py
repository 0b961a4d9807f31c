"""Prints answers: tables and pictures on a terminal, plain text elsewhere, or one line of JSON for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from moldau.products.service.look.words import visible
from moldau.products.sql.engine.answers import (
    Answer,
    Described,
    Done,
    Explained,
    FunctionDescribed,
    Listing,
    QueryStatus,
    Rows,
)
from moldau.products.sql.engine.looking.pictures import picture_of
from moldau.products.sql.language.errors import SqlError, error_at
from moldau.products.sql.terminal.live_rows import follow, view_for
from moldau.products.sql.terminal.values import aligned, cell, json_line
from moldau.types import counted


def _never() -> bool:
    return False


class Printer:
    """`is_cut`: whether a live query is to end, asked several times a second. `errors`: for errors and warnings."""

    def __init__(
        self,
        console: Console,
        errors: Console | None = None,
        *,
        as_json: bool = False,
        is_cut: Callable[[], bool] = _never,
    ) -> None:
        self._console, self._errors = console, errors or console
        self._as_json, self._is_cut = as_json, is_cut

    def show(self, answer: Answer) -> None:
        """Of a live query, returns when it is over or cut. Raises MoldauError if it has failed."""
        if not self._as_json:
            for warning in answer.warnings:
                self._errors.print(Text(f"warning: {visible(warning)}", style="yellow"), soft_wrap=True)
        if isinstance(answer, Rows):
            self._rows(answer)
        elif self._as_json:
            print(json_line({**_as_json(answer), "warnings": answer.warnings}), file=self._console.file, flush=True)
        else:
            _FORMS[type(answer)](self, answer)

    def error(self, error: Exception, text: str = "") -> None:
        """The sentence, and the place in the statement. `text`: the script, for an error without its line."""
        if isinstance(error, SqlError):
            if not error.source_line and text:
                error = error_at(text, (error.line, error.column), error.problem, near=error.nearest)
            self._errors.print(Text(visible(str(error)), style="red"), soft_wrap=True)
            if error.source_line:
                self._errors.print(Text(error.picture), soft_wrap=True)
        else:
            self._errors.print(Text(visible(str(error)), style="red"), soft_wrap=True)

    def say(self, text: str, style: str = "") -> None:
        """A line for people; nothing where the output is JSON."""
        if not self._as_json:
            self._console.print(Text(visible(text), style=style), soft_wrap=True)

    def _rows(self, answer: Rows) -> None:
        count = follow(answer, view_for(answer.stream, self._console, as_json=self._as_json), self._is_cut)
        if self._console.is_terminal:
            self.say(counted(count, "change" if answer.stream.key else "row"), "dim")

    def _done(self, answer: Done) -> None:
        self.say(answer.message)

    def _listing(self, answer: Listing) -> None:
        if answer.rows:
            self._table(answer.columns, answer.rows)
        else:
            self.say(f"no {answer.subject}", "dim")

    def _described(self, answer: Described) -> None:
        one = answer.relation
        by = f", made by {one.made_by}" if one.made_by else ""
        self.say(
            f"{one.kind.value} {one.name}: topic {one.topic}, keys {one.storage.key_format.upper()}, values "
            f"{one.storage.value_format.upper()}{by}",
            "bold",
        )
        if one.columns is None:
            self.say("the columns are not known yet", "dim")
        else:
            rows = [(each.name.text, each.type, _role_of(each.role.value)) for each in one.columns]
            self._table(("column", "type", "role"), rows)
        for what, statuses in (("written by", answer.writers), ("read by", answer.readers)):
            for status in statuses:
                self.say(f"{what} {status.query.id} ({_state_of(status)}): {' '.join(status.query.statement.split())}")
        self._facts(answer.topic)

    def _explained(self, answer: Explained) -> None:
        if answer.query is not None:
            self.say(f"{answer.query.query.id}: {_state_of(answer.query)}", "bold")
        for line in picture_of(answer):
            self.say(line)
        if answer.columns:
            key = set(answer.key)
            rows = [(name, kind, "key" if name in key else "") for name, kind in answer.columns]
            self._table(("column", "type", "role"), rows)
        for title, text in (("Spark SQL", answer.text), ("rewritten", "\n".join(answer.rewrites))):
            if text:
                self.say(f"{title}:", "bold")
                self.say(text)
        if answer.plan:
            self.say("Spark's plan:", "bold")
            self.say(answer.plan, "dim")

    def _function(self, answer: FunctionDescribed) -> None:
        self.say(answer.name, "bold")
        facts = [("usage", answer.usage), ("in Spark SQL", answer.template or "the same"), ("note", answer.note)]
        self._facts([fact for fact in facts if fact[1]])

    def _facts(self, facts: Sequence[tuple[str, str]]) -> None:
        width = max((len(name) for name, _ in facts), default=0)
        for name, fact in facts:
            self.say(f"{name:<{width}}  {fact}")

    def _table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        shown = [[cell(text) for text in row] for row in rows]
        if not self._console.is_terminal:
            for line in aligned(columns, shown):
                self.say(line)
            return
        table = Table(box=SIMPLE_HEAD)
        for name in columns:
            table.add_column(name, overflow="fold")
        for row in shown:
            table.add_row(*map(Text, row))
        self._console.print(table)


_FORMS: Mapping[type[Answer], Callable[..., None]] = {
    Done: Printer._done,
    Listing: Printer._listing,
    Described: Printer._described,
    Explained: Printer._explained,
    FunctionDescribed: Printer._function,
}


def _role_of(role: str) -> str:
    return "" if role == "value" else role


def _state_of(status: QueryStatus) -> str:
    return status.state + (f": {status.error}" if status.error else "")


def _as_json(answer: Answer) -> Mapping[str, object]:
    match answer:
        case Done():
            return {"done": answer.message, "query_id": answer.query_id}
        case Listing():
            rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
            return {"listing": answer.subject, "rows": rows}
        case Described():
            one = answer.relation
            columns = [{"name": each.name.text, "type": each.type, "role": each.role} for each in one.columns or ()]
            return {
                "described": one.name,
                "kind": one.kind,
                "topic": one.topic,
                "key_format": one.storage.key_format,
                "value_format": one.storage.value_format,
                "columns": columns,
                "read_by": [status.query.id for status in answer.readers],
                "written_by": [status.query.id for status in answer.writers],
                "facts": dict(answer.topic),
            }
        case Explained():
            return {
                "explained": None if answer.query is None else answer.query.query.id,
                "reads": answer.reads,
                "writes": answer.writes,
                "columns": [{"name": name, "type": kind} for name, kind in answer.columns],
                "key": answer.key,
                "steps": answer.steps,
                "text": answer.text,
                "rewrites": answer.rewrites,
                "plan": answer.plan,
            }
        case FunctionDescribed():
            return {
                "function": answer.name,
                "usage": answer.usage,
                "template": answer.template,
                "note": answer.note,
            }
    raise TypeError(answer)
