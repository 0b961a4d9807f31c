"""Rows of a query as text, in each form that a client may ask for by the Accept header."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from moldau.products.sql.engine.answers import ChangedRow
from moldau.products.sql.serving.http.errors import generic_error
from moldau.products.sql.serving.http.schemas import ksql_type, schema_text
from moldau.products.sql.serving.http.values import encoded, json_values

JSON, KSQL_JSON = "application/json", "application/vnd.ksql.v1+json"
LINES, DELIMITED, EVENTS = "application/x-ndjson", "application/vnd.ksqlapi.delimited.v1", "text/event-stream"


class Header(msgspec.Struct, frozen=True):
    """`columns`: names and Spark types."""

    query_id: str
    columns: tuple[tuple[str, str], ...]


class Form:
    """ksqlDB's array of objects, one a line, so that a client may read lines too."""

    media_type: ClassVar[str] = JSON
    idle: ClassVar[bytes] = b"\n"
    """Sent when no row has come for long; changes nothing for the reader."""

    def header(self, header: Header) -> bytes:
        return b"[" + encoded({"header": _header(header)}) + b",\n"

    def row(self, row: ChangedRow) -> bytes:
        return encoded({"row": _row(row)}) + b",\n"

    def error(self, code: int, message: str) -> bytes:
        """The end, if the query has failed."""
        return encoded({"errorMessage": generic_error(code, message)}) + b"]\n"

    def end(self, message: str) -> bytes:
        return encoded({"finalMessage": message}) + b"]\n"


class VersionedForm(Form):
    media_type = KSQL_JSON


class LinesForm(Form):
    """The same objects, one a line, without the array."""

    media_type = LINES
    idle = b""

    def header(self, header: Header) -> bytes:
        return encoded({"header": _header(header)}) + b"\n"

    def row(self, row: ChangedRow) -> bytes:
        return encoded({"row": _row(row)}) + b"\n"

    def error(self, code: int, message: str) -> bytes:
        return encoded({"errorMessage": generic_error(code, message)}) + b"\n"

    def end(self, message: str) -> bytes:
        return encoded({"finalMessage": message}) + b"\n"


class EventsForm(Form):
    """Server-sent events: `header`, `row`, `error`, `end`."""

    media_type = EVENTS
    idle = b":\n\n"

    def header(self, header: Header) -> bytes:
        return _event(b"header", _header(header))

    def row(self, row: ChangedRow) -> bytes:
        return _event(b"row", _row(row))

    def error(self, code: int, message: str) -> bytes:
        return _event(b"error", generic_error(code, message))

    def end(self, message: str) -> bytes:
        return _event(b"end", {"finalMessage": message})


class DelimitedForm(Form):
    """Of /query-stream: an object with the columns, then an array for each row. Deleted rows are left out, as ksqlDB
    does: the arrays cannot tell them apart."""

    media_type = DELIMITED
    idle = b""

    def header(self, header: Header) -> bytes:
        return encoded(_columns(header)) + b"\n"

    def row(self, row: ChangedRow) -> bytes:
        return b"" if row.is_deleted else encoded(json_values(row.values)) + b"\n"

    def error(self, code: int, message: str) -> bytes:
        return encoded(generic_error(code, message)) + b"\n"

    def end(self, message: str) -> bytes:
        return b""


class ArrayForm(DelimitedForm):
    """The same as one array."""

    media_type = JSON
    idle = b"\n"

    def header(self, header: Header) -> bytes:
        return b"[" + encoded(_columns(header))

    def row(self, row: ChangedRow) -> bytes:
        return b"" if row.is_deleted else b",\n" + encoded(json_values(row.values))

    def error(self, code: int, message: str) -> bytes:
        return b",\n" + encoded(generic_error(code, message)) + b"]\n"

    def end(self, message: str) -> bytes:
        return b"]\n"


QUERY_FORMS = (Form(), VersionedForm(), LinesForm(), EventsForm())
STREAM_FORMS = (DelimitedForm(), ArrayForm(), VersionedForm(), LinesForm(), EventsForm())


def form_for(accept: str, forms: Sequence[Form]) -> Form:
    """The first form that `accept`, the header, names, in its order; the first one of all if it names none."""
    wanted = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    known = {form.media_type: form for form in reversed(forms)}
    return next((known[one] for one in wanted if one in known), forms[0])


def _header(header: Header) -> dict[str, str]:
    return {"queryId": header.query_id, "schema": schema_text(header.columns)}


def _row(row: ChangedRow) -> dict[str, object]:
    found: dict[str, object] = {"columns": json_values(row.values)}
    return {**found, "tombstone": True} if row.is_deleted else found


def _columns(header: Header) -> dict[str, object]:
    return {
        "queryId": header.query_id,
        "columnNames": [name for name, _ in header.columns],
        "columnTypes": [ksql_type(spark).text for _, spark in header.columns],
    }


def _event(name: bytes, data: object) -> bytes:
    return b"event: " + name + b"\ndata: " + encoded(data) + b"\n\n"
