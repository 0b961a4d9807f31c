"""The client settings file is read under each name that Kafka's tools have for its flag."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.cli.kafka.tools import run_tool

NOBODY = "127.0.0.1:1"
ELECT = ("kafka-leader-election", "--bootstrap-server", NOBODY, "--election-type", "preferred")
ELECT_ALL = (*ELECT, "--all-topic-partitions")
CLUSTER = ("kafka-cluster", "cluster-id", "-b", NOBODY)


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SASL_SSL\n")
    return str(path)


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (ELECT_ALL, "--command-config"),
        (ELECT_ALL, "--admin.config"),
        (CLUSTER, "--command-config"),
        (CLUSTER, "-c"),
        (CLUSTER, "--config"),
    ],
)
def test_a_login_without_a_mechanism_is_refused_and_nothing_goes_out_in_the_clear(
    words: tuple[str, ...], flag: str, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_tool(words[0], [*words[1:], flag, config]) == 1
    told = capsys.readouterr()
    assert "sasl.mechanism must be set" in told.err
    assert ("Use --command-config instead." in told.out) == (flag in ("--admin.config", "--config"))


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("request.timeout.ms=soon", "request.timeout.ms must be a whole number above 0, not 'soon'"),
        ("default.api.timeout.ms=0", "default.api.timeout.ms must be a whole number above 0, not '0'"),
        ("socket.connection.setup.timeout.ms=-1", "socket.connection.setup.timeout.ms must be a whole number above 0"),
    ],
)
def test_a_time_that_is_none_is_refused_by_its_name(
    setting: str, told: str, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(config).write_text(setting)
    assert run_tool(CLUSTER[0], [*CLUSTER[1:], "--command-config", config]) == 1
    assert capsys.readouterr().err.startswith(told)


def test_an_address_that_is_none_is_refused_in_words_of_kafka(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tool(CLUSTER[0], ["cluster-id", "-b", "a:b"]) == 1
    assert capsys.readouterr().err.startswith("Invalid url in bootstrap.servers: a:b")


@pytest.mark.parametrize(
    ("words", "old", "told"),
    [
        (ELECT_ALL, "--admin.config", 'Option "[admin.config]" can\'t be used with option "[command-config]"'),
        (CLUSTER, "--config", "--config and --command-config cannot be specified together."),
    ],
)
def test_the_file_is_named_by_one_flag_only(
    words: tuple[str, ...], old: str, told: str, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_tool(words[0], [*words[1:], old, config, "--command-config", config]) == 1
    assert capsys.readouterr().err.startswith(told)
