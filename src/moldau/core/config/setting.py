"""One setting: its row, the parsing of its text, and Kafka's error messages.

Texts follow Java: numbers may have a sign and surrounding blanks, booleans any case, lists commas. The messages are
those of Apache Kafka 4.4.0, because people search for them.
"""

from __future__ import annotations

import re
from collections.abc import Container
from decimal import Decimal

from moldau.errors import KafkaError, kafka_error

SettingValue = bool | int | float | str | tuple[str, ...] | None

SettingRow = tuple[str, str, str | None, str, str, str, str]
"""(name, type, default, valid values, scope, served, note)"""
TopicSettingRow = tuple[str, str, str | None, str, tuple[str, ...], str, str]
"""(name, type, default, valid values, broker settings it falls back to, nearest first, served, note)"""

READ_ONLY = "read-only"
CLUSTER_WIDE = "cluster-wide"
PER_BROKER = "per-broker"

HONOURED = "honoured"
IGNORED = "ignored"
"""Accepted without effect, because Moldau has nothing that it could change. The row's note gives the reason."""
NOT_SERVED = "not served yet"
"""Accepted with a notice: the feature does not exist yet, and the default behaviour misleads no one."""
REFUSED = "refused"
"""Not supported yet, and ignoring it would lose data or weaken security. Any value but the default is an error."""

TYPE_CODES = {
    "boolean": 1, "string": 2, "int": 3, "short": 4, "long": 5, "double": 6, "list": 7, "class": 8, "password": 9,
}  # fmt: skip
"""Kafka's ConfigDef types as DescribeConfigs v3+ gives them; 0: unknown."""
UNKNOWN_TYPE = 0


class Source:
    """Kafka's ConfigSource."""

    TOPIC = 1
    BROKER = 2
    CLUSTER_DEFAULT = 3
    STATIC_FILE = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)[fFdD]?")
_INTEGER_BITS = {"short": 16, "int": 32, "long": 64}
_RANGE = re.compile(r"\[(-?[0-9.]+),\.\.\.(?:,(-?[0-9.]+))?\](?: or (-?[0-9]+))?")
_LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]+\.(.+)")
_REPLICAS = re.compile(r"\*|[0-9]+:[0-9]+")
_REPLICAS_FORM = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


def without_listener(name: str, known: Container[str]) -> str:
    """`name` without `listener.name.<listener>.` and the SASL mechanism that may follow it. `known`: the names of
    settings."""
    match = _LISTENER_PREFIX.fullmatch(name) if name.startswith("listener.name.") else None
    if match is None:
        return name
    base = match.group(1)
    while base not in known and "." in base:
        base = base.partition(".")[2]
    return base if base in known else match.group(1)


def invalid_config(message: str) -> KafkaError:
    """Error 40 with a message for the client."""
    return kafka_error("INVALID_CONFIG", message)


def invalid_value(name: str, value: object, reason: str) -> KafkaError:
    """INVALID_CONFIG with the sentence that Apache Kafka has for a value that a setting cannot take."""
    text = _format_double(value) if isinstance(value, float) else value
    return invalid_config(f"Invalid value {text} for configuration {name}: {reason}")


def parse_value(name: str, kind: str, text: str) -> SettingValue:
    """The typed value of `text`, without a check of the range. Raises error 40 for a wrong type."""
    trimmed = text.strip()
    if kind in _INTEGER_BITS:
        return _parse_integer(name, kind, text, trimmed)
    if kind == "boolean":
        lowered = trimmed.lower()
        if lowered not in ("true", "false"):
            raise invalid_value(name, text, "Expected value to be either true or false")
        return lowered == "true"
    if kind == "double":
        if _FLOAT.fullmatch(trimmed) is None:
            raise invalid_value(name, text, "Not a number of type DOUBLE")
        return float(trimmed.rstrip("fFdD"))
    if kind == "list":
        return tuple(item.strip() for item in trimmed.split(",")) if trimmed else ()
    return trimmed


def _parse_integer(name: str, kind: str, text: str, trimmed: str) -> int:
    # the bound on the length keeps int() from raising for thousands of digits
    if _INTEGER.fullmatch(trimmed) is not None and len(trimmed) <= 32:
        value = int(trimmed)
        bound = 1 << (_INTEGER_BITS[kind] - 1)
        if -bound <= value < bound:
            return value
    raise invalid_value(name, text, f"Not a number of type {kind.upper()}")


def format_value(value: SettingValue) -> str | None:
    """`value` as Java writes it and DescribeConfigs shows it. As in Kafka, a list has no duplicates."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(dict.fromkeys(value))
    return _format_double(value) if isinstance(value, float) else str(value)


def _format_double(value: float) -> str:
    """As Java's Double.toString: plain from 0.001 to ten million, else one digit before the point and an exponent."""
    text = repr(value)
    if value != value or value in (float("inf"), float("-inf")):
        return text.replace("nan", "NaN").replace("inf", "Infinity")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return text
    sign, digits, exponent = Decimal(text).normalize().as_tuple()
    written = "".join(map(str, digits))
    power = int(exponent) + len(written) - 1
    return f"{'-' if sign else ''}{written[0]}.{written[1:] or '0'}E{power}"


def check_value(name: str, valid: str, value: SettingValue) -> None:
    """Raises error 40 if `value` is outside `valid`, which has the notation of the tables of settings."""
    if valid == "" or value is None:
        return
    if valid == _REPLICAS_FORM:
        _check_replicas(name, value)
    elif isinstance(value, tuple):
        _check_list(name, valid, value)
    elif isinstance(value, (int, float)):
        _check_range(name, valid, value)
    elif valid == "non-empty string" and value == "":
        raise invalid_value(name, value, "String must be non-empty")
    elif valid.startswith("(case insensitive) "):
        allowed = _choices(valid.removeprefix("(case insensitive) "))
        if value.upper() not in allowed:
            raise invalid_value(name, value, f"String must be one of (case insensitive): {', '.join(allowed)}")
    elif valid.startswith("["):
        _check_choice(name, valid, value)


def _choices(valid: str) -> tuple[str, ...]:
    return tuple(valid[1:-1].split(", "))


def _check_choice(name: str, valid: str, value: str) -> None:
    allowed = _choices(valid)
    if value not in allowed:
        raise invalid_value(name, value, f"String must be one of: {', '.join(allowed)}")


def _check_list(name: str, valid: str, value: tuple[str, ...]) -> None:
    if "" in value or (valid == "non-empty list" and not value):
        raise invalid_config(f"Configuration '{name}' values must not be empty.")
    if valid.startswith("["):
        for item in value:
            _check_choice(name, valid, item)


def _check_range(name: str, valid: str, value: float) -> None:
    match = _RANGE.fullmatch(valid)
    if match is None:
        return
    low, high, exception = match.groups()
    if exception is not None:
        if value != int(exception) and not float(low) <= value <= float(high):
            raise invalid_value(name, value, f"Value must be between {low} and {high} or equal to {exception}")
        return
    if value < float(low):
        raise invalid_value(name, value, f"Value must be at least {low}")
    if high is not None and value > float(high):
        raise invalid_value(name, value, f"Value must be no more than {high}")


def _check_replicas(name: str, value: SettingValue) -> None:
    items = value if isinstance(value, tuple) else ()
    if items == ("*",) or not any(items) or all(item != "*" and _REPLICAS.fullmatch(item) for item in items):
        return
    raise invalid_value(
        name,
        f"[{', '.join(items)}]",
        f"{name} must be the literal '*' or a list of replicas in the following format: {_REPLICAS_FORM}",
    )
