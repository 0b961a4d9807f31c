"""ASSERT TOPIC, SCHEMA, STREAM and TABLE: what a script takes for granted."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from moldau.products.sql.catalog.catalog import Relation
from moldau.products.sql.catalog.storage import Storage, storage_of
from moldau.products.sql.engine.answers import Answer, Done
from moldau.products.sql.engine.looking.cluster import Topic
from moldau.products.sql.engine.looking.sight import Sight, statement_error
from moldau.products.sql.language.queries import Duration, Name, error_of
from moldau.products.sql.language.statements import AssertSchema, AssertSource, AssertTopic, Column, Property
from moldau.types import nearest

DEFAULT_TIMEOUT_MS = 1_000
"""As in ksqlDB."""
MAX_TIMEOUT_MS = 60_000
"""A statement that waits keeps those after it waiting."""
_LOOK_EVERY_MS = 100
_FIELDS = {
    "kafka_topic": "topic",
    "value_delimiter": "delimiter",
}
"""Of Storage, by the property's name, where they differ."""


def assert_topic(sight: Sight, statement: AssertTopic) -> Answer:
    """Waits until it holds. Raises SqlError if it does not within the timeout, and MoldauError if the cluster does not
    answer."""
    name = statement.topic

    def problem() -> str | None:
        topic = sight.cluster.topics().get(name.text)
        if not statement.exists:
            return None if topic is None else f"the topic {name.text} exists"
        if topic is None:
            return f"there is no topic {name.text}"
        return next(_differences(sight, topic, statement.properties), None)

    _wait(sight, name, statement.timeout, problem)
    return Done(
        statement=sight.parsed.text,
        message=f"the topic {name.text} " + ("is as asserted" if statement.exists else "does not exist"),
    )


def assert_schema(sight: Sight, statement: AssertSchema) -> Answer:
    """As `assert_topic`, of a schema registry."""
    parts = [f"subject {statement.subject.text}"] if statement.subject is not None else []
    parts += [f"id {statement.id}"] if statement.id is not None else []
    what = f"schema with the {' and the '.join(parts)}"

    def problem() -> str | None:
        subject = None if statement.subject is None else statement.subject.text
        if sight.cluster.has_schema(subject, statement.id) is statement.exists:
            return None
        return f"there is {'no' if statement.exists else 'a'} {what}"

    _wait(sight, statement.subject, statement.timeout, problem)
    return Done(statement=sight.parsed.text, message=f"there is {'a' if statement.exists else 'no'} {what}")


def assert_source(sight: Sight, statement: AssertSource) -> Answer:
    """Raises SqlError for the first difference from the stream or table."""
    name = statement.name
    relation = sight.catalog.relations.get(name.key)
    if relation is None:
        near = sight.catalog.nearest_relation(name.text)
        raise error_of(name, f"there is no {statement.kind.value} {name.text}", near)
    if relation.kind is not statement.kind:
        raise error_of(name, f"{relation.name} is a {relation.kind.value}")
    if statement.columns:
        _check_columns(relation, statement)
    _check_storage(relation, statement)
    return Done(statement=sight.parsed.text, message=f"{relation.kind.value} {relation.name} is as asserted")


def _wait(sight: Sight, name: Name | None, timeout: Duration | None, problem: Callable[[], str | None]) -> None:
    length_ms = DEFAULT_TIMEOUT_MS if timeout is None else timeout.milliseconds
    if length_ms > MAX_TIMEOUT_MS:
        raise _error(sight, name, f"an assertion waits at most {MAX_TIMEOUT_MS // 1_000} SECONDS")
    end = sight.cluster.monotonic_ms() + length_ms
    while (found := problem()) is not None:
        left = end - sight.cluster.monotonic_ms()
        if left <= 0:
            raise _error(sight, name, found)
        sight.cluster.pause(min(left, _LOOK_EVERY_MS))


def _error(sight: Sight, name: Name | None, problem: str) -> Exception:
    return statement_error(sight.parsed, problem) if name is None else error_of(name, problem)


def _differences(sight: Sight, topic: Topic, properties: tuple[Property, ...]) -> Iterator[str]:
    """Between a topic and the properties of WITH: `partitions`, `replicas`, or a setting by Kafka's name."""
    if not properties:
        return
    has: dict[str, str] = {"partitions": str(topic.partitions), "replicas": str(topic.replicas)}
    if any(one.name.text not in has for one in properties):
        has |= sight.cluster.settings(topic.name)
    for one in properties:
        key = one.name.text if one.name.text in has else one.name.text.replace("_", ".")
        if key not in has:
            raise error_of(one.name, f"a topic has no property {one.name.text}", nearest(one.name.text, has))
        wanted = str(one.value).lower() if isinstance(one.value, bool) else str(one.value)
        if has[key] != wanted:
            yield f"the topic {topic.name} has {key} = {has[key]}, not {wanted}"


def _check_columns(relation: Relation, statement: AssertSource) -> None:
    name = statement.name
    if relation.columns is None:
        raise error_of(name, f"the columns of {relation.name} are not known yet")
    has, wanted = ({one.name.key: one for one in each} for each in (relation.columns, statement.columns))
    for key, column in wanted.items():
        if key not in has:
            raise error_of(column.name, f"{relation.name} has no column {column.name.text}", nearest(key, has))
        if _written(has[key]) != _written(column):
            problem = f"{relation.name} has the column {_written(has[key])}, not {_written(column)}"
            raise error_of(column.name, problem)
    for key, column in has.items():
        if key not in wanted:
            raise error_of(name, f"{relation.name} has the column {_written(column)} too")


def _written(column: Column) -> str:
    role = "" if column.role.value == "value" else f" {column.role.value.upper()}"
    return f"{column.name.key} {column.type}{role}"


def _check_storage(relation: Relation, statement: AssertSource) -> None:
    named = [one for one in statement.properties if one.name.text != "format"]
    wanted = storage_of(statement.properties, {}, statement.name)
    for one in named:
        _check_field(relation, wanted, _FIELDS.get(one.name.text, one.name.text), one.name)
    if len(named) < len(statement.properties):
        for field in ("key_format", "value_format"):
            _check_field(relation, wanted, field, statement.name)


def _check_field(relation: Relation, wanted: Storage, field: str, at: Name) -> None:
    is_topic = field == "topic"
    has = relation.topic if is_topic else getattr(relation.storage, field)
    if has != getattr(wanted, field):
        raise error_of(at, f"{relation.name} has {field} = {has}, not {getattr(wanted, field)}")
