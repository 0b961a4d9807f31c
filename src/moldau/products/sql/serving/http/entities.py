"""Answers of statements as ksqlDB's entities, the elements of the array that /ksql sends.

Pure: from the statement, its answer and the catalog to an object for JSON. Fields beyond ksqlDB's are under `moldau`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from moldau.products.sql.catalog.catalog import Catalog, Relation
from moldau.products.sql.engine.answers import (
    Answer,
    Described,
    Done,
    Explained,
    FunctionDescribed,
    Listing,
    QueryStatus,
)
from moldau.products.sql.language.parser.script import Parsed
from moldau.products.sql.language.statements import (
    AssertSchema,
    AssertTopic,
    Column,
    Control,
    CreateAs,
    CreateSource,
    Define,
    Drop,
    InsertQuery,
    InsertValues,
    Role,
    SetProperty,
    Show,
)
from moldau.products.sql.serving.http.errors import statement_text
from moldau.products.sql.serving.http.schemas import ksql_type

Entity = dict[str, Any]

PERSISTENT, PUSH = "PERSISTENT", "PUSH"
_STATES = {
    "starting": "RUNNING",
    "running": "RUNNING",
    "paused": "PAUSED",
    "retrying": "ERROR",
    "failed": "ERROR",
    "stopped": "UNRESPONSIVE",
}
_FIELD_TYPES = {Role.KEY: "KEY", Role.PRIMARY_KEY: "KEY", Role.HEADERS: "HEADER", Role.HEADER: "HEADER"}
_WINDOW = "window_start"
"""The column that a windowed table has."""


class Answered(msgspec.Struct, frozen=True):
    """A statement with its answer. `catalog`: after it. `number`: of the statement, growing. `is_changed`: whether it
    changed the catalog. `statuses`: of all queries, for SHOW STREAMS EXTENDED."""

    parsed: Parsed
    answer: Answer
    catalog: Catalog
    number: int = 0
    is_changed: bool = True
    statuses: Sequence[QueryStatus] = ()


def entity_of(answered: Answered) -> Entity | None:
    """The entity; None for statements that have none in ksqlDB: INSERT ... VALUES, SET and DEFINE without warnings."""
    answer = answered.answer
    found = _ENTITIES[type(answer)](answered, answer)
    if found is None and not answer.warnings:
        return None
    if found is None:
        found = {"@type": "warning_entity", "message": "; ".join(answer.warnings)}
    return {
        "@type": found.pop("@type"),
        "statementText": statement_text(answered.parsed),
        **found,
        "warnings": [{"message": one} for one in answer.warnings],
    }


# --- statements that change something ---


def command_id(parsed: Parsed) -> str:
    """As ksqlDB names a statement in /status: `stream/NAME/create`."""
    statement: Any = parsed.statement
    match statement:
        case CreateSource() | CreateAs():
            return f"{statement.kind.value}/{statement.name.text}/create"
        case InsertQuery():
            return f"stream/{statement.target.text}/create"
        case Drop():
            return f"{statement.what.value.replace(' ', '_')}/{statement.name.text}/drop"
        case Control():
            query = "ALL" if statement.query is None else statement.query.text.upper()
            return f"{statement.action.value}/{query}/execute"
    kind = type(statement).__name__.removeprefix("Create").lower()
    name = getattr(statement, "name", None)
    return f"{kind}/{'' if name is None else name.text}/create"


def _done(answered: Answered, done: Done) -> Entity | None:
    statement: Any = answered.parsed.statement
    match statement:
        case InsertValues() | SetProperty() | Define():
            return None
        case AssertTopic():
            return {"@type": "assert_topic", "topicName": statement.topic.text, "exists": statement.exists}
        case AssertSchema():
            subject = None if statement.subject is None else statement.subject.text
            return {"@type": "assert_schema", "subject": subject, "id": statement.id, "exists": statement.exists}
    is_if = getattr(statement, "if_not_exists", False) or getattr(statement, "if_exists", False)
    if is_if and not answered.is_changed:
        return {"@type": "warning_entity", "message": done.message}
    return {
        "@type": "currentStatus",
        "commandId": command_id(answered.parsed),
        "commandStatus": {"status": "SUCCESS", "message": done.message, "queryId": done.query_id},
        "commandSequenceNumber": answered.number,
    }


# --- SHOW ---


def _listing(answered: Answered, listing: Listing) -> Entity:
    is_extended = isinstance(answered.parsed.statement, Show) and answered.parsed.statement.is_extended
    return _LISTINGS[listing.subject](answered, listing, is_extended)


def _relations(answered: Answered, listing: Listing, is_extended: bool) -> Entity:
    relations = cast(Sequence[Relation], listing.items)
    if is_extended:
        found = [source_description(_with_queries(answered, one), answered.catalog) for one in relations]
        return {"@type": "source_descriptions", "sourceDescriptions": found}
    return {"@type": listing.subject, listing.subject: [_source(one) for one in relations]}


def _with_queries(answered: Answered, relation: Relation) -> Described:
    key, statuses = relation.name.lower(), answered.statuses
    return Described(
        relation=relation,
        readers=tuple(one for one in statuses if key in one.query.reads),
        writers=tuple(one for one in statuses if key == one.query.sink),
    )


def _source(relation: Relation) -> Entity:
    return {
        "type": relation.kind.name,
        "name": relation.name,
        "topic": relation.topic,
        "keyFormat": relation.storage.key_format.upper(),
        "valueFormat": relation.storage.value_format.upper(),
        "isWindowed": any(column.name.key == _WINDOW for column in relation.columns or ()),
    }


def _queries(answered: Answered, listing: Listing, is_extended: bool) -> Entity:
    statuses = cast(Sequence[QueryStatus], listing.items)
    if is_extended:
        found = [_query_description(answered, Explained(query=one)) for one in statuses]
        return {"@type": "query_descriptions", "queryDescriptions": found}
    return {"@type": "queries", "queries": [running_query(one, answered.catalog) for one in statuses]}


def _topics(answered: Answered, listing: Listing, is_extended: bool) -> Entity:
    topics: Sequence[Any] = listing.items
    found: list[Entity] = [{"name": one.name, "replicaInfo": [one.replicas] * one.partitions} for one in topics]
    if is_extended:
        # ksqlDB's counts of consumers would take a request for each group of the cluster
        found = [{**one, "consumerCount": 0, "consumerGroupCount": 0} for one in found]
    return {"@type": "kafka_topics_extended" if is_extended else "kafka_topics", "topics": found}


def _types(answered: Answered, listing: Listing, _: bool) -> Entity:
    return {"@type": "type_list", "types": {name: ksql_type(spark).schema for name, spark in listing.rows}}


def _functions(answered: Answered, listing: Listing, _: bool) -> Entity:
    kinds = {"aggregate": "AGGREGATE", "table": "TABLE"}
    found = [
        {"name": name, "type": kinds.get(kind.lower(), "SCALAR"), "category": kind.upper()}
        for name, kind, *_rest in listing.rows
    ]
    return {"@type": "function_names", "functions": found}


def _variables(answered: Answered, listing: Listing, _: bool) -> Entity:
    return {"@type": "variables", "variables": [{"name": name, "value": value} for name, value, *_ in listing.rows]}


def _properties(answered: Answered, listing: Listing, _: bool) -> Entity:
    found = [
        {"name": name, "scope": "KSQL", "value": value, "editable": True, "level": "QUERY"}
        for name, value, *_rest in listing.rows
    ]
    overwritten = [name for name, value, default, *_rest in listing.rows if value != default]
    defaults = [name for name, value, default, *_rest in listing.rows if value == default]
    return {
        "@type": "properties",
        "properties": found,
        "overwrittenProperties": overwritten,
        "defaultProperties": defaults,
    }


def _views(answered: Answered, listing: Listing, _: bool) -> Entity:
    """ksqlDB has no views."""
    return {"@type": "views", "views": [dict(zip(listing.columns, row, strict=True)) for row in listing.rows]}


_LISTINGS: Mapping[str, Callable[[Answered, Listing, bool], Entity]] = {
    "streams": _relations,
    "tables": _relations,
    "views": _views,
    "queries": _queries,
    "topics": _topics,
    "types": _types,
    "functions": _functions,
    "variables": _variables,
    "properties": _properties,
}


# --- DESCRIBE, EXPLAIN ---


def _described(answered: Answered, described: Described) -> Entity:
    is_extended = bool(getattr(answered.parsed.statement, "is_extended", False))
    found = source_description(described, answered.catalog, is_extended=is_extended)
    return {"@type": "sourceDescription", "sourceDescription": found}


def source_description(described: Described, catalog: Catalog, *, is_extended: bool = False) -> Entity:
    """Of a stream or table. The facts about the topic are sentences here, as `statistics` of ksqlDB."""
    relation, facts = described.relation, dict(described.topic)
    return {
        **_source(relation),
        "windowType": None,
        "readQueries": [running_query(one, catalog) for one in described.readers],
        "writeQueries": [running_query(one, catalog) for one in described.writers],
        "fields": [_field(column) for column in relation.columns or ()],
        "timestamp": relation.storage.timestamp or "",
        "statistics": "\n".join(f"{name}: {value}" for name, value in described.topic),
        "errorStats": "\n".join(f"{one.query.id}: {one.error}" for one in described.writers if one.error),
        "extended": is_extended,
        "partitions": _count(facts.get("partitions")),
        "replication": _count(facts.get("replicas")),
        "statement": f"{relation.statement};",
        "queryOffsetSummaries": [],
        "sourceConstraints": [],
        "clusterStatistics": [],
        "clusterErrorStats": [],
    }


def _count(text: str | None) -> int:
    digits = (text or "").replace(",", "")
    return int(digits) if digits.isdecimal() else 0


def _field(column: Column) -> Entity:
    found: Entity = {"name": column.name.text, "schema": ksql_type(column.type).schema}
    if column.role in _FIELD_TYPES:
        found["type"] = _FIELD_TYPES[column.role]
    if column.header is not None:
        found["headerKey"] = column.header
    return found


def running_query(status: QueryStatus, catalog: Catalog) -> Entity:
    """A persistent query."""
    query, state = status.query, _STATES[status.state]
    sink = catalog.relations.get(query.sink)
    return {
        "id": query.id,
        "queryString": f"{query.statement};",
        "sinks": [query.sink if sink is None else sink.name],
        "sinkKafkaTopics": [] if sink is None else [sink.topic],
        "statusCount": {state: 1},
        "queryType": PERSISTENT,
        "state": state,
        "moldau": {"reads": _reads(status, catalog), **_figures(status)},
    }


def _reads(status: QueryStatus, catalog: Catalog) -> list[str]:
    return [catalog.relations[key].name if key in catalog.relations else key for key in sorted(status.query.reads)]


def _figures(status: QueryStatus) -> Entity:
    return {
        "state": status.state,
        "recordsRead": status.records_read,
        "recordsPerSecond": status.records_per_second,
        "lag": status.lag,
        "batches": status.batches,
        "batchMs": status.batch_ms,
        "deadLetters": status.dead_letters,
        "stateRows": status.state_rows,
        "error": status.error,
    }


def _explained(answered: Answered, explained: Explained) -> Entity:
    return {"@type": "queryDescription", "queryDescription": _query_description(answered, explained)}


def _query_description(answered: Answered, explained: Explained) -> Entity:
    """`topology`: the steps; `executionPlan`: Spark's."""
    catalog, status = answered.catalog, explained.query
    sources, sinks = list(explained.reads), [explained.writes] if explained.writes else []
    errors: list[Entity] = []
    if status is not None:
        sources = sources or _reads(status, catalog)
        sinks = sinks or running_query(status, catalog)["sinks"]
        if status.error:
            errors = [{"timestamp": 0, "errorMessage": status.error, "type": "UNKNOWN"}]
    fields = [
        {"name": name, "schema": ksql_type(spark).schema, **({"type": "KEY"} if name in explained.key else {})}
        for name, spark in explained.columns
    ]
    return {
        "id": "" if status is None else status.query.id,
        "statementText": f"{explained.text if status is None else status.query.statement};",
        "windowType": None,
        "fields": fields,
        "sources": sources,
        "sinks": sinks,
        "topology": "\n".join(explained.steps),
        "executionPlan": explained.plan,
        "overriddenProperties": {},
        "ksqlHostQueryStatus": {},
        "queryType": PUSH if status is None else PERSISTENT,
        "queryErrors": errors,
        "tasksMetadata": [],
        "consumerGroupId": "",
        "state": None if status is None else _STATES[status.state],
        "moldau": {
            "sparkSql": explained.text,
            "rewrites": list(explained.rewrites),
            **({} if status is None else _figures(status)),
        },
    }


def _function(answered: Answered, described: FunctionDescribed) -> Entity:
    """`functions`: none of ksqlDB's signatures, because Spark's types decide."""
    parts = [described.usage, f"In Spark SQL: {described.template}" if described.template else "", described.note]
    return {
        "@type": "describe_function",
        "name": described.name,
        "description": "\n".join(part for part in parts if part),
        "author": "",
        "version": "",
        "path": "",
        "functions": [],
        "type": "SCALAR",
    }


_ENTITIES: Mapping[type[Answer], Callable[[Answered, Any], Entity | None]] = {
    Done: _done,
    Listing: _listing,
    Described: _described,
    Explained: _explained,
    FunctionDescribed: _function,
}
