"""An HTTP server with a list of records, in pages, that also takes records, and misbehaves when a test says so."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

STALL, RESET, CUT, NO_JSON, TWO_SERVERS = "stall", "reset", "cut", "no JSON", "two servers"
STALL_S = 30


class RecordServer(ThreadingHTTPServer):
    """`records`: objects with an id that grows. Pages by `/since` (the cursor is the id of the last record), `/token`
    (the page has the next cursor), `/links` (header Link), `/list` (all).

    `faults`: what the next requests get: a status, or one of the words above. `refuses`: a POST with this text gets
    422. `taken`: the bodies and headers of accepted POSTs. `asked`: the targets of GETs. `has_failed`: a fault was met.
    """

    daemon_threads = True

    def __init__(self, page: int = 3) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.page = page
        self.records: list[dict[str, Any]] = []
        self.faults: list[int | str] = []
        self.retry_after = "0"
        self.refuses = "no such text"
        self.taken: list[tuple[dict[str, str], bytes]] = []
        self.asked: list[str] = []
        self.authorizations: list[str | None] = []
        self.ends = threading.Event()
        self.has_failed = threading.Event()

    def add(self, count: int) -> None:
        first = len(self.records)
        self.records += [{"id": number, "name": f"n{number}"} for number in range(first, first + count)]

    @contextmanager
    def running(self) -> Iterator[RecordServer]:
        thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.ends.set()
            self.shutdown()
            self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Silent: clients that give up are what tests are about."""


class _Handler(BaseHTTPRequestHandler):
    server: RecordServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.server.authorizations.append(self.headers.get("Authorization"))
        fault = self.server.faults.pop(0) if self.server.faults else None
        if fault is not None and fault != TWO_SERVERS:
            self._fail(fault)
            return
        parts = urlsplit(self.path)
        after = (parse_qs(parts.query).get("after") or [None])[0]
        size, records = self.server.page, self.server.records
        first = 0 if after is None else int(after) + (parts.path == "/since")
        page, end = records[first : first + size], first + size
        headers = {}
        body: object = page
        if parts.path == "/list":
            body = {"data": {"all": records}}
        elif parts.path == "/token":
            body = {"data": page, "next": end if end < len(records) else None}
        elif parts.path == "/links":
            other = "http://127.0.0.1:1" if fault == TWO_SERVERS else ""
            if end < len(records):
                headers = {"Link": f'</first>; rel="first", <{other}/links?after={end}>; rel="next"'}
        self._answer(200, json.dumps(body).encode(), headers)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        fault = self.server.faults.pop(0) if self.server.faults else None
        if fault is not None:
            self._fail(fault)
        elif self.server.refuses.encode() in body:
            self._answer(422, b"this one\nis bad", {})
        else:
            self.server.taken.append((dict(self.headers), body))
            self._answer(204, b"", {})

    def _fail(self, fault: int | str) -> None:
        self.close_connection = True
        self.server.has_failed.set()
        if fault == STALL:
            self.server.ends.wait(STALL_S)
        elif fault == CUT:
            self.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[{"id": 0')
        elif fault == NO_JSON:
            self._answer(200, b"<html>maintenance</html>", {})
        elif isinstance(fault, int):
            more = {"Location": f"{self.server.url}/since?secret=1"} if 300 <= fault < 400 else {}
            self._answer(fault, b"busy", {"Retry-After": self.server.retry_after, **more})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Silent: nothing goes to the terminal."""
