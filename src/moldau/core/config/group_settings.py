"""The settings of a group (resource type 32) and of a client metrics subscription (16), with Kafka's sentences.

They have no effect yet. They are stored in the metadata log and described, so that a cluster that has them keeps them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from moldau.core.config.broker_settings import ROWS_BY_NAME as BROKER_ROWS
from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.config.group_setting_rows import CLIENT_METRICS_ROWS, GROUP_SETTING_ROWS
from moldau.core.config.setting import TopicSettingRow, check_value, invalid_config, invalid_value, parse_value
from moldau.errors import KafkaError, kafka_error

GROUP_ROWS: dict[str, TopicSettingRow] = {row[0]: row for row in GROUP_SETTING_ROWS}
CLIENT_METRICS: dict[str, TopicSettingRow] = {row[0]: row for row in CLIENT_METRICS_ROWS}

MIN_INTERVAL_MS = 100
MAX_INTERVAL_MS = 3_600_000
MATCH_SELECTORS = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)

_OFFSET_RESET = "share.auto.offset.reset"
_DURATION = re.compile(r"by_duration:\+?P(?=.)(\+?[0-9]+D)?(T(?=.)(\+?[0-9]+H)?(\+?[0-9]+M)?(\+?[0-9]+(\.[0-9]+)?S)?)?")
_TOGETHER = ("consumer", "share", "streams")
_DEAD_LETTERS = "errors.deadletterqueue.topic.name"
_ASSIGNOR = "streams.assignor.name"
_TAGS = "streams.rack.aware.assignment.tags"


def validate_group_settings(settings: Mapping[str, str], broker: BrokerSettings) -> None:
    """Checks all settings of a group after a change. Raises error 40 for the first fault."""
    for name in settings:
        if name not in GROUP_ROWS:
            raise invalid_config(f"Unknown group config name: {name}")
    for name, text in settings.items():
        row = GROUP_ROWS[name]
        value = parse_value(name, row[1], text)
        if name == _OFFSET_RESET:
            _check_offset_reset(name, text.strip())
        else:
            check_value(name, row[3], value)
    for name, text in settings.items():
        _check_bounds(name, text, broker)
        _check_names(name, text, broker)
    for kind in _TOGETHER:
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if _number(session, settings, broker) <= _number(heartbeat, settings, broker):
            raise invalid_config(f"{session} must be greater than {heartbeat}")


def _check_offset_reset(name: str, text: str) -> None:
    if text not in ("latest", "earliest") and _DURATION.fullmatch(text) is None:
        reason = (
            f"Invalid value `{text}` for configuration {name}. The value must be either 'earliest', 'latest' or of the "
            "format 'by_duration:<PnDTnHnMn.nS>'."
        )
        raise invalid_value(name, text, reason)


def _check_bounds(name: str, text: str, broker: BrokerSettings) -> None:
    """Checks that a value is between the broker's `group.<kind>.min.<rest>` and `group.<kind>.max.<rest>`."""
    kind, _, rest = name.partition(".")
    rest = rest.removeprefix("num.")
    low, high = (_bound(f"group.{kind}.{end}.{rest}", broker) for end in ("min", "max"))
    if (low is None or int(text.strip()) >= low) and (high is None or int(text.strip()) <= high):
        return
    if low is not None and high is not None:
        raise invalid_config(f"{name} must be in the range {low} to {high} inclusive.")
    raise invalid_config(
        f"{name} must be less than or equal to {high}"
        if low is None
        else f"{name} must be greater than or equal to {low}"
    )


def _bound(name: str, broker: BrokerSettings) -> int | None:
    """The broker's bound; None if the broker has no such setting."""
    return _of_broker(name, broker) if name in BROKER_ROWS else None


def _check_names(name: str, text: str, broker: BrokerSettings) -> None:
    """Raises error 40 for a name that is no group setting of Apache Kafka 4.4."""
    if name == _DEAD_LETTERS and text.strip().startswith("__"):
        raise invalid_config(f"{_DEAD_LETTERS}: DLQ topic name must not start with '__'")
    if name == _ASSIGNOR:
        known = broker.get("group.streams.assignors")
        if isinstance(known, tuple) and text.strip() not in known:
            raise invalid_config(
                f"{_ASSIGNOR} '{text.strip()}' is not a registered task assignor. Registered assignors are: "
                f"[{', '.join(known)}]."
            )
    tags = parse_value(name, "list", text) if name == _TAGS else ()
    if isinstance(tags, tuple) and "" in tags:
        raise invalid_config(f"Configuration '{_TAGS}' values must not be empty.")
    if isinstance(tags, tuple) and len(dict.fromkeys(tags)) < len(tags):
        raise invalid_config(f"{_TAGS} must not contain duplicate tag keys.")


def _of_broker(name: str, broker: BrokerSettings) -> int:
    return int(str(broker.get(name)))


def _number(name: str, settings: Mapping[str, str], broker: BrokerSettings) -> int:
    return int(settings[name].strip()) if name in settings else _of_broker(f"group.{name}", broker)


def validate_client_metrics(settings: Mapping[str, str]) -> None:
    """Checks all settings of a subscription after a change. Raises 42 for an unknown name or an interval out of range,
    40 for a wrong type or an unknown match."""
    for name in settings:
        if name not in CLIENT_METRICS:
            raise kafka_error("INVALID_REQUEST", f"Unknown client metrics configuration: {name}")
    for name, text in settings.items():
        value = parse_value(name, CLIENT_METRICS[name][1], text)
        if isinstance(value, int) and not MIN_INTERVAL_MS <= value <= MAX_INTERVAL_MS:
            raise kafka_error(
                "INVALID_REQUEST",
                f"Invalid value {value} for {name}, interval must be between {MIN_INTERVAL_MS} and {MAX_INTERVAL_MS} "
                "(1 hour)",
            )
        if name == "match" and isinstance(value, tuple):
            for pattern in value:
                _check_match(pattern)


def _check_match(pattern: str) -> None:
    selector, equals, expression = pattern.partition("=")
    if not equals or selector.strip() not in MATCH_SELECTORS or not _is_expression(expression.strip()):
        raise _illegal_match(pattern)


def _is_expression(text: str) -> bool:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _illegal_match(pattern: str) -> KafkaError:
    return invalid_config(f"Illegal client matching pattern: {pattern}")
