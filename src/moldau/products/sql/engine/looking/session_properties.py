"""SET, UNSET, DEFINE and UNDEFINE, and the properties that there are."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from moldau.products.sql.engine.answers import Answer, Done
from moldau.products.sql.engine.looking.sight import Sight
from moldau.products.sql.engine.session import START
from moldau.products.sql.language.queries import error_of
from moldau.products.sql.language.rewrites import DIALECT
from moldau.products.sql.language.statements import Define, SetProperty
from moldau.types import nearest

_PREFIX = "ksql.streams."
"""ksqlDB's names with and without it are one."""


class SessionProperty(msgspec.Struct, frozen=True):
    """`values`: the allowed ones."""

    name: str
    meaning: str
    default: str
    values: tuple[str, ...]


PROPERTIES: Mapping[str, SessionProperty] = {
    one.name: one
    for one in (
        SessionProperty(
            DIALECT,
            "what Spark SQL and ksqlDB both understand means what it means there",
            "spark",
            ("spark", "ksql"),
        ),
        SessionProperty(
            START, "where a query begins that has no committed offsets", "earliest", ("earliest", "latest")
        ),
    )
}
"""By name, in lower case."""

_NOT_HERE: Mapping[str, str] = {
    "processing.guarantee": "every query writes exactly once",
    "commit.interval.ms": "a micro-batch is one transaction",
    "cache.max.bytes.buffering": "a table writes each changed row once in a micro-batch",
    "statestore.cache.max.bytes": "a table writes each changed row once in a micro-batch",
    "num.stream.threads": "the tasks of a query share the cores of Spark",
    "ksql.query.pull.table.scan.enabled": "a SELECT without EMIT reads the whole table",
}
"""Properties of ksqlDB that are taken and change nothing, with the reason."""


def set_property(sight: Sight, statement: SetProperty) -> Answer:
    """SET and UNSET. Raises SqlError for an unknown property or value."""
    name, value = statement.name, statement.value
    key = name.key.removeprefix(_PREFIX)
    if key in _NOT_HERE:
        warning = f"line {name.line}, column {name.column}: {key} changes nothing here: {_NOT_HERE[key]}"
        return Done(statement=sight.parsed.text, message=f"{key} is left as it is", warnings=(warning,))
    known = PROPERTIES.get(key)
    if known is None:
        raise error_of(
            name,
            f"there is no property {name.text}; there are {', '.join(sorted(PROPERTIES))}",
            nearest(key, PROPERTIES),
        )
    if value is None:
        sight.session.properties.pop(key, None)
        return Done(statement=sight.parsed.text, message=f"{key} is {known.default}, as by default")
    if value.lower() not in known.values:
        raise error_of(
            name, f"{key} is {' or '.join(known.values)}, not {value!r}", nearest(value.lower(), known.values)
        )
    sight.session.properties[key] = value.lower()
    return Done(statement=sight.parsed.text, message=f"{key} is {value.lower()}")


def define(sight: Sight, statement: Define) -> Answer:
    """DEFINE and UNDEFINE. Raises SqlError for an UNDEFINE of an unknown variable."""
    name, variables = statement.name, sight.session.variables
    if statement.value is not None:
        variables[name.key] = statement.value
        return Done(statement=sight.parsed.text, message=f"the variable {name.text} is {statement.value!r}")
    if name.key not in variables:
        raise error_of(name, f"the variable {name.text} is not defined", nearest(name.key, variables))
    del variables[name.key]
    return Done(statement=sight.parsed.text, message=f"the variable {name.text} is gone")
