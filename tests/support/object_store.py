"""Stores with Amazon's protocol on this machine: moto's server, and one whose responses a test scripts."""

from __future__ import annotations

import hashlib
import io
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4
from xml.sax.saxutils import escape

import boto3
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.talking_process import TalkingProcess


def environment_of(address: str) -> dict[str, str]:
    """The environment of this store's clients."""
    return {
        "AWS_ACCESS_KEY_ID": "moldau",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": address,
        "AWS_ALLOW_HTTP": "true",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@contextmanager
def moto_server(environment: Mapping[str, str] | None = None, port: int = 0) -> Iterator[str]:
    """The address of a store without buckets. `environment`: of the server. `port`: 0 is any."""
    # a separate process: deltalake may wait for the store while it holds this interpreter's lock
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = TalkingProcess(command, environment)
    try:
        running = re.compile(r".*Running on (http://\S+)")
        assert server.wait_for(lambda line: running.match(line) is not None, time.monotonic() + 60), server.output
        (address,) = (found[1] for found in map(running.match, server.output) if found)
        yield address
    finally:
        server.kill()


class Bucket:
    """A new one, in the store that the environment names."""

    def __init__(self) -> None:
        self.name, self._client = f"b-{uuid4().hex[:12]}", boto3.client("s3", region_name="us-east-1")
        self.address = f"s3://{self.name}"
        self._client.create_bucket(Bucket=self.name)

    def put(self, key: str, content: bytes) -> None:
        self._client.put_object(Bucket=self.name, Key=key, Body=content)

    def put_table(self, key: str, table: pa.Table, **more: object) -> None:
        content = io.BytesIO()
        pq.write_table(table, content, **more)
        self.put(key, content.getvalue())

    def delete(self, key: str) -> None:
        self._client.delete_object(Bucket=self.name, Key=key)


class ScriptedStore:
    """One bucket with `objects`, by their keys, listed a thousand at a time; all of them exist before the server runs;
    `replace` changes the content of one. `fails`: called with each request's method and key ("" for a list); if it is
    true, the store answers that it is too busy. `bucket`: no other store has its name, because clients cache by name.
    `lists`: the number of answered requests for a part of the list."""

    def __init__(self, objects: Mapping[str, bytes], fails: Callable[[str, str], bool] = lambda method, key: False):
        self.objects = dict(sorted(objects.items()))
        self.keys = list(self.objects)
        self.fails = fails
        self.bucket = f"lake-{uuid4().hex[:12]}"
        self.lists = 0
        self.times = dict.fromkeys(self.objects, datetime(2026, 1, 1, tzinfo=UTC))

    def replace(self, key: str, content: bytes, *, seconds_later: int = 0) -> None:
        self.objects[key] = content
        self.times[key] += timedelta(seconds=seconds_later)

    @contextmanager
    def running(self) -> Iterator[str]:
        handler = type("Handler", (_Handler,), {"store": self})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()

    def page(self, first: int, most: int) -> bytes:
        end = min(first + most, len(self.keys))
        more = f"<NextContinuationToken>{end}</NextContinuationToken>" if end < len(self.keys) else ""
        listed = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>{self.times[key]:%Y-%m-%dT%H:%M:%S}.000Z</LastModified>"
            f"<Size>{len(self.objects[key])}</Size></Contents>"
            for key in self.keys[first:end]
        )
        return (
            f'<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>{self.bucket}</Name>'
            f"<KeyCount>{end - first}</KeyCount><IsTruncated>{str(bool(more)).lower()}</IsTruncated>{more}{listed}"
            "</ListBucketResult>"
        ).encode()


class _Handler(BaseHTTPRequestHandler):
    store: ScriptedStore
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        key, query = unquote(parts.path).removeprefix(f"/{self.store.bucket}").strip("/"), parse_qs(parts.query)
        if self.store.fails(self.command, key):
            self._answer(503, b"<Error><Code>SlowDown</Code><Message>busy</Message></Error>")
        elif not key:
            self.store.lists += 1
            (first,) = query.get("continuation-token", ["0"])
            self._answer(200, self.store.page(int(first), int(query.get("max-keys", ["1000"])[0])))
        else:
            body = self.store.objects[key]
            span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            told = {
                "ETag": f'"{hashlib.md5(body).hexdigest()}"',
                "Last-Modified": format_datetime(self.store.times[key], usegmt=True),
            }
            status, part = (206, body[int(span[1]) : int(span[2]) + 1]) if span else (200, body)
            self._answer(status, part, told)

    def _answer(self, status: int, body: bytes, headers: Mapping[str, str] = MappingProxyType({})) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_arguments: Any) -> None:
        """Silent: nothing goes to the terminal."""
