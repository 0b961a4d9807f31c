"""`moldau connect new` and `moldau connect test`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.cli.connect.rows import with_schemas
from moldau.cli.main import main
from moldau.cli.output import CommandError
from moldau.cli.records.text import Record
from moldau.connect.converting.converter import Role
from moldau.connect.converting.named import new_converter
from moldau.connect.data.schema import Type

SOURCE_FOLDER = str(Path(__file__).parents[3] / "src")
JSON = new_converter({}, Role.VALUE, "json")
OWN = '''
from dataclasses import dataclass
from pyspark.sql.datasource import (
    DataSource, DataSourceStreamWriter, SimpleDataSourceStreamReader, WriterCommitMessage
)

class Forgetful(DataSource):
    """Begins again after a restart: it counts in memory."""
    def schema(self):
        return "n INT"
    def simpleStreamReader(self, schema):
        return Reader()

class Reader(SimpleDataSourceStreamReader):
    def __init__(self):
        self.n = 0
    def initialOffset(self):
        return {"n": 0}
    def read(self, start):
        self.n += 1
        return iter([(self.n,)]), {"n": self.n}

class Careful(Forgetful):
    def simpleStreamReader(self, schema):
        return CarefulReader()

class CarefulReader(Reader):
    def read(self, start):
        end = start["n"] + 1
        return iter([(end,)]), {"n": end}

class Choosy(DataSource):
    def streamWriter(self, schema, overwrite):
        return Writer()

@dataclass
class Message(WriterCommitMessage):
    rejected: list

class Writer(DataSourceStreamWriter):
    def write(self, rows):
        return Message([(n, "no user") for n, row in enumerate(rows) if row.value["user"] is None])
    def commit(self, messages, batchId):
        pass
    def abort(self, messages, batchId):
        pass
'''


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": SOURCE_FOLDER, "MYPYPATH": SOURCE_FOLDER}
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Tides", "'Tides' is no name of a connector: lower-case words and digits with hyphens, as my-tides"),
        ("../tides", "'../tides' is no name of a connector: lower-case words and digits with hyphens, as my-tides"),
        ("json", "json is a module of Python or an installed package: choose another name"),
        ("class", "class is a module of Python or an installed package: choose another name"),
        ("data-source", "a class of the package has the name DataSource already: choose another name"),
    ],
)
def test_a_name_that_no_package_can_have_is_rejected(
    name: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["connect", "new", name]) == 1
    assert capsys.readouterr().err == f"moldau: {sentence}\n"
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tides").mkdir()
    assert main(["connect", "new", "tides", "--folder", str(tmp_path / "tides")]) == 1
    assert capsys.readouterr().err == f"moldau: {tmp_path}/tides exists: nothing is written\n"
    assert list((tmp_path / "tides").iterdir()) == []


@pytest.mark.slow
def test_a_written_package_passes_its_tests_and_checks(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    for kind in ("source", "sink", "both"):
        assert main(["connect", "new", f"my-{kind}", "--kind", kind, "--folder", str(tmp_path / kind)]) == 0
        for words in (["ruff", "check"], ["ruff", "format", "--check"], ["mypy", "--cache-dir", str(tmp_path / "c")]):
            done = run(tmp_path / kind, *words, ".")
            assert done.returncode == 0, done.stdout + done.stderr
    tested = run(tmp_path / "both", "pytest", "-q", "-p", "no:cacheprovider")
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "2 passed" in tested.stdout


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["own:Choosy"], 1, "moldau: own:Choosy is a sink: --rows FILE gives it records\n"),
        (["datagen", "--rows", "own.py"], 1, "moldau: datagen is a source: leave out --rows\n"),
        (["own:Chosy"], 2, "moldau connect: Connector own:Chosy: own has no Chosy, did you mean Choosy?\n"),
        (["datagen", "limit"], 1, "moldau: a setting is NAME=VALUE, not 'limit'\n"),
    ],
)
def test_a_test_that_cannot_run_says_why(words: list[str], code: int, sentence: str, own: Path) -> None:
    done = run(own, "moldau", "connect", "test", *words)
    assert (done.returncode, done.stderr) == (code, sentence)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "code", "verdict"),
    [
        ("Forgetful", 1, "repeated "),
        ("Careful", 0, "repeated none\n"),
    ],
)
def test_a_source_that_begins_again_after_a_restart_is_found(name: str, code: int, verdict: str, own: Path) -> None:
    done = run(own, "moldau", "connect", "test", f"own:{name}", "--records", "40", "--timeout", "120")
    assert done.returncode == code, done.stderr
    assert verdict in done.stderr
    values = [json.loads(json.loads(line)["value"])["n"] for line in done.stdout.splitlines()]
    assert len(values) == 40
    if name == "Careful":
        assert values == list(range(1, 41))
    else:
        assert "repeated none" not in done.stderr


def test_rows_get_a_schema_that_all_of_them_have() -> None:
    texts = ['{"id": 1, "tags": ["a"], "at": {"x": 1.5}}', '{"id": null, "at": {"x": 2, "y": true}}', '{"tags": []}']
    made = with_schemas([Record(None, text.encode(), []) for text in texts] + [Record(b"k", None, [])])
    schemas, values = zip(*(JSON.to_value("", (), row.value) for row in made[:-1]), strict=True)
    assert values[1] == {"id": None, "tags": None, "at": {"x": 2.0, "y": True}}
    assert {one.name: one.schema.type for one in schemas[0].fields} == {
        "id": Type.INT64,
        "tags": Type.ARRAY,
        "at": Type.STRUCT,
    }
    assert made[-1].value is None
    with pytest.raises(CommandError, match="id has several types, int and str"):
        with_schemas([Record(None, b'{"id": 1}', []), Record(None, b'{"id": "a"}', [])])


def test_a_sink_tells_which_rows_it_rejects(own: Path) -> None:
    (own / "rows.jsonl").write_text('{"user": "ann"}\n{"value": "{\\"user\\": \\"bob\\"}", "key": "b"}\n{"x": 1}\n')
    done = run(own, "moldau", "connect", "test", "own:Choosy", "--rows", "rows.jsonl", "--timeout", "120")
    assert done.returncode == 1
    assert "row 3 is rejected: " in done.stderr
    assert done.stderr.endswith("rows: 2 written, 1 rejected\n")
