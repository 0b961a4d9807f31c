"""`moldau machine NAME` prints an entry that services and brokers read."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from moldau.cli.main import main
from moldau.transport.http_authorization import digest_of, is_digest


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["machine", *words])
    return code, capsys.readouterr().out


def test_the_lines_hold_the_hash_of_the_secret(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = told(capsys, "prometheus")
    assert code == 0
    secret, *lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    kept = digest_of(secret).hex()
    assert is_digest(kept)
    assert lines.pop() == f"prometheus={kept}"
    assert tomllib.loads("\n".join(lines)) == {"machines": {"prometheus": {"role": "viewer", "sha256": kept}}}


def test_a_secret_in_a_file_is_not_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "secret"
    code, text = told(capsys, "b.1", "--role", "editor", "--subject", 'o"-', "--secret-file", str(path))
    assert code == 0
    assert path.read_text() not in text
    assert path.stat().st_mode & 0o777 == 0o600
    assert f"b.1={digest_of(path.read_text()).hex()}" in text
    table = tomllib.loads(text.partition("# for moldau.http")[0])["machines"]["b.1"]
    assert table["subjects"] == {'o"-': "editor"}
    assert "role" not in table
    assert told(capsys, "b.1", "--secret-file", str(path))[0] == 1  # it is not overwritten
