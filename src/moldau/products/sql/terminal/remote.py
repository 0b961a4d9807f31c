"""A running `moldau sql serve` as a SqlService: statements and rows over HTTP, without Spark in this process."""

from __future__ import annotations

import base64
import http.client
import json
import re
import socket
import ssl
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress

from moldau.errors import MoldauError
from moldau.products.sql.catalog.catalog import Catalog
from moldau.products.sql.engine.answers import Answer, ChangedRow, Done, Listing, Rows
from moldau.products.sql.engine.looking.session_properties import define, set_property
from moldau.products.sql.engine.looking.sight import Sight
from moldau.products.sql.engine.row_streams import BufferedRows
from moldau.products.sql.engine.session import Session
from moldau.products.sql.language.parser.script import Parsed
from moldau.products.sql.language.statements import Define, Print, RunQuery, SetProperty

ANSWER_S = 120.0
"""How long a statement may take: the first query waits for Spark."""
MAX_ANSWER_BYTES = 64_000_000
MAX_LINE_BYTES = 4_000_000
_OPENING, _CLOSING = "<([", ">)]"
_COLUMN = re.compile(r"`((?:[^`]|``)*)` (.+)", re.DOTALL)


class ServerError(MoldauError):
    """The server does not answer, or rejects a statement; the message says why."""


class RemoteSql:
    """`address`: such as http://localhost:8088, with `user:password@` before the host where the server asks for it."""

    def __init__(self, address: str) -> None:
        """Opens no connection. Raises ServerError if the address is not in this form."""
        try:
            parts = urllib.parse.urlsplit(address)
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError as error:
            raise ServerError(f"{address} is no address of a server: {error}") from error
        if parts.scheme not in ("http", "https") or not self._host or parts.path.strip("/") or parts.query:
            raise ServerError("the address of a server is http://HOST:PORT or https://HOST:PORT")
        self._is_secure = parts.scheme == "https"
        self.name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if parts.username is not None:
            login = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()

    @property
    def catalog(self) -> Catalog:
        """Empty: the server has it."""
        return Catalog()

    def run(self, parsed: Parsed, session: Session) -> Answer:
        """Raises ServerError."""
        statement = parsed.statement
        if isinstance(statement, (SetProperty, Define)):
            # they hold for the whole session, and the server knows only requests
            sight = Sight(self.catalog, session, {}, None, parsed)  # type: ignore[arg-type] # these two ask no cluster
            return define(sight, statement) if isinstance(statement, Define) else set_property(sight, statement)
        body = {"ksql": parsed.text.rstrip(";") + ";", "streamsProperties": dict(session.properties)}
        if isinstance(statement, (RunQuery, Print)):
            is_live = isinstance(statement, Print) or statement.query.emit is not None
            return Rows(statement=parsed.text, stream=self._rows(body), is_live=is_live)
        entities = self._ask("/ksql", body)
        answers = [answer_of(one) for one in entities if isinstance(one, dict)]
        return answers[0] if answers else Done(statement=parsed.text, message="done")

    def _ask(self, path: str, body: Mapping[str, object]) -> list[object]:
        with closing(self._open(ANSWER_S)) as connection:
            data = _read(self._send(connection, path, body, "application/json"), MAX_ANSWER_BYTES)
        found = json.loads(data)
        return found if isinstance(found, list) else [found]

    def _rows(self, body: Mapping[str, object]) -> BufferedRows:
        connection = self._open(ANSWER_S)
        try:
            response = self._send(connection, "/query", body, "application/x-ndjson")
            header = json.loads(_line(response))["header"]
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
            connection.close()
            raise _unreadable(self.name, error) from error
        except MoldauError:
            connection.close()
            raise
        stream = BufferedRows(str(header["queryId"]), columns_of(str(header["schema"])), ())
        sock = connection.sock
        if sock is not None:
            sock.settimeout(None)  # rows come when they come; closing ends the wait

        def read() -> None:
            while line := _line(response):
                one = json.loads(line)
                if "row" in one:
                    row = one["row"]
                    stream.put([ChangedRow(tuple(row["columns"]), bool(row.get("tombstone")))])
                elif "errorMessage" in one:
                    raise ServerError(str(one["errorMessage"].get("message")))
                elif "finalMessage" in one:
                    return
            raise ServerError(f"{self.name} ended the rows")

        def end() -> None:
            with suppress(OSError):
                if sock is not None:
                    sock.shutdown(socket.SHUT_RDWR)  # the server ends the query at once
            connection.close()

        stream.on_close(end)
        stream.make(read, str)
        return stream

    def _send(
        self, connection: http.client.HTTPConnection, path: str, body: Mapping[str, object], accept: str
    ) -> http.client.HTTPResponse:
        try:
            connection.request("POST", path, json.dumps(body).encode(), {**self._headers, "Accept": accept})
            response = connection.getresponse()
            if response.status == 200:
                return response
            data = _read(response, MAX_ANSWER_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise _unreadable(self.name, error) from error
        try:
            message = str(json.loads(data)["message"])
        except (ValueError, KeyError, TypeError):
            message = f"{self.name} answers with {response.status} {response.reason}"
        raise ServerError(message)

    def _open(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._is_secure:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=context)
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)


def answer_of(entity: Mapping[str, object]) -> Answer:
    """What an element of the response says, as a sentence or a table."""
    warnings = tuple(_text(one.get("message")) for one in _dicts(entity.get("warnings")))
    statement = _text(entity.get("statementText"))
    status = entity.get("commandStatus")
    if isinstance(status, dict):
        query = status.get("queryId")
        message = _text(status.get("message"))
        return Done(
            statement=statement, warnings=warnings, message=message, query_id=None if query is None else str(query)
        )
    if entity.get("@type") == "warning_entity":
        return Done(statement=statement, warnings=warnings, message=_text(entity.get("message")))
    fields = {name: value for name, value in entity.items() if name not in ("@type", "statementText", "warnings")}
    if len(fields) == 1:
        ((subject, listed),) = fields.items()
        if isinstance(listed, list):
            columns = tuple(dict.fromkeys(name for one in _dicts(listed) for name in one))
            rows = tuple(tuple(_text(one.get(name)) for name in columns) for one in _dicts(listed))
            return Listing(statement=statement, warnings=warnings, subject=subject, columns=columns, rows=rows)
        if isinstance(listed, dict):
            fields = listed
    rows = tuple((name, _text(value)) for name, value in fields.items() if value not in (None, "", [], {}))
    return Listing(statement=statement, warnings=warnings, subject="facts", columns=("field", "value"), rows=rows)


def columns_of(schema: str) -> list[tuple[str, str]]:
    """Names and types of "`id` BIGINT, `places` ARRAY<STRUCT<`x` INTEGER>>"."""
    found, depth, begin, is_name = [], 0, 0, False
    for place, letter in enumerate(f"{schema},"):
        if letter == "`":
            is_name = not is_name
        elif is_name:
            continue
        elif letter in _OPENING or letter in _CLOSING:
            depth += 1 if letter in _OPENING else -1
        elif letter == "," and depth == 0:
            column = _COLUMN.fullmatch(schema[begin:place].strip())
            if column is not None:
                found.append((column[1].replace("``", "`"), column[2].lower()))
            begin = place + 1
    return found


def _dicts(value: object) -> Iterator[Mapping[str, object]]:
    yield from (one for one in (value if isinstance(value, Sequence) else ()) if isinstance(one, dict))


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _read(response: http.client.HTTPResponse, most: int) -> bytes:
    data = response.read(most + 1)
    if len(data) > most:
        raise ServerError(f"the server answers with more than {most:,} bytes")
    return data


def _line(response: http.client.HTTPResponse) -> bytes:
    line = response.readline(MAX_LINE_BYTES + 1)
    if len(line) > MAX_LINE_BYTES:
        raise ServerError(f"the server sends a row of more than {MAX_LINE_BYTES:,} bytes")
    return line


def _unreadable(name: str, error: Exception) -> ServerError:
    return ServerError(f"{name} does not answer: {getattr(error, 'strerror', None) or error}")
