"""Runs statements, and the queries that they start, in one Spark session."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from moldau.client.protocol.access import ClusterAccess
from moldau.errors import MoldauError
from moldau.products.pipelines.core.commit_metadata import DEAD_LETTERS_SUFFIX
from moldau.products.pipelines.core.failures import what_failed
from moldau.products.pipelines.formats.registry import Registry
from moldau.products.sql.catalog.catalog import Catalog, GivenFunction, PersistentQuery, Relation
from moldau.products.sql.catalog.deciding import (
    Change,
    Decision,
    Put,
    RowsWritten,
    TopicDeleted,
    TopicNeeded,
    apply,
    decide,
)
from moldau.products.sql.catalog.declarative import in_our_words
from moldau.products.sql.catalog.journal import NOTHING_KEPT, Journal
from moldau.products.sql.compiling.expressions import Writing
from moldau.products.sql.compiling.plan import Asked, asked_by, kept_query
from moldau.products.sql.engine.answers import Answer, Done, Explained, QueryStatus, Rows
from moldau.products.sql.engine.compiled import NAMESPACE_SETTINGS, Compiled, Place, create_function, create_functions
from moldau.products.sql.engine.explaining import explained
from moldau.products.sql.engine.inserting import insert_values
from moldau.products.sql.engine.looking.cluster import LiveCluster
from moldau.products.sql.engine.looking.looking import look, only_looks
from moldau.products.sql.engine.maintained import Maintained
from moldau.products.sql.engine.printing import print_topic
from moldau.products.sql.engine.results import check_insert, check_kind, with_columns
from moldau.products.sql.engine.selecting import select_live, select_now
from moldau.products.sql.engine.session import Session
from moldau.products.sql.engine.topics import drop_topic, make_topic
from moldau.products.sql.language.errors import SqlError, error_at
from moldau.products.sql.language.parser.script import Parsed, parse_script
from moldau.products.sql.language.queries import Query
from moldau.products.sql.language.statements import (
    CreateAs,
    CreateFunction,
    CreateSource,
    CreateView,
    Explain,
    InsertQuery,
    Print,
    RunQuery,
    RunScript,
)
from moldau.products.sql.records.resolving import resolved
from moldau.spark import check_stream, spark_error
from moldau.spark.queries.namespace import as_active, open_namespace

if TYPE_CHECKING:
    from moldau.spark import SparkSession

MOST_LIVE = 100
"""The most SELECTs whose rows are read at the same time."""
LOOK_S = 0.1
_PLACE = re.compile(r"line (\d+), column (\d+)")


class EngineSettings(msgspec.Struct, frozen=True):
    """`access`: to the cluster of all topics. `directory`: of the checkpoints. `name`: of the service, before the names
    of its queries' groups and transactional ids. `registry`: the address of the schema registry. `once`: queries end
    when they have processed what is there. `functions`: in Python, by their names in lower case."""

    access: ClusterAccess
    directory: Path
    name: str = "sql"
    registry: Registry | None = None
    once: bool = False
    functions: Mapping[str, GivenFunction] = {}

    @property
    def place(self) -> Place:
        return Place(self.access, self.registry, f"{self.name}{DEAD_LETTERS_SUFFIX}")


class Engine:
    """One statement at a time changes the catalog. Queries run on meanwhile. A context manager."""

    def __init__(
        self,
        spark: SparkSession,
        settings: EngineSettings,
        journal: Journal = NOTHING_KEPT,
        kept: Iterable[Change] = (),
    ) -> None:
        """`kept`: the changes of the journal so far; `supervise` starts their queries. One that cannot be started is
        tried again, and shows its error."""
        self._spark, self._settings, self._journal = spark, settings, journal
        self._cluster = LiveCluster(settings.access, settings.registry)
        self._lock = threading.RLock()
        self._catalog = Catalog(given=settings.functions)
        for change in kept:
            self._catalog = apply(self._catalog, change)
        _check_names(self._catalog)
        self._queries = Maintained(spark, settings.name, settings.directory, settings.place, once=settings.once)
        self._live: list[Rows] = []
        self._queries.adopt(self._catalog)

    @property
    def catalog(self) -> Catalog:
        return self._catalog

    def execute(self, text: str, session: Session) -> Iterator[Answer]:
        """The answers of a script's statements, one after the other: the next statement runs when its answer is asked
        for. Raises SqlError for the whole text before any runs; then SqlError, and other MoldauErrors, of a statement;
        those after it do not run."""
        parsed = parse_script(text, session.variables, self._catalog.types)
        for one in parsed:
            yield self.run(one, session)

    def run(self, parsed: Parsed, session: Session) -> Answer:
        """Runs one statement. Raises SqlError, and other MoldauErrors."""
        try:
            # places are those of the statement's own text from here on: a kept statement is read from it again
            (alone,) = parse_script(parsed.text, types=self._catalog.types, substitutes=False)
            answer = self._run(in_our_words(alone), session)
        except SqlError as error:
            raise _moved(error, parsed) from error
        except spark_error() as error:
            raise SqlError(what_failed(str(error)), line=parsed.line, column=parsed.column) from error
        warnings = tuple(moved_warning(one, parsed.line, parsed.column) for one in answer.warnings)
        return msgspec.structs.replace(answer, statement=parsed.text, warnings=warnings)

    def statuses(self) -> list[QueryStatus]:
        return self._queries.statuses(self._catalog)

    def supervise(self) -> None:
        """Its owner calls it every 0.2 s: starts failed queries again when that is due."""
        self._queries.supervise()

    @property
    def settings(self) -> EngineSettings:
        return self._settings

    def wait_until_processed(self, within_s: float, is_cut: Callable[[], bool] = lambda: False) -> None:
        """Returns when the queries have processed all records that their topics have, or when `is_cut`, which is asked
        at each look. Raises MoldauError if a query has failed, or that takes longer."""
        deadline, never = time.monotonic() + within_s, threading.Event()
        before: object = None
        while not is_cut():
            ends = self._ends()
            # twice the same: a query has written nothing that another has still to read
            if ends == before and self._queries.have_processed(ends):
                return
            before = ends
            failed = next((one for one in self.statuses() if one.error is not None), None)
            if failed is not None:
                raise MoldauError(f"{failed.query.id} has failed: {failed.error}")
            if time.monotonic() > deadline:
                raise MoldauError(f"the queries have not processed their topics within {within_s:g} s")
            self.supervise()
            never.wait(LOOK_S)

    @property
    def is_kept(self) -> bool:
        """Whether a query still runs, or is to run."""
        return self._queries.is_kept

    def failures(self) -> list[str]:
        """A sentence for each query that was given up."""
        return self._queries.failures()

    def close(self) -> None:
        """The queries stop, each after the batch that is being written."""
        for rows in self._live:
            rows.stream.close()
        self._queries.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- statements

    def _run(self, parsed: Parsed, session: Session) -> Answer:
        statement = parsed.statement
        match statement:
            case RunQuery(query):
                return self._select(query, parsed, session)
            case Print():
                return self._kept_live(
                    Rows(stream=print_topic(statement, self._settings.access, self._cluster), is_live=True)
                )
            case Explain():
                return self._explain(statement, parsed, session)
            case RunScript():
                raise SqlError(
                    "RUN SCRIPT reads a file of the one who asks: the shell and `moldau sql run` know it",
                    line=parsed.line,
                    column=parsed.column,
                )
        if only_looks(statement):
            return look(self._catalog, session, self.statuses(), self._cluster, parsed)
        with self._lock:
            return self._change(parsed, session)

    def _select(self, query: Query, parsed: Parsed, session: Session) -> Answer:
        writing = self._writing(parsed, session)
        is_live = query.emit is not None
        compiled = Compiled(self._catalog, Asked(query, writing), is_live=is_live)
        place = msgspec.structs.replace(self._settings.place, dead_letters=None)
        if is_live:
            stream = select_live(self._spark, compiled, place, session.start)
        else:
            stream = select_now(self._spark, compiled, place)
        return self._kept_live(Rows(stream=stream, is_live=is_live, warnings=tuple(writing.warnings)))

    def _kept_live(self, rows: Rows) -> Rows:
        """Raises MoldauError if too many are read at the same time."""
        self._live = [one for one in self._live if not one.stream.is_over]
        if len(self._live) >= MOST_LIVE:
            rows.stream.close()
            raise MoldauError(f"{MOST_LIVE} queries are read already: close one first")
        self._live.append(rows)
        return rows

    def _explain(self, statement: Explain, parsed: Parsed, session: Session) -> Explained:
        what = statement.what
        catalog = self._catalog
        if isinstance(what, (RunQuery, CreateAs, CreateView, InsertQuery)):
            writing = self._writing(parsed, session)
            compiled = Compiled(catalog, asked_by(what, writing), is_live=True)
            return explained(self._spark, compiled, self._settings.place)
        query = catalog.queries.get(getattr(what, "text", "").upper())
        if query is None:
            raise SqlError(
                "EXPLAIN takes the id of a query, or a statement with one", line=parsed.line, column=parsed.column
            )
        compiled = Compiled(catalog, kept_query(query), is_live=True)
        status = next((one for one in self.statuses() if one.query.id == query.id), None)
        found = explained(self._spark, compiled, self._settings.place)
        return msgspec.structs.replace(found, query=status, writes=catalog.relations[query.sink].name)

    def _change(self, parsed: Parsed, session: Session) -> Answer:
        """A statement that changes the catalog, or writes rows."""
        try:
            decision = decide(self._catalog, parsed, session.properties)
        except KeyError:
            what = type(parsed.statement).__name__
            raise SqlError(f"{what} is read, and not served yet", line=parsed.line, column=parsed.column) from None
        warnings: tuple[str, ...] = ()
        changes = decision.changes
        reads: tuple[Relation, ...] = ()
        statement = parsed.statement
        if isinstance(statement, (CreateAs, InsertQuery)) and changes:
            changes, warnings, reads = self._analysed(statement, decision, parsed, session)
        elif isinstance(statement, CreateSource):
            changes = tuple(self._resolved(change) for change in changes)
        elif isinstance(statement, CreateFunction):
            self._check_function(decision)
        elif isinstance(statement, CreateView):
            Compiled(self._catalog, asked_by(statement, self._writing(parsed, session)), is_live=False)
        for one in decision.outside:
            self._do(one, reads, parsed, session)
        if changes:
            self._keep(changes)
        for one in decision.outside:
            if isinstance(one, TopicDeleted):
                drop_topic(one.topic, self._settings.access)
        started = [
            change.item.id for change in changes if isinstance(change, Put) and isinstance(change.item, PersistentQuery)
        ]
        is_new = isinstance(statement, (CreateAs, InsertQuery))
        return Done(message=decision.message, warnings=warnings, query_id=started[0] if started and is_new else None)

    def _keep(self, changes: Sequence[Change]) -> None:
        """Raises MoldauError; then nothing has changed."""
        self._journal.append(changes)
        for change in changes:
            self._catalog = apply(self._catalog, change)
        self._queries.follow(self._catalog)

    def _ends(self) -> Mapping[str, Sequence[int]]:
        """The end offset of each partition of the topics that queries read."""
        known = self._cluster.topics()
        names = {self._catalog.relations[key].topic for one in self._catalog.queries.values() for key in one.reads}
        ranges = self._cluster.ranges([known[name] for name in sorted(names) if name in known])
        return {topic: [end for _, end in of_topic] for topic, of_topic in ranges.items()}

    def _analysed(
        self, statement: CreateAs | InsertQuery, decision: Decision, parsed: Parsed, session: Session
    ) -> tuple[tuple[Change, ...], tuple[str, ...], tuple[Relation, ...]]:
        """The changes, with the columns that Spark finds; warnings; and what is read. Raises SqlError."""
        writing = self._writing(parsed, session)
        compiled = Compiled(self._catalog, asked_by(statement, writing), is_live=True)
        if isinstance(statement, CreateAs):
            check_kind(statement, compiled.plan, writing)
        own = open_namespace(self._spark, NAMESPACE_SETTINGS)
        with as_active(own):
            result = compiled.live_frame(own, compiled.sources(self._settings.place, session.start))
            check_stream(result, compiled.plan.mode)
            if isinstance(statement, InsertQuery):
                target = self._catalog.relations[statement.target.key]
                check_insert(target, statement.target.place, compiled.plan, result, writing)
        changes = []
        for change in decision.changes:
            if isinstance(statement, CreateAs) and isinstance(change, Put) and isinstance(change.item, Relation):
                change = Put(with_columns(change.item, statement, compiled.plan, result))
            changes.append(change)
        self._check_state(statement, changes, compiled)
        return tuple(changes), tuple(writing.warnings), compiled.plan.reads

    def _check_state(self, statement: CreateAs | InsertQuery, changes: Iterable[Change], compiled: Compiled) -> None:
        """Raises SqlError if the checkpoint of the new query has the state of another one."""
        catalog = self._catalog
        for change in changes:
            catalog = apply(catalog, change)
        for change in changes:
            if isinstance(change, Put) and isinstance(change.item, PersistentQuery):
                query = change.item
                sink = catalog.relations[query.sink]
                checkpoint = self._queries.changed_state(query, compiled, sink)
                if checkpoint is None:
                    continue
                advice = f"run with another --name, or delete {checkpoint}"
                if query.id in self._catalog.queries:
                    advice = f"DROP {sink.kind.value.upper()} {sink.name}, and create it again"
                name = statement.name if isinstance(statement, CreateAs) else statement.target
                problem = f"{query.id} was another query, whose state in {checkpoint} does not fit this one: {advice}"
                raise compiled.writing.error(name.place, problem)

    def _resolved(self, change: Change) -> Change:
        """With the columns of the registry's schema, if the statement has none. Raises FlowError, RegistryError."""
        if isinstance(change, Put) and isinstance(change.item, Relation):
            return Put(resolved(change.item, self._settings.registry))
        return change

    def _check_function(self, decision: Decision) -> None:
        """Raises SqlError, and Spark's errors."""
        for change in decision.changes:
            own = open_namespace(self._spark, NAMESPACE_SETTINGS)
            create_functions(own, self._catalog)
            create_function(own, change.item)  # type: ignore[union-attr, arg-type]

    def _do(
        self,
        one: TopicNeeded | TopicDeleted | RowsWritten,
        reads: Iterable[Relation],
        parsed: Parsed,
        session: Session,
    ) -> None:
        """What is done before the changes are kept."""
        access = self._settings.access
        if isinstance(one, TopicNeeded):
            make_topic(one, reads, access, self._cluster, parsed)
        elif isinstance(one, RowsWritten):
            insert_values(self._spark, one, self._catalog, self._writing(parsed, session), self._settings.place)

    def _writing(self, parsed: Parsed, session: Session) -> Writing:
        return Writing(parsed.text, self._catalog.types, session.dialect)


def _check_names(catalog: Catalog) -> None:
    """Raises MoldauError: a kept statement has the name of a function in Python."""
    for key in sorted(catalog.given.keys() & catalog.functions.keys()):
        given = catalog.given[key]
        raise MoldauError(f"{given.file}: {given.name} has the name of the function of CREATE FUNCTION, which is kept")


def moved_warning(warning: str, line: int, column: int) -> str:
    """The warning of a statement that begins at this place of a script, with its place in the script."""
    found = _PLACE.match(warning)
    if found is None:
        return warning
    own_line, own_column = map(int, found.groups())
    moved = own_column + (column - 1 if own_line == 1 else 0)
    return f"line {own_line + line - 1}, column {moved}{warning[found.end() :]}"


def _moved(error: SqlError, parsed: Parsed) -> SqlError:
    """The error of a statement, with its place in the script."""
    is_first = error.line == 1
    own = error_at(parsed.text, (error.line, error.column), error.problem)
    return SqlError(
        error.problem,
        line=error.line + parsed.line - 1,
        column=error.column + (parsed.column - 1 if is_first else 0),
        expected=error.expected,
        found=error.found,
        nearest=error.nearest,
        source_line=" " * (parsed.column - 1 if is_first else 0) + own.source_line,
    )
