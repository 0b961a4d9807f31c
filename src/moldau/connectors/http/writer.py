"""The sink: tasks send their rows, in requests of several records.

A request has a name for a server that keeps names: the connector and slot (on Spark the query), the batch, the part,
the number of the request, and a digest of the body. A repeated batch has the same names, and a request with other
records never has the name of an earlier one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StringType, StructType

from moldau.connectors.http.requests import HttpError, RejectedError, Requester, Server
from moldau.connectors.http.settings import ARRAY, LINES, SINGLE
from moldau.connectors.json_values import free_text, json_maker, json_text, to_json
from moldau.connectors.written_batch import written_batch

CONTENT_TYPES: Final = {LINES: "application/x-ndjson", ARRAY: "application/json", SINGLE: "application/json"}
OF_RECORDS: Final = (400, 409, 413, 422)
"""Statuses that may be about one record of a request, and not about all of them."""
DIGEST_CHARACTERS: Final = 16


class RecordError(HttpError):
    """A record that the server rejected, or that has no form in JSON, in a query of Spark."""


@dataclass(frozen=True, slots=True)
class Sending:
    server: Server
    method: str
    body_format: str
    max_records: int
    max_bytes: int
    name_header: str


@dataclass
class Sent(WriterCommitMessage):
    """`rejected`: places of rows, and reasons."""

    requests: int = 0
    records: int = 0
    rejected: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Part:
    """A record of a request. `row`: its place in the batch. `place`: in the topic, or in the batch."""

    body: bytes
    row: int
    place: str


class HttpWriter(DataSourceStreamWriter):
    """`is_record`: the rows have the columns of records; otherwise a row is a value."""

    def __init__(self, sending: Sending, schema: StructType, is_record: bool) -> None:
        self._sending = sending
        self._schema = schema
        self._is_record = is_record

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Raises HttpError."""
        sending, batch = self._sending, written_batch()
        name = "" if batch is None else f"{batch.query}-{batch.batch}-{batch.part}"
        requests = _Requests(sending, name)
        parts: list[_Part] = []
        size = 0
        most = 1 if sending.body_format == SINGLE else sending.max_records
        for part in self._parts(iterator, requests.sent):
            if parts and (len(parts) >= most or size + len(part.body) > sending.max_bytes):
                requests.send(parts)
                parts, size = [], 0
            parts.append(part)
            size += len(part.body) + 1
        if parts:
            requests.send(parts)
        return requests.sent

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """`write` has sent all. Raises RecordError on Spark, which does not know of rejected rows."""
        if written_batch() is None:
            for message in messages:
                for _, reason in message.rejected if isinstance(message, Sent) else ():
                    raise RecordError(reason)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """What a server has taken stays there."""

    def _parts(self, rows: Iterator[Any], sent: Sent) -> Iterator[_Part]:
        make, place_of = self._maker()
        for index, row in enumerate(rows):
            place = place_of(row, index + 1)
            try:
                body = make(row)
            except ValueError as error:
                sent.rejected.append((index, f"{place} has no form in JSON: {error}"))
                continue
            yield _Part(body, index, place)

    def _maker(self) -> tuple[Callable[[Any], bytes], Callable[[Any, int], str]]:
        if not self._is_record:
            to_object = json_maker(self._schema)
            return lambda row: to_json(to_object(row)).encode(), lambda row, number: f"row {number} of the batch"
        names = {name: index for index, name in enumerate(self._schema.names)}
        value, topic, partition, offset = (names[name] for name in ("value", "topic", "partition", "offset"))
        kind = self._schema["value"].dataType
        make: Callable[[Any], bytes]
        if isinstance(kind, BinaryType | StringType):
            text = free_text if self._sending.body_format == SINGLE else json_text
            make = lambda row: text(row[value])  # noqa: E731
        else:
            to_value = json_maker(kind)
            make = lambda row: to_json(to_value(row[value])).encode()  # noqa: E731
        return make, lambda row, number: f"The record {row[topic]}-{row[partition]} at offset {row[offset]}"


class _Requests:
    def __init__(self, sending: Sending, name: str) -> None:
        self._sending = sending
        self._requester = Requester(sending.server)
        self._name = name
        self.sent = Sent()

    def send(self, parts: list[_Part]) -> None:
        number = self.sent.requests
        self.sent.requests += 1
        try:
            self._send(parts, str(number))
            return
        except RejectedError as error:
            if error.status not in OF_RECORDS:
                raise
            if len(parts) == 1:
                self._reject(parts[0], error)
                return
        # the server took none of them: one request for each record says which it rejects
        for index, part in enumerate(parts):
            try:
                self._send([part], f"{number}.{index}")
            except RejectedError as error:
                if error.status not in OF_RECORDS:
                    raise
                self._reject(part, error)

    def _send(self, parts: list[_Part], number: str) -> None:
        sending = self._sending
        body = _join([one.body for one in parts], sending.body_format)
        headers = {}
        if "content-type" not in {name.lower() for name in sending.server.headers}:
            headers["Content-Type"] = CONTENT_TYPES[sending.body_format]
        if sending.name_header and self._name:
            digest = hashlib.sha256(body).hexdigest()[:DIGEST_CHARACTERS]
            headers[sending.name_header] = f"{self._name}-{number}-{digest}"
        self._requester.send(sending.method, sending.server.address, headers, body)
        self.sent.records += len(parts)

    def _reject(self, part: _Part, error: RejectedError) -> None:
        self.sent.rejected.append((part.row, f"{part.place} was rejected: {error}"))


def _join(bodies: list[bytes], body_format: str) -> bytes:
    if body_format == ARRAY:
        return b"[" + b",".join(bodies) + b"]"
    if body_format == LINES:
        return b"".join(body + b"\n" for body in bodies)
    return bodies[0]
