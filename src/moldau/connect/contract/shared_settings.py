"""The settings that every connector has: those of Kafka Connect, and ours of a task.

Settings that a task of ours does not need have an effect in Kafka Connect alone and are still checked, because people
bring their configurations along: `tasks.max.enforce`, `config.action.reload`, `exactly.once.support`,
`transaction.boundary`, `transaction.boundary.interval.ms`, `topic.creation.groups`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from moldau.connect.configuration import Importance, Kind, Setting, in_range, one_of, wrong
from moldau.connect.contract.bounds import DEFAULT_MEMORY_MB, MAX_TASKS, MEMORY
from moldau.connect.contract.ddl import DdlError, parse_ddl
from moldau.connect.contract.describing import Reading, RowColumns
from moldau.connect.contract.runners import LIGHT, RUNNER, RUNNERS, SPARK_PREFIX, check_runner
from moldau.connect.converting.named import names_of

COMMON_GROUP: Final = "Common"
ERRORS_GROUP: Final = "Error Handling"
TASK_GROUP: Final = "Task"

NAME, CLASS, TASKS_MAX = "name", "connector.class", "tasks.max"
KEY_CONVERTER, VALUE_CONVERTER, HEADER_CONVERTER = "key.converter", "value.converter", "header.converter"
TRANSFORMS, PREDICATES = "transforms", "predicates"
TOPICS, TOPICS_REGEX, TOPIC = "topics", "topics.regex", "topic"
POLL_INTERVAL, BATCH_ROWS, BATCH_BYTES = "poll.interval.ms", "batch.max.rows", "batch.max.bytes"
ROW_COLUMNS, OFFSETS_TOPIC = "row.columns", "offsets.storage.topic"
ROW_SCHEMA, ROW_READER = "row.schema", "row.reader"

DEFAULT_BATCH_ROWS: Final = 10_000
DEFAULT_BATCH_BYTES: Final = 16 << 20
"""Bytes of keys and values that a sink's batch holds in memory."""
DEFAULT_POLL_INTERVAL_MS: Final = 250

PASSED_ON: Final = ("producer.override.", "consumer.override.", "admin.override.", "topic.creation.", SPARK_PREFIX)
"""Prefixes of settings that are checked where they arrive."""

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def _named(name: str, value: object) -> None:
    """ConfigDef.NonEmptyStringWithoutControlChars."""
    text = str(value)
    if not text:
        raise ValueError(wrong(name, value, "String may not be empty"))
    if _CONTROL.search(text):
        raise ValueError(wrong(name, value, "String may not contain control characters"))


def _pattern(name: str, value: object) -> None:
    try:
        re.compile(str(value))
    except re.error as error:
        raise ValueError(wrong(name, value, f"Invalid regular expression: {error}")) from None


def _schema(name: str, value: object) -> None:
    if value is not None:
        try:
            parse_ddl(str(value))
        except DdlError as error:
            raise ValueError(wrong(name, value, str(error))) from None


def _setting(
    name: str, kind: Kind, default: object, group: str, title: str, documentation: str, **more: object
) -> Setting:
    return Setting(
        name,
        kind,
        default,
        group=group,
        display_name=title,
        documentation=documentation,
        **more,  # type: ignore[arg-type]
    )


def _common(name: str, kind: Kind, default: object, title: str, documentation: str, **more: object) -> Setting:
    more = {"importance": Importance.LOW, "width": "SHORT"} | more
    return _setting(name, kind, default, COMMON_GROUP, title, documentation, **more)


def _converter(name: str, title: str, what: str, order: int) -> Setting:
    words = f"Converts {what} between bytes and values. Default: the worker's."
    return _common(
        name,
        Kind.CLASS,
        None,
        title,
        words,
        order=order,
        recommended=lambda _: names_of(is_header=name == HEADER_CONVERTER),
    )


def _names(name: str, title: str, words: str, order: int) -> Setting:
    return _setting(name, Kind.LIST, (), title, title, words, order=order, width="LONG", importance=Importance.LOW)


CONNECTOR: Final = (
    Setting(
        NAME,
        Kind.STRING,
        importance=Importance.HIGH,
        documentation="The name of the connector, unique in its group of workers.",
        group=COMMON_GROUP,
        width="MEDIUM",
        display_name="Connector name",
        check=_named,
        order=1,
    ),
    Setting(
        CLASS,
        Kind.STRING,
        importance=Importance.HIGH,
        documentation="An installed connector by its name, or a class of your own as module:Class.",
        group=COMMON_GROUP,
        width="LONG",
        display_name="Connector class",
        check=_named,
        order=2,
    ),
    _common(
        TASKS_MAX,
        Kind.INT,
        1,
        "Tasks max",
        "The number of tasks, at most.",
        importance=Importance.HIGH,
        check=in_range(1, MAX_TASKS),
        order=4,
    ),
    _common(
        "tasks.max.enforce",
        Kind.BOOLEAN,
        True,
        "Enforce tasks max",
        "No connector gets more tasks than its max.",
        order=5,
    ),
    _converter(KEY_CONVERTER, "Key converter class", "keys", 6),
    _converter(VALUE_CONVERTER, "Value converter class", "values", 8),
    _converter(HEADER_CONVERTER, "Header converter class", "values of headers", 10),
    _names(TRANSFORMS, "Transforms", "Names of the transforms, in their order.", 12),
    _names(PREDICATES, "Predicates", "Names of the predicates that transforms use.", 13),
    _common(
        "config.action.reload",
        Kind.STRING,
        "restart",
        "Reload Action",
        "What Kafka Connect does when a secret of the configuration changes.",
        width="MEDIUM",
        check=one_of("none", "restart"),
        order=14,
    ),
    _setting(
        "errors.retry.timeout",
        Kind.LONG,
        0,
        ERRORS_GROUP,
        "Retry Timeout for Errors",
        "Milliseconds in which a failed operation is tried again; -1 is without end.",
        check=in_range(-1),
        order=1,
        width="MEDIUM",
    ),
    _setting(
        "errors.retry.delay.max.ms",
        Kind.LONG,
        60_000,
        ERRORS_GROUP,
        "Maximum Delay Between Retries for Errors",
        "Milliseconds between two tries, at most.",
        check=in_range(1),
        order=2,
        width="MEDIUM",
    ),
    _setting(
        "errors.tolerance",
        Kind.STRING,
        "none",
        ERRORS_GROUP,
        "Error Tolerance",
        "none: a record that cannot be handled fails the task. all: it is left out.",
        check=one_of("none", "all"),
        order=3,
        width="SHORT",
    ),
    _setting(
        "errors.log.enable",
        Kind.BOOLEAN,
        False,
        ERRORS_GROUP,
        "Log Errors",
        "Logs each error, also one that is tolerated.",
        order=4,
        width="SHORT",
    ),
    _setting(
        "errors.log.include.messages",
        Kind.BOOLEAN,
        False,
        ERRORS_GROUP,
        "Log Error Details",
        "Logs topic, partition, offset and time of a record that failed.",
        order=5,
        width="SHORT",
    ),
    _setting(
        RUNNER,
        Kind.STRING,
        LIGHT,
        TASK_GROUP,
        "Runner",
        "light: tasks are processes without a JVM. spark: the connector is one task, a streaming query of Spark.",
        check=check_runner,
        recommended=lambda config: RUNNERS,
    ),
    _setting(
        POLL_INTERVAL,
        Kind.INT,
        DEFAULT_POLL_INTERVAL_MS,
        TASK_GROUP,
        "Poll interval",
        "Milliseconds between two looks of a task that has nothing to do.",
        check=in_range(1),
    ),
    _setting(
        BATCH_ROWS,
        Kind.INT,
        DEFAULT_BATCH_ROWS,
        TASK_GROUP,
        "Rows of a batch",
        "Rows of a sink's batch, of a simple reader's read and of a batch reader's chunk, at most.",
        check=in_range(1),
    ),
    _setting(
        BATCH_BYTES,
        Kind.INT,
        DEFAULT_BATCH_BYTES,
        TASK_GROUP,
        "Bytes of a batch",
        "Bytes of keys and values of a batch. A larger record is a batch by itself.",
        check=in_range(1),
    ),
    _setting(
        MEMORY,
        Kind.INT,
        DEFAULT_MEMORY_MB,
        TASK_GROUP,
        "Memory of a task",
        "Resident memory in MiB, also of Spark's JVM. A task that has more fails. Default on Spark: 4096.",
        check=in_range(64),
    ),
)

SOURCE: Final = (
    _setting(
        ROW_SCHEMA,
        Kind.STRING,
        None,
        TASK_GROUP,
        "Schema of rows",
        "The columns to ask the source for, as DDL: what Spark takes in schema(). Default: the source's own.",
        check=_schema,
    ),
    _setting(
        ROW_READER,
        Kind.STRING,
        None,
        TASK_GROUP,
        "Reader of rows",
        "The reader of a class that has several; reader reads once and ends. Default: the first that it has.",
        check=lambda name, value: None if value is None else one_of(*Reading)(name, value),
    ),
    _setting(
        TOPIC,
        Kind.STRING,
        None,
        COMMON_GROUP,
        "Topic",
        "The topic of the rows. A source that gives whole records names the topic in each row.",
        importance=Importance.HIGH,
        width="MEDIUM",
    ),
    _setting(
        "topic.creation.groups",
        Kind.LIST,
        (),
        "Topic Creation",
        "Topic Creation Groups",
        "Groups of topics to make.",
        importance=Importance.LOW,
        order=1,
        width="LONG",
    ),
    _setting(
        "exactly.once.support",
        Kind.STRING,
        "requested",
        "Exactly Once Support",
        "Exactly once support",
        "Kafka Connect's check before the start. A task of ours is always exactly once.",
        check=one_of("requested", "required", ignore_case=True),
        order=2,
        width="SHORT",
    ),
    _setting(
        "transaction.boundary",
        Kind.STRING,
        "poll",
        "Exactly Once Support",
        "Transaction Boundary",
        "Where a transaction of Kafka Connect ends. A task of ours ends one after each batch.",
        check=one_of("poll", "interval", "connector", ignore_case=True),
        order=3,
        width="SHORT",
    ),
    _setting(
        "transaction.boundary.interval.ms",
        Kind.LONG,
        None,
        "Exactly Once Support",
        "Transaction boundary interval",
        "Milliseconds of a transaction of Kafka Connect.",
        importance=Importance.LOW,
        order=4,
        width="SHORT",
    ),
    _setting(
        OFFSETS_TOPIC,
        Kind.STRING,
        None,
        "offsets.topic",
        "Offsets topic",
        "The topic of the connector's offsets. Default: the worker's.",
        importance=Importance.LOW,
        width="LONG",
        order=1,
    ),
)

SINK: Final = (
    _common(TOPICS, Kind.LIST, (), "Topics", "The topics to read.", importance=Importance.HIGH, width="LONG", order=4),
    _common(
        TOPICS_REGEX,
        Kind.STRING,
        "",
        "Topics regex",
        "A regular expression; every topic whose whole name matches is read. Not together with topics.",
        importance=Importance.HIGH,
        width="LONG",
        check=_pattern,
        order=4,
    ),
    _setting(
        "errors.deadletterqueue.topic.name",
        Kind.STRING,
        "",
        ERRORS_GROUP,
        "Dead Letter Queue Topic Name",
        "The topic of records that could not be handled. Empty: they are left out.",
        order=6,
        width="MEDIUM",
    ),
    _setting(
        "errors.deadletterqueue.topic.replication.factor",
        Kind.SHORT,
        3,
        ERRORS_GROUP,
        "Dead Letter Queue Topic Replication Factor",
        "Replicas of that topic, if it is made.",
        order=7,
        width="MEDIUM",
    ),
    _setting(
        "errors.deadletterqueue.context.headers.enable",
        Kind.BOOLEAN,
        False,
        ERRORS_GROUP,
        "Enable Error Context Headers",
        "Adds headers with the place and the reason of the error.",
        order=8,
        width="MEDIUM",
    ),
    _setting(
        ROW_COLUMNS,
        Kind.STRING,
        None,
        TASK_GROUP,
        "Columns of rows",
        "record: key, value, topic, partition, offset, timestamp, headers. value: the fields of the value. "
        "Default: as the class says.",
        check=lambda name, value: None if value is None else one_of(*RowColumns)(name, value),
    ),
)


def shared(is_source: bool, is_sink: bool, own: Sequence[Setting]) -> list[Setting]:
    """The settings that every source or sink has, without those that a class with the settings `own` replaces by
    name."""
    found = (*CONNECTOR, *(SOURCE if is_source else ()), *(SINK if is_sink else ()))
    names = {setting.name for setting in own}
    return [setting for setting in found if setting.name not in names]


def topic_errors(config: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """What is wrong with the topics of a sink, by setting."""
    topics, pattern = config.get(TOPICS, "").strip(), config.get(TOPICS_REGEX, "").strip()
    if topics and pattern:
        sentence = f"{TOPICS} and {TOPICS_REGEX} are mutually exclusive options, but both are set."
        return {TOPICS: (sentence,), TOPICS_REGEX: (sentence,)}
    if not topics and not pattern:
        sentence = f"Must configure one of {TOPICS} or {TOPICS_REGEX}"
        return {TOPICS: (sentence,), TOPICS_REGEX: (sentence,)}
    dead = config.get("errors.deadletterqueue.topic.name", "").strip()
    if dead and dead in [one.strip() for one in topics.split(",")]:
        return {TOPICS: (f"The dead letter queue topic {dead} is among the topics that the connector reads",)}
    return {}
