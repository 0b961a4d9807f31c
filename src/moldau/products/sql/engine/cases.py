"""Tests of SQL: statements, inputs and expected rows in one text, run by an engine on a broker of their own.

    --@test: counts clicks
    CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic = 'clicks', partitions = 1);
    CREATE TABLE counts AS SELECT user, count(*) AS n FROM clicks GROUP BY user;
    INSERT INTO clicks VALUES ('u1', '/a');
    ASSERT VALUES counts (user, n) VALUES ('u1', 1);

Each test runs in a new engine, so its query that makes `counts` has the id CTAS_COUNTS_0.

The queries process all rows of an INSERT before the next INSERT or ASSERT. `ASSERT VALUES` and `ASSERT NULL VALUES` are
about the next record of the stream or table, as in ksqlDB. `--@expected.message: text` says that a statement of the
test fails with an error that has this text; `--@expected.error: text` says the same where there is no message.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec

from moldau.errors import MoldauError
from moldau.products.pipelines.targets.changes import DELETED
from moldau.products.sql.catalog.catalog import Relation
from moldau.products.sql.catalog.deciding import RowsWritten
from moldau.products.sql.compiling.expressions import Writing
from moldau.products.sql.engine.answers import Rows
from moldau.products.sql.engine.compiled import NAMESPACE_SETTINGS
from moldau.products.sql.engine.engine import Engine, EngineSettings
from moldau.products.sql.engine.inserting import values_frame
from moldau.products.sql.engine.selecting import plain
from moldau.products.sql.engine.session import Session
from moldau.products.sql.engine.topics import drop_topic
from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.parser.script import Parsed, parse_script
from moldau.products.sql.language.queries import error_of
from moldau.products.sql.language.statements import AssertTombstone, AssertValues, InsertValues
from moldau.products.sql.records.layout import EVENT_TIME, ROW_OFFSET, ROW_PARTITION
from moldau.products.sql.records.source import source_of, stored_rows
from moldau.spark.queries.namespace import as_active, open_namespace

if TYPE_CHECKING:
    from moldau.spark import SparkSession

SETTLED_WITHIN_S = 120.0
"""How long the queries may need for the rows of an INSERT."""
ROW_WITHIN_S = 20.0
"""How long an expected record may take beyond that: a window ends with a batch of its own."""
LOOK_S = 0.1
_HEAD = re.compile(r"^--@test: *(.*)$", re.MULTILINE)
_ERROR = re.compile(r"^--@expected\.(error|message): *(.*)$", re.MULTILINE)


class Case(msgspec.Struct, frozen=True):
    """`text`: its statements, on the lines that they have in the file. `error`: a part of the error that it expects."""

    name: str
    text: str
    error: str | None = None


class CaseFailedError(MoldauError):
    """A test did not hold; the message has what was expected and found."""


def cases_of(text: str, file_name: str) -> list[Case]:
    """The tests of a file; without a head, the file is one test. Raises CaseFailedError for a text without tests."""
    heads = list(_HEAD.finditer(text))
    if not heads:
        return [_case(file_name, 0, text)]
    before = text[: heads[0].start()].splitlines()
    if any(line.strip() and not line.lstrip().startswith("--") for line in before):
        raise CaseFailedError(f"{file_name}: statements stand before the first `--@test:`")
    ends = [*(head.start() for head in heads[1:]), len(text)]
    return [
        _case(head[1].strip(), text.count("\n", 0, head.start()), text[head.start() : end])
        for head, end in zip(heads, ends, strict=True)
    ]


def _case(name: str, lines_before: int, text: str) -> Case:
    expected = {kind: part.strip() for kind, part in _ERROR.findall(text)}
    # ksqlDB's own tests name a class of Java there, and the text in the message
    return Case(name, "\n" * lines_before + text, expected.get("message", expected.get("error")))


def run_case(spark: SparkSession, settings: EngineSettings, case: Case) -> None:
    """Runs it in a new engine, and deletes the topics of its streams and tables at the end. `settings`: those
    of the engine, but for its name and directory. Raises CaseFailedError."""
    name = f"{settings.name}-{uuid4().hex[:8]}"
    own = msgspec.structs.replace(settings, name=name, directory=settings.directory / name)
    topics: set[str] = set()
    try:
        with Engine(spark, own) as engine:
            _Run(engine, spark, case, topics).run()
    finally:
        for topic in topics:
            drop_topic(topic, settings.access)


class _Run:
    def __init__(self, engine: Engine, spark: SparkSession, case: Case, topics: set[str]) -> None:
        """`topics`: gets the topics of all streams and tables that there were."""
        self._engine, self._spark, self._case, self._topics = engine, spark, case, topics
        self._session = Session()
        self._seen: dict[str, int] = {}
        """The number of records of each relation that were asserted."""
        self._is_settled = True
        self._never = threading.Event()

    def run(self) -> None:
        """Raises CaseFailedError."""
        case = self._case
        try:
            for parsed in parse_script(case.text):
                self._statement(parsed)
        except CaseFailedError:
            raise
        except MoldauError as error:
            if case.error is not None and case.error.lower() in str(error).lower():
                return
            picture = f"\n{error.picture}" if isinstance(error, SqlError) else ""
            expected = "" if case.error is None else f"; an error with {case.error!r} was expected"
            raise CaseFailedError(f"{case.name}: {error}{expected}{picture}") from error
        if case.error is not None:
            raise CaseFailedError(f"{case.name}: no statement failed, and {case.error!r} was expected")

    def _statement(self, parsed: Parsed) -> None:
        statement = parsed.statement
        match statement:
            case AssertValues() | AssertTombstone():
                self._settle()
                self._assert(parsed, statement)
            case InsertValues():
                self._settle()
                self._engine.run(parsed, self._session)
                self._is_settled = False
            case _:
                answer = self._engine.run(parsed, self._session)
                self._topics.update(one.topic for one in self._engine.catalog.relations.values())
                if isinstance(answer, Rows):
                    answer.stream.close()

    def _settle(self) -> None:
        if not self._is_settled:
            self._engine.wait_until_processed(SETTLED_WITHIN_S)
            self._is_settled = True

    def _assert(self, parsed: Parsed, statement: AssertValues | AssertTombstone) -> None:
        relation = self._engine.catalog.relations.get(statement.name.key)
        if relation is None:
            raise error_of(statement.name, f"there is no stream or table {statement.name.text}")
        is_deleted = isinstance(statement, AssertTombstone)
        cells = statement.key if isinstance(statement, AssertTombstone) else statement.values
        insert = InsertValues(statement.name, statement.columns, (cells,))
        own = open_namespace(self._spark, NAMESPACE_SETTINGS)
        with as_active(own):
            wanted = values_frame(own, RowsWritten(relation, insert), Writing(parsed.text, {}, self._session.dialect))
            (row,) = wanted.collect()
            expected = {name: plain(value) for name, value in zip(wanted.columns, row, strict=True)}
            if is_deleted:
                expected[DELETED] = True
            place = self._seen.get(statement.name.key, 0)
            self._seen[statement.name.key] = place + 1
            found = self._record(own, relation, place)
        where = f"{self._case.name}: line {parsed.line}: {relation.name}, record {place + 1}"
        if found is None:
            raise CaseFailedError(f"{where}: expected {_shown(expected)}, and there is no further record")
        if not is_deleted and found.get(DELETED):
            raise CaseFailedError(f"{where}: expected {_shown(expected)}, and the record deletes {_shown(found)}")
        if any(found.get(name) != value for name, value in expected.items()):
            raise CaseFailedError(f"{where}: expected {_shown(expected)}, found {_shown(found)}")

    def _record(self, spark: SparkSession, relation: Relation, place: int) -> Mapping[str, object] | None:
        """Number `place` of the relation's records, by time of writing."""
        deadline = time.monotonic() + ROW_WITHIN_S
        settings = self._engine.settings
        source = source_of(relation, settings.access, registry=settings.registry, dead_letters=None)
        while True:
            rows = stored_rows(spark, source).orderBy(ROW_PARTITION, ROW_OFFSET)
            found = rows.limit(place + 1).collect()
            if len(found) > place:
                return {name: plain(value) for name, value in found[place].asDict().items()}
            if time.monotonic() > deadline:
                return None
            self._engine.supervise()
            self._never.wait(LOOK_S)


def _shown(row: Mapping[str, object]) -> str:
    hidden = (ROW_PARTITION, ROW_OFFSET, EVENT_TIME, DELETED)
    fields = ", ".join(f"{name} = {value!r}" for name, value in row.items() if name not in hidden)
    return ("the deletion of " if row.get(DELETED) else "") + f"({fields})"
