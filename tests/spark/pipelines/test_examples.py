"""Each example with a pipeline works as its README says: its commands run in order and print the shown output.

Examples of streaming SQL run in tests/spark/sql/test_examples.py, others without a pipeline in
tests/cluster/test_examples.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.cli.main import main
from moldau.testing import Cluster
from tests.support.example_readmes import EXAMPLES, copy_of, readme_of, run_readme, runs_on_spark, runs_sql

PIPELINES = [path for path in EXAMPLES if runs_on_spark(path) and not runs_sql(path)]


@pytest.fixture
def servers() -> Iterator[str]:
    with Cluster() as cluster:
        yield cluster.bootstrap_servers


@pytest.mark.slow
@pytest.mark.parametrize("example", PIPELINES, ids=lambda path: path.name)
def test_an_example_does_what_its_readme_says(
    spark: object,
    servers: str,
    example: Path,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`moldau pipeline` runs in this process and its session: another session costs half a minute of two cores."""

    def run_pipeline(words: list[str]) -> None:
        assert main(words) == 0, capsys.readouterr().err

    directory = copy_of(example, tmp_path, servers)
    monkeypatch.chdir(directory)
    if "POSTGRESQL" in readme_of(example):
        monkeypatch.setenv("POSTGRESQL", request.getfixturevalue("postgresql").url)
    run_readme(directory, servers, run_on_spark=run_pipeline)
