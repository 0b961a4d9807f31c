"""The settings of the connectors of databases. The names are those that people know from JDBC connectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from moldau.connect.configuration import (
    ConfigError,
    Importance,
    Kind,
    Secret,
    Setting,
    not_empty,
    one_of,
    parse,
)

CONNECTION = "Connection"
WRITES = "Writes"
READS = "Reads"
BULK = "bulk"
TOPIC_PREFIX = "topic.prefix"
KAFKA_KEY = ("__connect_topic", "__connect_partition", "__connect_offset")
"""The names of the key's columns of `pk.mode=kafka`."""


def _setting(name: str, kind: Kind, default: object, group: str, documentation: str, **more: object) -> Setting:
    return Setting(name, kind, default, documentation=documentation, group=group, **more)  # type: ignore[arg-type]


SINK = (
    _setting(
        "insert.mode",
        Kind.STRING,
        "insert",
        WRITES,
        "insert: each record is a new row. upsert: it replaces the row with its key. update: it changes that row.",
        importance=Importance.HIGH,
        check=one_of("insert", "upsert", "update"),
    ),
    _setting(
        "pk.mode",
        Kind.STRING,
        "none",
        WRITES,
        "Where the primary key comes from. none: there is none. record_key: the key of the record. record_value: "
        "fields of the value. kafka: topic, partition and offset.",
        importance=Importance.HIGH,
        check=one_of("none", "record_key", "record_value", "kafka"),
    ),
    _setting(
        "pk.fields",
        Kind.LIST,
        (),
        WRITES,
        "The columns of the primary key. Default: all fields of the key or the value. A key that is no struct needs "
        f"one name, and pk.mode=kafka three (default {', '.join(KAFKA_KEY)}).",
    ),
    _setting(
        "delete.enabled",
        Kind.BOOLEAN,
        False,
        WRITES,
        "A record without a value deletes the row with its key. Needs pk.mode=record_key.",
    ),
    _setting(
        "table.name.format",
        Kind.STRING,
        "${topic}",
        WRITES,
        "The table of a record. ${topic} stands for its topic. A point outside of ${topic} separates schema and table.",
    ),
    _setting("fields.whitelist", Kind.LIST, (), WRITES, "The fields of the value to write. Empty: all."),
    _setting("auto.create", Kind.BOOLEAN, False, WRITES, "Creates a missing table."),
    _setting("auto.evolve", Kind.BOOLEAN, False, WRITES, "Adds missing columns to the table."),
)


SOURCE = (
    _setting(
        "mode",
        Kind.STRING,
        "",
        READS,
        "bulk: all rows, again and again. incrementing: rows with a greater number. timestamp: rows with a later time. "
        "timestamp+incrementing: both, which finds changed rows and tells rows of one time apart. A source needs it.",
        importance=Importance.HIGH,
        check=one_of("", BULK, "incrementing", "timestamp", "timestamp+incrementing"),
    ),
    _setting("incrementing.column.name", Kind.STRING, "", READS, "The column whose number grows with each new row."),
    _setting("timestamp.column.name", Kind.STRING, "", READS, "The column with the time of the last change of a row."),
    _setting("table.whitelist", Kind.LIST, (), READS, "The table to read, also as schema.table."),
    _setting("query", Kind.STRING, "", READS, "A query to read instead of a table, without ORDER BY and LIMIT."),
    _setting(
        TOPIC_PREFIX,
        Kind.STRING,
        "",
        READS,
        "Without topic: the topic is the prefix and the name of the table, or the prefix alone for a query.",
    ),
)


@dataclass(frozen=True, slots=True)
class SinkSettings:
    insert_mode: str
    key_mode: str
    key_fields: tuple[str, ...]
    deletes: bool
    table_format: str
    fields: tuple[str, ...]
    creates: bool
    evolves: bool


def connection(documentation: str, check: Callable[[str, object], None] = not_empty) -> Setting:
    return Setting(
        "connection.url",
        Kind.STRING,
        importance=Importance.HIGH,
        documentation=documentation,
        group=CONNECTION,
        check=check,
    )


def sink_settings(config: Mapping[str, str | None]) -> SinkSettings:
    """Raises ConfigError, also for settings that contradict each other."""
    values = parse(SINK, config)
    insert_mode, key_mode = str(values["insert.mode"]), str(values["pk.mode"])
    found = SinkSettings(
        insert_mode,
        key_mode,
        _texts(values["pk.fields"]),
        bool(values["delete.enabled"]),
        str(values["table.name.format"]),
        _texts(values["fields.whitelist"]),
        bool(values["auto.create"]),
        bool(values["auto.evolve"]),
    )
    errors: dict[str, Sequence[str]] = {}
    if key_mode == "none" and insert_mode != "insert":
        errors["pk.mode"] = [f"insert.mode={insert_mode} needs a primary key: set pk.mode"]
    if found.deletes and key_mode != "record_key":
        errors["delete.enabled"] = ["delete.enabled needs pk.mode=record_key"]
    if key_mode == "kafka" and len(found.key_fields) not in (0, len(KAFKA_KEY)):
        errors["pk.fields"] = ["pk.mode=kafka needs three names in pk.fields, or none"]
    if errors:
        raise ConfigError(errors)
    return found


def secret_text(value: object) -> str | None:
    return value.text if isinstance(value, Secret) else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(one) for one in value) if isinstance(value, list | tuple) else ()
