"""Connectors of a user's own file. Each stops at a gate (tests/support/gate.py), where a test kills or freezes its
task."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    SimpleDataSourceStreamReader,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType
from pyspark.taskcontext import TaskContext

from moldau.connect.handling.stages import RetriableError


def wait_at(gate: str) -> None:
    """`gate`: a named pipe, or empty for none. Waits until the test opens it."""
    if gate:
        Path(gate + ".reached").touch()
        Path(gate).read_bytes()


class Lines(DataSource):
    """The lines of `file` as whole records. Waits at `gate` before the line `gate.line`."""

    delivery = "exactly-once"

    def schema(self) -> str:
        return (
            "topic STRING, partition INT, key BINARY, value BINARY, "
            "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, timestamp TIMESTAMP"
        )

    def streamReader(self, schema: Any) -> LineReader:  # noqa: N802 - Spark's name
        return LineReader(dict(self.options))


class LineReader(DataSourceStreamReader):
    """With Spark 4.1's `latestOffset`, which takes nothing."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"line": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802
        return {"line": len(Path(self.options["file"]).read_bytes().splitlines())}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition((start["line"], end["line"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        start, end = partition.value
        lines = Path(self.options["file"]).read_bytes().splitlines()
        for number in range(start, end):
            if number == int(self.options.get("gate.line", "-1")):
                wait_at(self.options["gate"])
            yield (self.options["to"], None, str(number).encode(), lines[number], [("n", b"1")], None)

    def commit(self, end: dict[str, int]) -> None:
        Path(self.options["file"] + ".committed").write_text(str(end["line"]))


class Numbers(DataSource):
    """A simple reader of the numbers below `count`, with a bound for each read."""

    key_columns = ("n",)

    def schema(self) -> str:
        return "n INT, text STRING"

    def simpleStreamReader(self, schema: Any) -> NumberReader:  # noqa: N802
        return NumberReader(int(self.options["count"]))


class NumberReader(SimpleDataSourceStreamReader):
    def __init__(self, count: int) -> None:
        self.count = count

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"n": 0}

    def read(self, start: dict[str, int], limit: Any = None) -> tuple[Iterator[tuple[Any, ...]], dict[str, int]]:
        most = self.count if limit is None else limit.max_rows
        end = min(self.count, start["n"] + most)
        return ((n, f"number {n}") for n in range(start["n"], end)), {"n": end}

    def commit(self, end: dict[str, int]) -> None:
        pass


class Table(DataSource):
    """A batch reader of two partitions with `count` rows each. Waits at `gate` before the row `gate.row` of the last
    one."""

    is_repeatable = True

    def schema(self) -> str:
        return "part INT, row INT"

    def reader(self, schema: Any) -> TableReader:
        return TableReader(dict(self.options))


class TableReader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int]]:
        ballast = b"x" * (int(self.options.get("ballast.mb", "0")) << 20)
        for row in range(int(self.options["count"])):
            if partition.value == 1 and row == int(self.options.get("gate.row", "-1")):
                wait_at(self.options["gate"])
            yield (partition.value, row + len(ballast[:0]))


class Files(DataSource):
    """A sink: a file for each batch in `folder`. Waits at `gate` in the middle of a batch's rows, and at `commit.gate`
    after a batch is published."""

    delivery = "exactly-once"

    def streamWriter(self, schema: Any, overwrite: bool) -> FileWriter:  # noqa: N802
        with Path(self.options["folder"], "schemas").open("a") as file:
            file.write(schema.simpleString() + "\n")
        return FileWriter(dict(self.options))


class Staged(WriterCommitMessage):
    def __init__(self, path: Path, target: Path, rejected: list[tuple[int, str]]) -> None:
        self.path = path
        self.target = target
        self.rejected = rejected


class FileWriter(DataSourceStreamWriter):
    """Is away for the first `away` batches that it gets. Rejects rows with the word refused."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options
        self.away = int(options.get("away", "0"))

    def write(self, iterator: Iterator[Any]) -> Staged:
        if self.away > 0:
            self.away -= 1
            raise RetriableError("the target is away")
        context, rejected = TaskContext.get(), []
        assert context is not None
        batch = context.getLocalProperty("streaming.sql.batchId")
        name = f"{context.partitionId()}-{batch}"
        path = Path(self.options["folder"], f"staged-{name}-{os.getpid()}")  # a frozen task writes to a file of its own
        with path.open("w") as file:
            for count, row in enumerate(iterator):
                if count == 1:
                    file.flush()
                    wait_at(self.options.get("gate", ""))
                if "refused" in self.text(row):
                    rejected.append((count, "refused rows are refused"))
                else:
                    file.write(f"{self.text(row)}\n")
        return Staged(path, path.with_name(f"batch-{name}"), rejected)

    def text(self, row: Any) -> str:
        if "value" not in row.__fields__:
            return repr(row.asDict())
        return row.value.decode() if isinstance(row.value, bytes) else repr(row.value)

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's name
        for one in messages:
            os.replace(one.path, one.target)
        wait_at(self.options.get("commit.gate", ""))

    def abort(self, messages: Any, batchId: int) -> None:  # noqa: N803
        Path(self.options["folder"], "aborted").touch()


class Batches(DataSource):
    """A sink of Arrow: its rows as JSON."""

    def streamWriter(self, schema: Any, overwrite: bool) -> BatchWriter:  # noqa: N802
        return BatchWriter(Path(self.options["folder"]))


class BatchWriter(DataSourceStreamArrowWriter):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[Any] = []

    def write(self, iterator: Iterator[Any]) -> None:  # type: ignore[override]
        self.rows = []
        for batch in iterator:
            (self.folder / "schema").write_text(str(batch.schema))
            self.rows += batch.to_pylist()

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        (self.folder / f"batch-{batchId}").write_text(json.dumps(self.rows))
        (self.folder / "has-pandas").write_text(str("pandas" in sys.modules))


class Envelopes(DataSource):
    """Whole records whose values have a schema in each row."""

    def schema(self) -> str:
        return (
            "topic STRING, partition INT, key BINARY, value STRUCT<schema: STRING, payload: STRING>, "
            "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, timestamp TIMESTAMP"
        )

    def reader(self, schema: Any) -> EnvelopeReader:
        return EnvelopeReader(self.options["to"])


class EnvelopeReader(DataSourceReader):
    def __init__(self, topic: str) -> None:
        self.topic = topic

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        for value in (('{"type": "int32"}', "1"), ('{"type": "string"}', '"x"'), None):
            yield (self.topic, None, None, value, None, None)


class Asking(DataSource):
    """Asks for a Spark session."""

    def schema(self) -> StructType:
        return StructType.fromDDL("n INT")

    def reader(self, schema: Any) -> EnvelopeReader:
        return EnvelopeReader("none")


class Reader(DataSource):
    """Neither a source nor a sink of streams."""

    def schema(self) -> str:
        return "a INTERVAL"
