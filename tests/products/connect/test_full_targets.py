"""A sink whose target has no more room: the task fails with the reason, and the next one writes each record once."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from moldau.testing import Cluster
from moldau.testing.connect import ConnectorTask
from tests.support.database_tables import Tables

SCHEMA = '{"type": "struct", "fields": [{"field": "text", "type": "string"}]}'
TEXTS = [f"{number:04}" + "x" * 1_000 for number in range(100)]
ROOM = 64 << 10
"""Bytes of a file: less than the texts."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as started:
        yield started


def values(texts: list[str]) -> list[str]:
    return [f'{{"schema": {SCHEMA}, "payload": {{"text": "{text}"}}}}' for text in texts]


def limit_files(size: int) -> None:
    """The task can make no larger files, as on a full disk."""
    for process in psutil.Process().children():
        if "moldau.connect.running" in process.cmdline():
            process.rlimit(psutil.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["file", "sqlite"])
def test_nothing_is_lost_or_twice_when_there_is_room_again(cluster: Cluster, tmp_path: Path, target: str) -> None:
    topic, path = cluster.topic("full"), tmp_path / "file"
    tables = Tables.of_sqlite(tmp_path / "full.db")
    files = {"connector.class": "files", "path": str(path), "format": "json"}
    config = {"name": topic, "topics": topic, "value.converter": "json"}
    config |= files if target != "sqlite" else tables.settings | {"auto.create": "true", "table.name.format": "rows"}
    cluster.produce(topic, *values(["first"]))
    with ConnectorTask(cluster, config) as task:
        task.wait_until_idle()
        limit_files(ROOM)
        cluster.produce(topic, *values(TEXTS))
        trace = task.wait_for_failure()
    assert "RetriableError" in trace or "TargetError" in trace
    assert ("disk I/O error" if target == "sqlite" else "cannot be written: File too large") in trace
    with ConnectorTask(cluster, config) as task:
        task.wait_until_idle()
    if target == "sqlite":
        found = [text for (text,) in tables.ask("select text from rows order by rowid")]
    else:
        found = [json.loads(line)["text"] for line in path.read_text().splitlines()]
    assert found == ["first", *TEXTS]
