"""`moldau certs` as its users call it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from moldau.cli.main import main
from moldau.transport.pkcs12 import identity_of


def run(*words: str) -> int:
    return main(["certs", *words])


def test_an_authority_issues_and_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ("--dir", str(tmp_path / "certs"))
    assert run("init", *folder, "--name", "Orders", "--days", "100") == 0
    assert run("issue", "node-1", "--host", "kafka.example", "--host", "10.0.0.7", "--days", "20", *folder) == 0
    capsys.readouterr()
    assert run("show", "--json", *folder) == 0
    authority, node = json.loads(capsys.readouterr().out)
    assert (authority["subject"], authority["issuer"], authority["days"]) == ("CN=Orders", "CN=Orders", 99)
    assert (node["subject"], node["names"], node["days"]) == ("CN=node-1", ["kafka.example", "10.0.0.7"], 19)
    assert run("show", str(tmp_path / "certs" / "node-1.pem")) == 0
    assert "kafka.example,10.0.0.7" in capsys.readouterr().out


@pytest.mark.parametrize("source", ["file", "env", "input"])
def test_the_password_of_pkcs12_comes_from_a_file_a_variable_or_standard_input(
    tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secret").write_text("of tests\n")
    monkeypatch.setenv("STORE_PASSWORD", "of tests")
    monkeypatch.setattr("sys.stdin", io.StringIO("of tests\n"))
    words = {
        "file": ("--password-file", str(tmp_path / "secret")),
        "env": ("--password-env", "STORE_PASSWORD"),
        "input": ("--password-file", "-"),
    }
    folder = ("--dir", str(tmp_path))
    assert run("init", *folder) == 0
    assert run("issue", "alice", "--pkcs12", *words[source], *folder) == 0
    assert b"PRIVATE KEY" in identity_of((tmp_path / "alice.p12").read_bytes(), "of tests")
    assert "of tests" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("issue", "alice"), "holds no authority.pem: `moldau certs init`"),
        (("show",), "holds no authority.pem: `moldau certs init`"),
        (("show", "absent.pem"), "absent.pem: No such file"),
        (("issue", "alice", "--pkcs12"), "--pkcs12 needs --password-file or --password-env"),
        (("issue", "alice", "--password-env", "X"), "a password belongs to --pkcs12"),
        (("issue", "alice", "--pkcs12", "--password-env", "NOT_SET"), "NOT_SET is not set"),
        (("init", "--days", "100000"), "--days takes at most 36500"),
        (("init", "--name", "n" * 65), "cannot be the name of an authority"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    tmp_path: Path, words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words, "--dir", str(tmp_path / "none")) == 1
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == 1


def test_a_file_without_a_certificate_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.pem").write_text("nonsense")
    assert run("show", str(tmp_path / "a.pem")) == 1
    assert "a.pem holds no certificate in PEM" in capsys.readouterr().err
