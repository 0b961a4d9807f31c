"""The connectors of docs/use/own-connectors.md, as a reader writes them: in the light task, on Spark, in pipelines."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from moldau.cli.main import main
from moldau.testing import Cluster
from moldau.testing.connect import ConnectorTask
from tests.cluster.guides import ADDRESS, ROOT
from tests.support.connect_cluster import connect_cluster

PAGE = (ROOT / "docs" / "use" / "own-connectors.md").read_text("utf-8")
BLOCKS = [text for _, text in re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)]
ROWS = 2_000
WAIT_S = 120

pytestmark = pytest.mark.slow


def block(beginning: str) -> str:
    """The only block of the guide that begins so."""
    (found,) = [text for text in BLOCKS if text.startswith(beginning)]
    return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with connect_cluster() as started:
        yield started


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the reader."""
    folder = tmp_path_factory.mktemp("reader") / "lines"
    assert main(["connect", "new", "lines", "--folder", str(folder)]) == 0
    (folder / "events.py").write_text(block('"""The new rows'), "utf-8")
    (folder / "table.py").write_text(block('"""Rows of a table'), "utf-8")
    return folder


@pytest.fixture
def in_folder(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Gives a text of the guide with the paths of this test."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    yield lambda text: text.replace("/tmp/", f"{tmp_path}/")
    for name in ("events", "table", "lines"):
        sys.modules.pop(name, None)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The database of the guide."""
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, word TEXT)")
        connection.executemany("INSERT INTO events (word) VALUES (?)", [(f"word {n}",) for n in range(ROWS)])
    return path


def rows_in(path: Path, table: str) -> list[tuple[Any, ...]]:
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
            return []
        return connection.execute(f"SELECT id, word FROM {table}").fetchall()


def run_with_a_kill(cluster: Cluster, config: dict[str, str], folder: Path, has_begun: Callable[[], object]) -> None:
    """Kills the task as soon as something of it is there, and lets another one end its work."""
    with ConnectorTask(cluster, config, path=[folder]) as task:
        cluster.wait_for(has_begun, timeout=WAIT_S)
        task.kill()
    with ConnectorTask(cluster, config, path=[folder]) as task:
        task.wait_until_idle(WAIT_S)


def expected() -> Counter[tuple[Any, ...]]:
    return Counter((n + 1, f"word {n}") for n in range(ROWS))


def test_a_source_and_a_sink_in_workers_that_are_killed(
    cluster: Cluster, folder: Path, in_folder: Callable[[str], str], shop: Path, tmp_path: Path
) -> None:
    events, copied = (json.loads(in_folder(block(f'{{"name": "{name}"'))) for name in ("events", "copied"))
    copy = tmp_path / "copy.db"
    cluster.create_topic("events")
    few = {"batch.max.rows": "100"}
    run_with_a_kill(cluster, events | few, folder, lambda: any(cluster.records("events", isolation="read_uncommitted")))
    run_with_a_kill(cluster, copied | few, folder, lambda: rows_in(copy, "copied"))
    values = [json.loads(record.value or b"")["payload"] for record in cluster.records("events")]
    assert Counter((value["id"], value["word"]) for value in values) == expected()
    assert Counter(rows_in(copy, "copied")) == expected()


def test_a_source_of_files_in_a_worker_that_is_killed(cluster: Cluster, folder: Path, tmp_path: Path) -> None:
    topic = cluster.topic("lines")
    for name in range(10):
        (tmp_path / f"{name}.txt").write_text("".join(f"{name} {line}\n" for line in range(2_000)))
    config = {"name": topic, "connector.class": "lines:Lines", "directory": str(tmp_path), "topic": topic}
    run_with_a_kill(cluster, config, folder, lambda: any(cluster.records(topic, isolation="read_uncommitted")))
    lines = Counter(json.loads(record.value or b"")["payload"]["line"] for record in cluster.records(topic))
    assert lines == Counter(f"{name} {line}" for name in range(10) for line in range(2_000))


def test_on_spark(spark: Any, in_folder: Callable[[str], str], shop: Path, tmp_path: Path) -> None:
    names: dict[str, Any] = {"spark": spark}
    text = in_folder(block("import events"))
    for count in (ROWS, 2 * ROWS):
        exec(text, names)
        assert names["query"].awaitTermination(WAIT_S)
        assert len(rows_in(tmp_path / "spark.db", "copied")) == count
        with closing(sqlite3.connect(shop)) as connection, connection:
            connection.executemany("INSERT INTO events (word) VALUES (?)", [("more",) for _ in range(ROWS)])
    assert len(set(rows_in(tmp_path / "spark.db", "copied"))) == 2 * ROWS


def test_files_on_spark_have_the_same_rows(spark: Any, in_folder: Callable[[str], str], tmp_path: Path) -> None:
    import lines  # type: ignore[import-not-found]

    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "1.txt").write_text("one\ntwo\n")
    cloudpickle.register_pickle_by_value(lines)
    spark.dataSource.register(lines.Lines)
    rows = spark.readStream.format("lines").option("directory", str(tmp_path / "texts")).load()
    query = rows.writeStream.format("memory").queryName("own_lines").trigger(availableNow=True)
    assert query.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination(WAIT_S)
    found = spark.table("own_lines").collect()
    assert sorted((row.line, row.file) for row in found) == [("one", "1.txt"), ("two", "1.txt")]


def test_in_pipelines(
    spark: Any,
    cluster: Cluster,
    folder: Path,
    in_folder: Callable[[str], str],
    shop: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster.create_topic("words")
    commands = [line.removeprefix("$ ").split()[1:] for line in block("$ moldau pipeline run words").splitlines()]
    for name in ("words", "kept"):
        text = in_folder(block(f"name: {name}")).replace(ADDRESS, cluster.bootstrap_servers)
        Path(f"{name}.yaml").write_text(f"checkpoint: {tmp_path}/{name}\n{text}", "utf-8")
    for command in commands:
        assert main(command) == 0, capsys.readouterr().err
    assert Counter(rows_in(tmp_path / "kept.db", "kept")) == expected()
    with closing(sqlite3.connect(tmp_path / "kept.db")) as connection:
        ((query, _),) = connection.execute("SELECT * FROM batches").fetchall()
    assert query is not None
