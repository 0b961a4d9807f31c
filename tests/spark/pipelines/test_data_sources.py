"""`datasource` in a pipeline: tables, formats of Spark, classes that cannot do what the pipeline asks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.cli.main import main

MODULE = """
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, WriterCommitMessage


class Towns(DataSource):
    @classmethod
    def name(cls):
        return "towns"

    def schema(self):
        return "user string, town string"

    def reader(self, schema):
        return TownsReader(self.options["town"])


class TownsReader(DataSourceReader):
    def __init__(self, town):
        self.town = town

    def read(self, partition):
        yield "ann", self.town


class Nothing(DataSource):
    pass
"""


@pytest.fixture
def run(spark: object, tmp_path: Path, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]):
    """`run(spec)` gives the exit code and what stands on stderr."""
    (tmp_path / "our_towns.py").write_text(MODULE, encoding="utf-8")

    def run_spec(text: str) -> tuple[int, str]:
        file = tmp_path / "spec.yaml"
        file.write_text(f"bootstrap_servers: {bootstrap_servers}\n{text}", encoding="utf-8")
        return main(["pipeline", "run", str(file), "--once"]), capsys.readouterr().err

    return run_spec


def test_a_table_of_a_class_and_a_format_of_spark(
    run: Callable[[str], tuple[int, str]], new_topic: Callable[..., str], produce: Callable[..., None], tmp_path: Path
) -> None:
    topic = new_topic()
    produce(topic, [(None, b'{"user": "ann", "n": 1}'), (None, b'{"user": "bob", "n": 2}')])
    code, errors = run(f"""
name: towns
sources:
  orders: {{topic: {topic}, format: json, schema: "user string, n int"}}
  towns: {{datasource: "our_towns:Towns", options: {{TOWN: Brno}}, as: table}}
flows:
  with_town: select user, n, town from orders left join towns using (user)
targets:
  out: {{from: with_town, datasource: json, options: {{path: "{tmp_path}/out"}}}}
""")
    assert code == 0, errors
    rows = [
        json.loads(line) for file in (tmp_path / "out").glob("*.json") for line in file.read_text("utf-8").splitlines()
    ]
    assert sorted(rows, key=str) == [{"user": "ann", "n": 1, "town": "Brno"}, {"user": "bob", "n": 2}]


@pytest.mark.parametrize(
    ("source", "sink", "problem"),
    [
        ("{datasource: 'our_towns:Towns', options: {town: a}}", "{topic: a}", "no stream can be read"),
        ("{datasource: 'our_towns:Nothing'}", "{topic: a}", "has none of streamReader"),
        ("{datasource: rate}", "{datasource: 'our_towns:Towns'}", "neither streamWriter nor writer"),
        ("{datasource: rate}", "{datasource: 'our_tons:Towns'}", "no module our_tons"),
        ("{datasource: nowhere.such}", "{topic: a}", "nowhere.such"),
    ],
)
def test_what_cannot_be_is_said(run: Callable[[str], tuple[int, str]], source: str, sink: str, problem: str) -> None:
    code, errors = run(f"name: a\nsource: {source}\nsql: select * from source\nsink: {sink}\n")
    assert (code, problem in errors) == (1, True), errors
