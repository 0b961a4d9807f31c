"""The cluster that a command reaches: flags, profiles, files and the environment, in order of priority."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.cli.access import access_of
from moldau.cli.commands import build_parser
from moldau.cli.kafka.tools import TOOLS, load
from moldau.cli.output import CommandError
from moldau.client.protocol.access import ClusterAccess
from moldau.transport.profiles import profiles_path

WORDS = ["topics", "list"]
LOGIN = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=alice\nsasl.password=hidden\n"


@pytest.fixture(autouse=True)
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("MOLDAU_BOOTSTRAP_SERVER", "MOLDAU_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    path = profiles_path()
    path.parent.mkdir()
    path.write_text('[profiles.a]\nbootstrap.servers = "a:1"\n[profiles.b]\nbootstrap.servers = "b:1"\n')
    path.chmod(0o600)


def reached(*words: str) -> ClusterAccess:
    return access_of(build_parser().parse_args([*WORDS, *words]))


def test_a_flag_counts_more_than_a_profile_and_that_more_than_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLDAU_BOOTSTRAP_SERVER", "env:1")
    assert str(reached()) == "env:1"
    assert str(reached("--profile", "a")) == "a:1"
    monkeypatch.setenv("MOLDAU_PROFILE", "b")
    assert str(reached()) == "b:1"
    assert str(reached("--profile", "a")) == "a:1"
    assert str(reached("--profile", "a", "-b", "c:1")) == "c:1"


def test_a_file_of_properties_says_how_a_cluster_is_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLDAU_PROFILE", "b")
    path = tmp_path / "client.properties"
    path.write_text(f"bootstrap.servers=f:1\n{LOGIN}")
    access = reached("--command-config", str(path))
    assert (str(access), access.security.protocol) == ("f:1", "SASL_PLAINTEXT")
    assert str(reached("--command-config", str(path), "-b", "c:1")) == "c:1"
    path.write_text("security.protocol=SASL_SSL\n")
    with pytest.raises(CommandError, match=r"client\.properties: sasl\.mechanism must be set"):
        reached("--command-config", str(path))


def test_a_profile_and_a_file_are_not_given_together(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        reached("--profile", "a", "--command-config", "f")
    assert "not allowed with argument" in capsys.readouterr().err


def test_a_profile_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(CommandError, match="has no profile c"):
        reached("--profile", "c")


def flags_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from flags_of(inner)


def test_no_flag_takes_a_secret() -> None:
    flags = set(flags_of(build_parser())) | {f"--{option.name}" for tool in TOOLS for option in load(tool).OPTIONS}
    assert len(flags) > 100
    takers = [flag for flag in flags if any(word in flag for word in ("password", "secret", "jaas"))]
    assert not [flag for flag in takers if not flag.endswith(("-env", "-file"))]
