"""SHOW and LIST."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from moldau.products.sql.catalog.catalog import Relation
from moldau.products.sql.engine.answers import Answer, Listing, QueryStatus
from moldau.products.sql.engine.looking.cluster import Topic
from moldau.products.sql.engine.looking.session_properties import PROPERTIES
from moldau.products.sql.engine.looking.sight import Sight
from moldau.products.sql.language.functions.table import FUNCTIONS
from moldau.products.sql.language.statements import Kind, Show, Subject

Row = tuple[str, ...]


def show(sight: Sight, statement: Show) -> Answer:
    """Raises MoldauError if the cluster does not answer."""
    columns, found = _SUBJECTS[statement.subject](sight, statement)
    return Listing(
        statement=sight.parsed.text,
        subject=statement.subject.value,
        columns=columns,
        rows=tuple(row for row, _ in found),
        items=tuple(item for _, item in found),
    )


def count_of(number: int | None) -> str:
    """Of people's lists."""
    return "?" if number is None else f"{number:,}"


def _streams(sight: Sight, statement: Show) -> tuple[Row, list[tuple[Row, object]]]:
    return _relations(sight, Kind.STREAM, is_extended=statement.is_extended)


def _tables(sight: Sight, statement: Show) -> tuple[Row, list[tuple[Row, object]]]:
    return _relations(sight, Kind.TABLE, is_extended=statement.is_extended)


def _relations(sight: Sight, kind: Kind, *, is_extended: bool) -> tuple[Row, list[tuple[Row, object]]]:
    columns: Row = ("name", "topic", "key format", "value format", "made by")
    if is_extended:
        columns += ("columns", "read by", "written by")

    def row_of(key: str, one: Relation) -> Row:
        row = (
            one.name,
            one.topic,
            one.storage.key_format.upper(),
            one.storage.value_format.upper(),
            one.made_by or "a topic",
        )
        if not is_extended:
            return row
        named = "?" if one.columns is None else ", ".join(f"{each.name.text} {each.type}" for each in one.columns)
        readers, writers = sight.catalog.readers_of(key), sight.catalog.writers_of(key)
        return (*row, named, ", ".join(readers), ", ".join(writers))

    found = [(key, one) for key, one in sorted(sight.catalog.relations.items()) if one.kind is kind]
    return columns, [(row_of(key, one), one) for key, one in found]


def _views(sight: Sight, statement: Show) -> tuple[Row, list[tuple[Row, object]]]:
    columns: Row = ("name", "reads") + (("statement",) if statement.is_extended else ())
    found: list[tuple[Row, object]] = []
    for _, view in sorted(sight.catalog.views.items()):
        row = (view.name, ", ".join(sight.names_of(view.reads)))
        found.append((row + ((view.statement,) if statement.is_extended else ()), view))
    return columns, found


def _queries(sight: Sight, statement: Show) -> tuple[Row, list[tuple[Row, object]]]:
    columns: Row = ("id", "state", "writes", "records", "records/s", "lag", "error")
    if statement.is_extended:
        columns += ("reads", "batches", "last batch", "dead letters", "state rows", "statement")

    def row_of(one: QueryStatus) -> Row:
        query = one.query
        row = (
            query.id,
            one.state,
            *sight.names_of([query.sink]),
            count_of(one.records_read),
            f"{one.records_per_second:,.0f}",
            count_of(one.lag),
            one.error or "",
        )
        if not statement.is_extended:
            return row
        return (
            *row,
            ", ".join(sight.names_of(query.reads)),
            count_of(one.batches),
            f"{one.batch_ms:,} ms",
            count_of(one.dead_letters or 0),
            count_of(one.state_rows or 0),
            query.statement,
        )

    found = sight.statuses_of(sight.catalog.queries)
    return columns, [(row_of(one), one) for one in found]


def _topics(sight: Sight, statement: Show) -> tuple[Row, list[tuple[Row, object]]]:
    columns: Row = ("topic", "partitions", "replicas", "streams and tables")
    found = [one for one in sight.cluster.topics().values() if statement.all_topics or not one.is_internal]
    users: dict[str, list[str]] = {}
    for relation in sight.catalog.relations.values():
        users.setdefault(relation.topic, []).append(relation.name)

    def row_of(one: Topic) -> Row:
        return (one.name, count_of(one.partitions), count_of(one.replicas), ", ".join(users.get(one.name, ())))

    if not statement.is_extended:
        return columns, [(row_of(one), one) for one in found]
    ranges = sight.cluster.ranges(found)
    rows: list[tuple[Row, object]] = []
    for one in found:
        spans = ranges.get(one.name, ())
        rows.append(((*row_of(one), count_of(sum(end - start for start, end in spans))), one))
    return (*columns, "offsets that are kept"), rows


def _types(sight: Sight, statement: Show) -> tuple[Row, list[tuple[Row, object]]]:
    return ("name", "type"), [((name, kind), (name, kind)) for name, kind in sorted(sight.catalog.types.items())]


def _functions(sight: Sight, statement: Show) -> tuple[Row, list[tuple[Row, object]]]:
    own = [((one.name, "own", ""), one) for _, one in sorted(sight.catalog.functions.items())]
    given = [((one.name, "python", one.usage), one) for _, one in sorted(sight.catalog.given.items())]
    of_ksqldb = [
        ((one.name, one.kind.value, one.examples[0]), one) for _, one in sorted(FUNCTIONS.items()) if one.examples
    ]
    return ("name", "kind", "usage"), [*own, *given, *of_ksqldb]


def _variables(sight: Sight, statement: Show) -> tuple[Row, list[tuple[Row, object]]]:
    return ("name", "value"), [(pair, pair) for pair in sorted(sight.session.variables.items())]


def _properties(sight: Sight, statement: Show) -> tuple[Row, list[tuple[Row, object]]]:
    found = sight.session.properties
    return ("property", "value", "default", "values", "meaning"), [
        ((one.name, found.get(name, one.default), one.default, ", ".join(one.values), one.meaning), one)
        for name, one in sorted(PROPERTIES.items())
    ]


_SUBJECTS: Mapping[Subject, Callable[[Sight, Show], tuple[Row, list[tuple[Row, object]]]]] = {
    Subject.STREAMS: _streams,
    Subject.TABLES: _tables,
    Subject.VIEWS: _views,
    Subject.QUERIES: _queries,
    Subject.TOPICS: _topics,
    Subject.TYPES: _types,
    Subject.FUNCTIONS: _functions,
    Subject.VARIABLES: _variables,
    Subject.PROPERTIES: _properties,
}
