"""Where in a record the columns of a relation are: key, value, headers, timestamp."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moldau.products.pipelines.core.column_types import double_name
from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.statement import quoted
from moldau.products.sql.catalog.catalog import Relation
from moldau.products.sql.language.statements import Column, Kind, Role

ROW_TIME, ROW_PARTITION, ROW_OFFSET = "ROWTIME", "ROWPARTITION", "ROWOFFSET"
EVENT_TIME = "_rowtime"
"""The columns that every row has besides the declared ones: its time in milliseconds, the partition and offset of its
record, and its time as a timestamp."""
PSEUDO_COLUMNS = (ROW_TIME, ROW_PARTITION, ROW_OFFSET, EVENT_TIME)
_LAST_MS = (2**63 - 1) // 1_000
"""The farthest time from 1970 of a timestamp, in milliseconds."""


def columns_of(relation: Relation) -> tuple[Column, ...]:
    """Raises FlowError for a relation whose columns are unknown, or that SQL could not name."""
    if relation.columns is None:
        raise FlowError(f"the columns of {relation.name} are not known yet")
    names = [column.name.text for column in relation.columns]
    double = double_name([*names, *PSEUDO_COLUMNS])
    if double is not None:
        which = f"has two columns {double[1]}" if double[1] not in PSEUDO_COLUMNS else f"has a column {double[0]}, "
        raise FlowError(f"{relation.name} {which}" + "which every row has anyway" * (double[1] in PSEUDO_COLUMNS))
    return relation.columns


def key_columns(relation: Relation) -> tuple[Column, ...]:
    return tuple(column for column in columns_of(relation) if column.role in (Role.KEY, Role.PRIMARY_KEY))


def value_columns(relation: Relation) -> tuple[Column, ...]:
    return tuple(column for column in columns_of(relation) if column.role is Role.VALUE)


def has_headers(relation: Relation) -> bool:
    return any(column.role in (Role.HEADERS, Role.HEADER) for column in columns_of(relation))


def is_table(relation: Relation) -> bool:
    return relation.kind is Kind.TABLE


def ddl(columns: Iterable[Column]) -> str:
    """Names and Spark types."""
    return ", ".join(f"{quoted(column.name.text)} {column.type}" for column in columns)


def names_of(columns: Iterable[Column]) -> list[str]:
    return [column.name.text for column in columns]


def time_column(relation: Relation) -> Column | None:
    """The column that is a row's time; None: the record's timestamp is. Raises FlowError."""
    if relation.storage.timestamp is None:
        return None
    wanted = relation.storage.timestamp.strip("`").lower()
    found = [column for column in columns_of(relation) if column.name.key == wanted]
    if not found or found[0].role in (Role.HEADERS, Role.HEADER):
        known = ", ".join(names_of((*key_columns(relation), *value_columns(relation))))
        raise FlowError(f"`timestamp` of {relation.name} names {relation.storage.timestamp!r}; its columns are {known}")
    return found[0]


def time_of(relation: Relation, column: Column, sql: str) -> str:
    """SQL: the time in a column, null if it has none. `sql`: its value. Raises FlowError for a column of another
    type."""
    pattern = relation.storage.timestamp_format
    if column.type == "string":
        from moldau.products.pipelines.core.statement import literal

        return f"try_cast({sql} as timestamp)" if pattern is None else f"try_to_timestamp({sql}, {literal(pattern)})"
    if pattern is not None:
        raise FlowError(f"`timestamp_format` is for texts, and {column.name.text} is {column.type}")
    if column.type in ("bigint", "int"):
        return f"if({sql} between -{_LAST_MS} and {_LAST_MS}, timestamp_millis({sql}), null)"
    if column.type in ("timestamp", "timestamp_ntz", "date"):
        return f"cast({sql} as timestamp)"
    raise FlowError(
        f"`timestamp` of {relation.name} names {column.name.text}, which is {column.type}: a time is a BIGINT in "
        "milliseconds, a TIMESTAMP, or a STRING"
    )


def nearest_name(names: Sequence[str], wanted: str) -> str | None:
    """The one of `names` that is `wanted` in any case."""
    return next((name for name in names if name.lower() == wanted.lower()), None)
