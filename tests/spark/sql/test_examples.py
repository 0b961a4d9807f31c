"""Each example of streaming SQL works as its README says, and its topics have what Python computes from its input."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.cli.main import main
from moldau.columnar import read_topic
from moldau.testing import Cluster
from tests.support.example_readmes import EXAMPLES, copy_of, run_readme, runs_sql

pytestmark = pytest.mark.slow

PARTITIONS = "spark.sql.shuffle.partitions"
PATIENCE_S = 120.0
Rows = list[dict[str, Any]]


@pytest.fixture
def servers() -> Iterator[str]:
    with Cluster() as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def run_example(
    spark, servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Path]:
    """`run_example(name)` does what the README says, in this process's Spark session."""

    def run_on_spark(words: list[str]) -> None:
        partitions = spark.conf.get(PARTITIONS)
        try:
            assert main(words) == 0, capsys.readouterr()
        finally:
            spark.conf.set(PARTITIONS, partitions)

    def run(name: str) -> Path:
        (example,) = (path for path in EXAMPLES if path.name == name)
        directory = copy_of(example, tmp_path, servers)
        monkeypatch.chdir(directory)
        monkeypatch.setenv("MOLDAU_BOOTSTRAP_SERVER", servers)
        run_readme(directory, servers, run_on_spark=run_on_spark)
        return directory

    return run


def printed_by(directory: Path, *words: str) -> list[str]:
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    return done.stdout.splitlines()


def rows_of(servers: str, topic: str) -> Rows:
    batches = read_topic(servers, topic, isolation="read_committed")
    return [json.loads(value) for batch in batches for value in batch.column("value").to_pylist()]


def test_the_examples_are_these() -> None:
    assert [path.name for path in EXAMPLES if runs_sql(path)] == ["anomalies"]


def test_anomalies_finds_all_that_was_injected_and_nothing_else(servers: str, run_example) -> None:
    directory = run_example("anomalies")
    injected = [json.loads(line) for line in printed_by(directory, "readings.py", "injected")]
    for what, topic, device, at in (
        ("spike", "spikes", "device", "at"),
        ("silence", "silences", "silent", "last_seen"),
    ):
        found = sorted((row[device], row[at][:19]) for row in rows_of(servers, topic))
        assert found == sorted((one["device"], one["at"][:19]) for one in injected if one["what"] == what)
