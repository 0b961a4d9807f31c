"""`moldau sql`: its words, and scripts that are rejected before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.cli.commands import build_parser
from moldau.cli.main import main
from moldau.cli.sql.engines import engine_settings
from moldau.cli.sql.scripts import name_of, run_file
from moldau.cli.sql.shell import open_shell


def test_without_a_verb_it_is_the_shell():
    for words in (["sql"], ["sql", "shell"], ["sql", "-b", "host:1"], ["sql", "--output", "json"]):
        assert build_parser().parse_args(words).run is open_shell
    run = build_parser().parse_args(["sql", "run", "-", "--once", "-D", "a=1", "--define", "b="])
    assert (run.run, run.once, run.define) == (run_file, True, [("a", "1"), ("b", "")])


@pytest.mark.parametrize("words", [["sql", "-h"], ["sql", "rnu"], ["sql", "run"], ["sql", "run", "a", "-D", "1=2"]])
def test_help_and_wrong_words_are_those_of_the_noun(words: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args(words)
    assert ended.value.code == (0 if words[-1] == "-h" else 2)
    printed = capsys.readouterr()
    assert "usage: moldau sql" in printed.out + printed.err


@pytest.mark.parametrize(
    ("text", "words", "problem"),
    [
        (b"SHOW STREMS;", [], "did you mean STREAMS"),
        (b"SHOW STREAMS;\nDROP STREAM a;", [], "line 2, column 13"),
        (b"SELECT ${a};", [], "not defined"),
        (b"SELECT ${a} FROM b EMIT CHANGES;", ["-D", "a=1", "--once"], "this would not end"),
        (b"\xff", [], "is not UTF-8"),
        (None, [], "No such file"),
    ],
)
def test_a_script_is_rejected_before_anything_runs(
    text: bytes | None, words: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    script = tmp_path / "a.sql"
    if text is not None:
        script.write_bytes(text)
    assert main(["sql", "run", str(script), *words, "--checkpoints", str(tmp_path / "c")]) == 2
    printed = capsys.readouterr()
    assert problem in printed.err
    assert printed.out == ""
    assert not (tmp_path / "c").exists()
    if text is None:
        assert main(["sql", "test", str(script)]) == 2


def test_a_run_is_named_after_its_file():
    names = {"a/page views.sql": "page-views", "b.sql": "b", "/dev/stdin": "stdin", ".sql": "sql"}
    assert {path: name_of(Path(path)) for path in names} == names


def test_the_registry_keeps_its_login_and_the_patience_of_a_pipeline(tmp_path: Path):
    file = tmp_path / "client.properties"
    file.write_text(
        "bootstrap.servers=host:1\n"
        "schema.registry.url=https://registry.example.org\n"
        "schema.registry.basic.auth.user.info=${env:REGISTRY_LOGIN}\n"
    )
    arguments = build_parser().parse_args(["sql", "run", "-", "--command-config", str(file)])
    registry = engine_settings(arguments, "a").registry
    assert registry is not None
    assert (registry.url, registry.patience_ms) == ("https://registry.example.org", 60_000)
    assert registry.security.user_info is not None
