"""Sinks under kills."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import boto3
import fastavro
import pyarrow.parquet as pq

from tests.support.database_tables import Tables
from tests.support.http_records import RecordServer
from tests.support.kill_subjects import KEYS, Kafka, SinkSubject

LOGIN = {"access.key.id": "someone", "secret.access.key": "s3cret"}


class FilesSink(SinkSubject):
    """`is_folder`: a file for each batch. `form`: json or csv; "stream": the class FileStreamSink."""

    def __init__(self, name: str, kafka: Kafka, folder: Path, form: str, *, is_folder: bool) -> None:
        super().__init__(name, kafka)
        self.form, self.is_folder = form, is_folder
        self.path = folder / name
        if is_folder:
            self.path.mkdir()

    def config(self) -> dict[str, str]:
        if self.form == "stream":
            own = {"connector.class": "moldau.connectors.files.connectors:FileStreamSink", "file": str(self.path)}
            return {**self.plain(), **own}
        own = {"connector.class": "moldau.connectors.files.connectors:Files", "path": str(self.path)}
        return {**self.plain(), **own, "format": self.form}

    def arrived(self) -> Iterable[tuple[object, int]]:
        files = [self.path] if self.path.is_file() else []
        if self.is_folder:
            # the name ends with slot and batch
            files = sorted(
                self.path.glob("part-*"), key=lambda one: [int(n) for n in re.findall(r"\d+", one.stem)[-2:]]
            )
        for file in files:
            text = file.read_text()
            rows = csv.DictReader(io.StringIO(text)) if self.form == "csv" else map(json.loads, text.splitlines())
            yield from (("", int(row["n"])) for row in rows)


class TableSink(SinkSubject):
    """Inserted rows, of PostgreSQL or SQLite."""

    columns = "n BIGINT, k BIGINT"

    def __init__(self, name: str, kafka: Kafka, tables: Tables) -> None:
        super().__init__(name, kafka)
        self.tables, self.table = tables, name
        if tables.is_postgresql:  # which uses the places of old rows again, so that ctid has no order
            tables.ask(f'CREATE TABLE "{name}" ({self.columns}, place BIGSERIAL)')

    def config(self) -> dict[str, str]:
        return {**self.plain(), **self.tables.settings, "table.name.format": self.table, "auto.create": "true"}

    def has_table(self) -> bool:
        catalog = "pg_class WHERE relname" if self.tables.is_postgresql else "sqlite_master WHERE name"
        return bool(self.tables.ask(f"SELECT 1 FROM {catalog} = '{self.table}'"))

    def arrived(self) -> Iterable[tuple[object, int]]:
        order = "place" if self.tables.is_postgresql else "rowid"
        if self.has_table():
            yield from (("", n) for (n,) in self.tables.ask(f'SELECT n FROM "{self.table}" ORDER BY {order}'))


class KeyedTableSink(TableSink):
    """A row for each key: it has the newest number."""

    columns = "n BIGINT, k BIGINT PRIMARY KEY"

    def config(self) -> dict[str, str]:
        return {**super().config(), "insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "k"}

    def rows(self) -> dict[int, int]:
        return dict(self.tables.ask(f'SELECT k, n FROM "{self.table}"')) if self.has_table() else {}

    def expected(self) -> dict[int, int]:
        return {number % KEYS: number for number in range(self.fed)}

    def has_all(self) -> bool:
        return self.rows() == self.expected()

    def judge(self) -> list[str]:
        found, expected = self.rows(), self.expected()
        wrong = [key for key in expected if found.get(key) != expected[key]]
        return [f"{self.name} has {len(wrong)} wrong rows, such as {wrong[:3]}"] * (found != expected)


class HttpSink(SinkSubject):
    """At least once; without the requests that have the name of an earlier one, exactly once."""

    is_exact = False

    def __init__(self, name: str, kafka: Kafka, server: RecordServer) -> None:
        super().__init__(name, kafka)
        self.server = server

    def config(self) -> dict[str, str]:
        return {**self.plain(), "connector.class": "moldau.connectors.http.connector:Http", "url": self.server.url}

    def arrived(self) -> Iterable[tuple[object, int]]:
        for _, body in list(self.server.taken):
            yield from (("", json.loads(line)["n"]) for line in body.splitlines())

    def judge(self) -> list[str]:
        named = {headers["Idempotency-Key"]: body for headers, body in self.server.taken}
        once = sorted(json.loads(line)["n"] for body in named.values() for line in body.splitlines())
        faults = [f"{self.name}: requests of different names have the same records"] * (once != list(range(self.fed)))
        return super().judge() + faults


class S3Sink(SinkSubject):
    """`form`: parquet, avro or json."""

    def __init__(self, name: str, kafka: Kafka, address: str, form: str) -> None:
        super().__init__(name, kafka)
        self.address, self.form = address, form
        login = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
        self._client: Any = boto3.client("s3", endpoint_url=address, **login)
        self._client.create_bucket(Bucket=name)
        self._objects: dict[str, bytes] = {}

    def config(self) -> dict[str, str]:
        own = {"connector.class": "moldau.connectors.s3.connector:S3", "bucket": self.name, "endpoint": self.address}
        return {**self.plain(), **own, **LOGIN, "format": self.form}

    def arrived(self) -> Iterable[tuple[object, int]]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        for key in sorted(one["Key"] for page in pages for one in page.get("Contents", [])):
            content = self._client.get_object(Bucket=self.name, Key=key)["Body"].read()
            yield from (("", row["n"]) for row in self._rows(content))

    def _rows(self, content: bytes) -> Iterable[Any]:
        match self.form:
            case "parquet":
                return pq.read_table(io.BytesIO(content)).to_pylist()
            case "avro":
                return fastavro.reader(io.BytesIO(content))
        return map(json.loads, content.splitlines())
