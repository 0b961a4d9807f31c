"""Transforms of the topic: RegexRouter and TimestampRouter; the predicate TopicNameMatches."""

from __future__ import annotations

import time
from dataclasses import replace

from moldau.connect.configuration import REQUIRED, ConfigError, Importance, Kind, Setting, not_empty, wrong
from moldau.connect.converting.converter import DataError
from moldau.connect.data.record import Record
from moldau.connect.transforming.java_dates import DateError, DateFormat, PatternError
from moldau.connect.transforming.java_regex import RegexError, java_pattern, java_replacement
from moldau.connect.transforming.parts import Given, Part, Predicate, Transform


def _checked_regex(name: str, value: object) -> None:
    try:
        java_pattern(str(value))
    except RegexError as error:
        raise ValueError(wrong(name, value, str(error))) from None


def _checked_pattern(name: str, value: object) -> None:
    not_empty(name, value)
    _checked_regex(name, value)


REGEX_SETTINGS = (
    Setting(
        "regex",
        Kind.STRING,
        REQUIRED,
        Importance.HIGH,
        "The regular expression (Java's) that a topic must match as a whole.",
        check=_checked_regex,
    ),
    Setting(
        "replacement", Kind.STRING, REQUIRED, Importance.HIGH, "The new topic, with $1 for the first group of `regex`."
    ),
)
TIMESTAMP_SETTINGS = (
    Setting(
        "topic.format",
        Kind.STRING,
        "${topic}-${timestamp}",
        Importance.HIGH,
        "The new topic, with ${topic} and ${timestamp} for those of the record.",
    ),
    Setting(
        "timestamp.format",
        Kind.STRING,
        "yyyyMMdd",
        Importance.HIGH,
        "The pattern of java.text.SimpleDateFormat for the timestamp, in UTC.",
    ),
)
MATCHES_SETTINGS = (
    Setting(
        "pattern",
        Kind.STRING,
        REQUIRED,
        Importance.MEDIUM,
        "The regular expression (Java's) that the topic must match as a whole.",
        check=_checked_pattern,
    ),
)


def regex_router(given: Given, _: Part) -> Transform:
    pattern = java_pattern(given.text("regex"))
    try:
        replacement = java_replacement(given.text("replacement"), pattern)
    except RegexError as error:
        raise ConfigError({"replacement": [str(error)]}) from None

    def apply(record: Record) -> Record:
        if pattern.fullmatch(record.topic) is None:
            return record
        return replace(record, topic=pattern.sub(replacement, record.topic, count=1))

    return apply


def timestamp_router(given: Given, _: Part) -> Transform:
    topic_format = given.text("topic.format")
    try:
        timestamp_format = DateFormat(given.text("timestamp.format"), time.time_ns() // 1_000_000)
    except PatternError as error:
        raise ConfigError({"timestamp.format": [str(error)]}) from None

    def apply(record: Record) -> Record:
        if record.timestamp_ms is None:
            raise DataError("Timestamp missing on record")
        try:
            timestamp = timestamp_format.format(record.timestamp_ms)
        except DateError as error:
            raise DataError(str(error)) from None
        topic = topic_format.replace("${topic}", record.topic).replace("${timestamp}", timestamp)
        return replace(record, topic=topic)

    return apply


def topic_name_matches(given: Given) -> Predicate:
    pattern = java_pattern(given.text("pattern"))
    return lambda record: pattern.fullmatch(record.topic) is not None
