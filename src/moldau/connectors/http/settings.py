"""The settings of the connector `http`, and what their texts mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from moldau.connect.configuration import (
    ConfigError,
    Importance,
    Kind,
    Secret,
    Setting,
    in_range,
    one_of,
    parse,
    wrong,
)
from moldau.connect.contract.shared_settings import CONNECTOR, POLL_INTERVAL
from moldau.connectors.http.pages import HEADER, PAGE, RECORD, Paging, parse_pointer
from moldau.connectors.http.requests import Server, parse_url

LINES, ARRAY, SINGLE = "lines", "array", "single"
DEFAULT_POLL_MS: Final = 1_000
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN: Final = {"host", "content-length", "connection", "transfer-encoding"}


def _url(name: str, value: object) -> None:
    try:
        parse_url(str(value))
    except ValueError as error:
        raise ValueError(wrong(name, value, f"It {error}")) from None


def _pointer(name: str, value: object) -> None:
    try:
        parse_pointer(str(value))
    except ValueError as error:
        raise ValueError(wrong(name, value, str(error))) from None


def _next_page(name: str, value: object) -> None:
    if value != HEADER:
        _pointer(name, value)


def _headers(name: str, value: object) -> None:
    parse_headers(name, value)


def _header_name(name: str, value: object) -> None:
    if value and not _TOKEN.fullmatch(str(value)):
        raise ValueError(wrong(name, value, "Not the name of a header"))


def _header_value(name: str, value: object) -> None:
    if isinstance(value, Secret) and not is_header_value(value.text):
        raise ValueError(wrong(name, value, "A header is one line, of Latin-1 characters"))


def is_header_value(text: str) -> bool:
    return re.fullmatch(r"[\x20-\x7e\xa0-\xff]*", text) is not None


def parse_headers(name: str, value: object) -> dict[str, str]:
    """Headers of a text with a header on each line. Raises ValueError, without the text of a secret."""
    made: dict[str, str] = {}
    for number, line in enumerate((value.text if isinstance(value, Secret) else str(value)).splitlines(), 1):
        if not line.strip():
            continue
        header, colon, text = line.partition(":")
        header, text = header.strip(), text.strip()
        if not colon or not _TOKEN.fullmatch(header) or not is_header_value(text):
            raise ValueError(f"Invalid value for configuration {name}: line {number} is not 'Name: value'")
        if header.lower() in _OWN:
            raise ValueError(f"Invalid value for configuration {name}: {header} is set by the connector")
        made[header] = text
    return made


SETTINGS: Final = (
    Setting(
        "url", Kind.STRING, importance=Importance.HIGH, documentation="https:// or http:// and a host.", check=_url
    ),
    Setting("headers", Kind.STRING, "", documentation="More headers, one a line: Name: value.", check=_headers),
    Setting("secret.headers", Kind.PASSWORD, Secret(""), documentation="Headers that are not shown.", check=_headers),
    Setting(
        "authorization",
        Kind.PASSWORD,
        None,
        Importance.HIGH,
        "The header Authorization, such as Bearer and a token.",
        check=_header_value,
    ),
    Setting(
        "https.ca.location", Kind.STRING, "", Importance.LOW, "A PEM file of authorities. Empty: those of the system."
    ),
    Setting(
        "request.timeout.ms",
        Kind.INT,
        30_000,
        documentation="From the connection to the last byte of the answer.",
        check=in_range(1),
    ),
    Setting(
        "retry.timeout.ms",
        Kind.INT,
        60_000,
        documentation="How long a request is sent again while the server is away, busy or fails.",
        check=in_range(0),
    ),
    # of a source
    Setting("records.pointer", Kind.STRING, "", documentation="JSON pointer to the list of records.", check=_pointer),
    Setting(
        "columns", Kind.STRING, "", documentation="The columns of records, as DDL. Empty: values without a schema."
    ),
    Setting("cursor.param", Kind.STRING, "", documentation="The parameter of the query that has the cursor."),
    Setting("cursor.pointer", Kind.STRING, "", documentation="JSON pointer to the next cursor.", check=_pointer),
    Setting(
        "cursor.of",
        Kind.STRING,
        PAGE,
        documentation="Where cursor.pointer points from: the page or its last record.",
        check=one_of(PAGE, RECORD),
    ),
    Setting("cursor.initial", Kind.STRING, None, documentation="The cursor of the first request. Unset: without one."),
    Setting(
        "next.page",
        Kind.STRING,
        "",
        documentation="JSON pointer to the link of the next page, or header, for the header Link.",
        check=_next_page,
    ),
    # of a sink
    Setting(
        "method",
        Kind.STRING,
        "POST",
        documentation="The method of a sink's requests.",
        check=one_of("POST", "PUT", "PATCH"),
    ),
    Setting(
        "body.format",
        Kind.STRING,
        LINES,
        documentation="lines: a JSON value on each line. array: a JSON array. single: a request for each record.",
        check=one_of(LINES, ARRAY, SINGLE),
    ),
    Setting("batch.max.size", Kind.INT, 100, documentation="Records of a request, at most.", check=in_range(1, 10_000)),
    Setting(
        "body.max.bytes",
        Kind.INT,
        1 << 20,
        Importance.LOW,
        "Bytes of a request. A larger record is a request by itself.",
        check=in_range(1, 64 << 20),
    ),
    Setting(
        "idempotency.header",
        Kind.STRING,
        "Idempotency-Key",
        Importance.LOW,
        "The header that names a request, also when it is repeated. Empty: none.",
        check=_header_name,
    ),
)

POLL: Final = replace(next(one for one in CONNECTOR if one.name == POLL_INTERVAL), default=DEFAULT_POLL_MS)
"""The common setting, with another default: from a page without new records to the next request."""


def parse_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """Raises ConfigError."""
    values: dict[str, Any] = parse((*SETTINGS, POLL), options)
    has_cursor = bool(values["cursor.param"] or values["cursor.pointer"])
    if has_cursor and values["next.page"]:
        raise ConfigError({"next.page": ("next.page and cursor.param are two ways to page: set one of them.",)})
    for name, other in (("cursor.param", "cursor.pointer"), ("cursor.pointer", "cursor.param")):
        if not values[name] and values[other]:
            raise ConfigError({name: (f'Missing required configuration "{name}": {other} is set.',)})
    if values["cursor.initial"] is not None and not has_cursor:
        raise ConfigError({"cursor.initial": ("cursor.initial needs cursor.param and cursor.pointer.",)})
    return values


def server_of(values: Mapping[str, Any], more: Mapping[str, str]) -> Server:
    """`more`: headers that the settings may replace."""
    headers = {
        **more,
        **parse_headers("headers", values["headers"]),
        **parse_headers("secret.headers", values["secret.headers"] or ""),
    }
    if values["authorization"] is not None:
        headers["Authorization"] = values["authorization"].text
    return Server(
        parse_url(values["url"]),
        _last_of_each(headers),
        values["request.timeout.ms"],
        values["retry.timeout.ms"],
        values["https.ca.location"],
    )


def paging_of(values: Mapping[str, Any]) -> Paging:
    next_page = values["next.page"]
    return Paging(
        parse_url(values["url"]),
        parse_pointer(values["records.pointer"]),
        values["cursor.param"],
        parse_pointer(values["cursor.pointer"]) if values["cursor.pointer"] else None,
        values["cursor.of"],
        None if not next_page else HEADER if next_page == HEADER else parse_pointer(next_page),
    )


def _last_of_each(headers: Mapping[str, str]) -> dict[str, str]:
    """Names of headers have no case."""
    names = {name.lower(): name for name in headers}
    return {name: headers[name] for name in names.values()}
