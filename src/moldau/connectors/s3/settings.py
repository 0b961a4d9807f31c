"""The settings of the connector `s3`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from moldau.connect.configuration import (
    ConfigError,
    Importance,
    Kind,
    Setting,
    in_range,
    one_of,
    parse,
    wrong,
)
from moldau.connectors.s3.formats import COMPRESSIONS
from moldau.connectors.s3.layout import GRANULARITIES

MAX_ROTATE_ROWS: Final = 1_000_000
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")


def _bucket(name: str, value: object) -> None:
    if not _BUCKET.fullmatch(str(value)):
        raise ValueError(wrong(name, value, "Not the name of a bucket; folders are in prefix"))


def _endpoint(name: str, value: object) -> None:
    parts = urlsplit(str(value))
    if value and (parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query):
        raise ValueError(wrong(name, value, "Expected https:// or http://, a host and a port"))


def _prefix(name: str, value: object) -> None:
    text = str(value)
    if text.startswith("/") or "//" in text or not text.isprintable():
        raise ValueError(wrong(name, value, "Expected folders such as lake/orders"))


SETTINGS: Final = (
    Setting("bucket", Kind.STRING, importance=Importance.HIGH, documentation="An existing bucket.", check=_bucket),
    Setting("prefix", Kind.STRING, "", documentation="The folder of all objects, such as lake/raw.", check=_prefix),
    Setting(
        "endpoint",
        Kind.STRING,
        "",
        documentation="The address of a store other than Amazon's, such as http://127.0.0.1:9000.",
        check=_endpoint,
    ),
    Setting("region", Kind.STRING, "", documentation="The region. Empty: of the environment, or us-east-1."),
    Setting(
        "path.style",
        Kind.BOOLEAN,
        True,
        Importance.LOW,
        "With endpoint: whether the bucket is in the path of addresses. false: it is in the name of the host.",
    ),
    Setting("access.key.id", Kind.PASSWORD, None, documentation="Unset: credentials of the environment."),
    Setting("secret.access.key", Kind.PASSWORD, None, documentation="The key of access.key.id."),
    Setting("session.token", Kind.PASSWORD, None, Importance.LOW, "Of temporary credentials."),
    Setting(
        "format",
        Kind.STRING,
        "parquet",
        Importance.HIGH,
        "parquet, avro, or json: a JSON value on each line.",
        check=one_of(*COMPRESSIONS),
    ),
    Setting(
        "compression",
        Kind.STRING,
        "",
        documentation="; ".join(f"{name}: {', '.join(some)}" for name, some in COMPRESSIONS.items())
        + ". Empty: the first.",
    ),
    Setting(
        "with.record",
        Kind.BOOLEAN,
        False,
        documentation="Writes key, topic, partition, offset, timestamp and headers, and the value as one column.",
    ),
    Setting("partition.fields", Kind.LIST, (), documentation="Fields of the value that make folders, as field=value."),
    Setting(
        "partition.time",
        Kind.STRING,
        "none",
        documentation="Folders by time in UTC, such as year=2026/month=01/day=31.",
        check=one_of(*GRANULARITIES),
    ),
    Setting("time.field", Kind.STRING, "", documentation="The field with the time. Empty: the record's timestamp."),
    Setting(
        "rotate.max.rows",
        Kind.INT,
        100_000,
        documentation="Rows of an object, at most. A batch never shares an object with another.",
        check=in_range(1, MAX_ROTATE_ROWS),
    ),
    Setting(
        "request.timeout.ms",
        Kind.INT,
        30_000,
        Importance.LOW,
        "How long a request waits for a store that stands still.",
        check=in_range(1_000),
    ),
    Setting(
        "retry.max.attempts",
        Kind.INT,
        5,
        Importance.LOW,
        "How often a request is sent that the store does not answer, or answers with a failure.",
        check=in_range(1, 20),
    ),
)


def parse_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """Raises ConfigError."""
    values: dict[str, Any] = parse(SETTINGS, options)
    allowed = COMPRESSIONS[values["format"]]
    if values["compression"] and values["compression"] not in allowed:
        reason = f"The format {values['format']} takes {', '.join(allowed)}"
        raise ConfigError({"compression": (wrong("compression", values["compression"], reason),)})
    for name, other in (("access.key.id", "secret.access.key"), ("secret.access.key", "access.key.id")):
        if values[name] is None and values[other] is not None:
            raise ConfigError({name: (f'Missing required configuration "{name}": {other} is set.',)})
    if values["time.field"] and values["partition.time"] == "none":
        raise ConfigError({"time.field": ("time.field needs partition.time.",)})
    return values
