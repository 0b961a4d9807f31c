"""Sources under kills."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from moldau.connectors.datagen import DataGenerator, GeneratorReader, RowRange
from tests.support.database_tables import Tables
from tests.support.http_records import RecordServer
from tests.support.kill_subjects import PARTITIONS, Kafka, SourceSubject

PAGE = 1_000
GENERATED_A_SECOND = 2_000
SEED = 7


class FilesSource(SourceSubject):
    """Two files, of the even and the odd numbers, in two tasks. `form`: lines, json or csv."""

    tasks = 2

    def __init__(self, name: str, kafka: Kafka, folder: Path, form: str) -> None:
        super().__init__(name, kafka)
        self.folder, self.form = folder, form
        folder.mkdir()
        for part in range(PARTITIONS):
            (folder / f"{part}.txt").write_text("n\n" if form == "csv" else "")

    def config(self) -> dict[str, str]:
        own = {"connector.class": "moldau.connectors.files.connectors:Files", "path": str(self.folder)}
        columns = {} if self.form == "lines" else {"columns": "n BIGINT"}
        converter = {"value.converter": "string"} if self.form == "lines" else {}
        return {**self.plain(), **own, "format": self.form, "tasks.max": str(self.tasks), **columns, **converter}

    def add(self, first: int, end: int) -> None:
        form = '{{"n": {}}}\n' if self.form == "json" else "{}\n"
        for part in range(PARTITIONS):
            with (self.folder / f"{part}.txt").open("a") as file:
                file.write("".join(form.format(one) for one in range(first, end) if one % PARTITIONS == part))


class FileStreamSource(SourceSubject):
    def __init__(self, name: str, kafka: Kafka, folder: Path) -> None:
        super().__init__(name, kafka)
        self.file = folder / f"{name}.txt"
        self.file.touch()

    def config(self) -> dict[str, str]:
        own = {"connector.class": "moldau.connectors.files.connectors:FileStreamSource", "file": str(self.file)}
        return {**self.plain(), **own, "value.converter": "string"}

    def add(self, first: int, end: int) -> None:
        with self.file.open("a") as file:
            file.write("".join(f"{number}\n" for number in range(first, end)))


class TableSource(SourceSubject):
    """A table of PostgreSQL or SQLite. `mode`: of the connector."""

    def __init__(self, name: str, kafka: Kafka, tables: Tables, mode: str, clock: str) -> None:
        super().__init__(name, kafka)
        self.tables, self.mode, self.clock = tables, mode, clock
        self.table = f"of_{name}".replace("-", "_")
        kind = "BIGSERIAL PRIMARY KEY" if tables.is_postgresql else "INTEGER PRIMARY KEY"
        changed = "TIMESTAMP" if tables.is_postgresql else "TEXT"
        tables.ask(f"CREATE TABLE {self.table} (id {kind}, n BIGINT, changed {changed})")

    def config(self) -> dict[str, str]:
        columns = {"incrementing.column.name": "id"} if "incrementing" in self.mode else {}
        columns |= {"timestamp.column.name": "changed"} if "timestamp" in self.mode else {}
        more = {"mode": self.mode, "table.whitelist": self.table, "batch.max.rows": str(PAGE)}
        return {**self.plain(), **self.tables.settings, **more, **columns}

    def add(self, first: int, end: int) -> None:
        values = ", ".join(f"({number}, {self.clock})" for number in range(first, end))
        self.tables.ask(f"INSERT INTO {self.table} (n, changed) VALUES {values}")


class HttpSource(SourceSubject):
    number = "id"

    def __init__(self, name: str, kafka: Kafka, server: RecordServer) -> None:
        super().__init__(name, kafka)
        self.server = server
        server.page = PAGE

    def config(self) -> dict[str, str]:
        own = {"connector.class": "moldau.connectors.http.connector:Http", "url": f"{self.server.url}/since"}
        cursor = {"cursor.param": "after", "cursor.pointer": "/id", "cursor.of": "record"}
        return {**self.plain(), **own, **cursor, "poll.interval.ms": "100"}

    def add(self, first: int, end: int) -> None:
        self.server.add(end - first)


class GeneratorSource(SourceSubject):
    """It makes its rows itself; their numbers are their places in what the generator gives in one go."""

    def config(self) -> dict[str, str]:
        own = {"connector.class": "moldau.connectors.datagen:DataGenerator", "rows.per.second": str(GENERATED_A_SECOND)}
        return {**self.plain(), **own, **self.options()}

    @staticmethod
    def options() -> dict[str, str]:
        return {"columns": "n BIGINT, name STRING", "seed": str(SEED)}

    def add(self, first: int, end: int) -> None:
        """The next rows come by themselves."""

    def feed(self, count: int) -> None:
        self.fed = self.count() + count

    def arrived(self) -> Iterable[tuple[object, int]]:
        schema = DataGenerator(self.options()).schema()
        rows = GeneratorReader(schema, SEED, (0, 1), 0.0, None).read(RowRange(0, self.count()))
        places = {row: place for place, row in enumerate(rows)}
        for message in self.topic.read():
            value = json.loads(message.value() or b"")
            yield message.partition(), places.get((value["n"], value["name"]), -1)

    def judge(self) -> list[str]:
        self.fed = self.count()
        return super().judge()
