"""The nouns that administer a cluster, against a real broker: what they change, only plan, and reject."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.testing import Cluster


@pytest.fixture
def run(moldau_cluster: Cluster):
    def run(*arguments: str, text: str = "", code: int = 0) -> str:
        command = [sys.executable, "-m", "moldau.cli.main", *arguments, "-b", moldau_cluster.bootstrap_servers]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout if code == 0 else done.stderr

    return run


def test_topics_are_altered_and_deleted_by_a_regular_expression(run) -> None:
    run("topics", "create", "adm-a1", "adm-a2")
    assert "would be altered" in run("topics", "alter", "adm-a1", "--partitions", "3", "--dry-run")
    assert run("topics", "alter", "adm-a1", "--partitions", "3", "--set", "retention.ms=5") == "adm-a1: altered\n"
    assert "3 partition(s)" in run("topics", "alter", "adm-a1", "--partitions", "2", code=1)
    listed = json.loads(run("topics", "list", "adm-a.", "--format", "json"))
    assert [(row["topic"], row["partitions"]) for row in listed] == [("adm-a1", 3), ("adm-a2", 1)]
    assert "no topic matches" in run("topics", "delete", "--regex", "adm-none.*", code=1)
    assert run("topics", "delete", "--regex", "adm-a.") == "adm-a1: deleted\nadm-a2: deleted\n"


@pytest.mark.slow
def test_settings_are_described_with_where_they_come_from(run) -> None:
    run("topics", "create", "adm-configs")
    assert run("configs", "alter", "topic", "adm-configs", "--set", "retention.ms=7") == "topic adm-configs: altered\n"
    described = json.loads(run("configs", "describe", "topic", "adm-configs", "--json"))
    rows = {row["setting"]: (row["value"], row["from"]) for row in described}
    assert rows["retention.ms"] == ("7", "dynamic_topic_config")
    assert "cleanup.policy" not in rows
    assert "cleanup.policy" in run("configs", "describe", "topic", "adm-configs", "--all")
    run("configs", "alter", "topic", "adm-configs", "--unset", "retention.ms")
    assert "retention.ms" not in run("configs", "describe", "topic", "adm-configs")
    assert "foo" in run("configs", "alter", "topic", "adm-configs", "--set", "foo=1", code=1)
    assert "NAME=VALUE" in run("configs", "alter", "topic", "adm-configs", "--set", "foo", code=1)
    assert "a broker has a number" in run("configs", "describe", "broker", "x", code=1)
    assert {"kind": "topic", "name": "adm-configs"} in json.loads(run("configs", "list", "topic", "--json"))


@pytest.mark.slow
def test_a_reset_is_a_plan_until_it_is_executed(run, tmp_path: Path) -> None:
    run("topics", "create", "adm-reset", "adm-other")
    run("produce", "adm-reset", "1", "2", "3", "4")
    reset = ("offsets", "reset", "adm-group", "--topic", "adm-reset")

    def planned(*goal: str) -> int:
        return int(json.loads(run(*reset, *goal, "--json"))["partitions"][0]["new_offset"])

    assert planned("--to-latest") == 4
    assert "unknown group" in run("groups", "describe", "adm-group", code=1)
    assert "no current committed offset" in run(*reset, "--shift-by", "1", code=1)
    run(*reset, "--to-offset", "3", "--execute")
    assert "lag 1" in run("groups", "describe", "adm-group")
    assert planned("--to-earliest") == 0
    assert planned("--shift-by", "-2") == 1
    assert planned("--shift-by", "99") == 4
    assert planned("--to-datetime", "2020-01-31T12:00:00") == 0
    assert planned("--to-datetime", "2040-01-31T12:00:00+01:00") == 4
    assert planned("--by-duration", "PT1H") == 0
    exported = run(*reset, "--to-offset", "2", "--export")
    assert exported == "adm-reset,0,2\n"
    (tmp_path / "plan.csv").write_text(exported)
    run("offsets", "reset", "adm-group", "--from-file", str(tmp_path / "plan.csv"), "--execute")
    assert "lag 2" in run("groups", "describe", "adm-group")
    assert "PT1H30M" in run(*reset, "--by-duration", "an hour", code=2)
    assert "is no time: write 2026" in run(*reset, "--to-datetime", "yesterday", code=2)
    assert "unknown topic or partition" in run(
        "offsets", "reset", "adm-group", "--topic", "adm-none", "--to-latest", code=1
    )
    run("produce", "adm-other", "1")
    run("offsets", "reset", "adm-group", "--topic", "adm-other", "--to-latest", "--execute")
    run("offsets", "delete", "adm-group", "--topic", "adm-reset:0")
    described = json.loads(run("groups", "describe", "adm-group", "--json"))
    assert [row["topic"] for row in described["partitions"]] == ["adm-other"]
    assert run("groups", "delete", "adm-group") == "adm-group: deleted\n"


def test_offsets_of_topics_are_listed_at_an_end_or_a_time(run) -> None:
    run("topics", "create", "adm-offsets")
    run("produce", "adm-offsets", "1", "2")

    def offset(*when: str) -> object:
        return json.loads(run("offsets", "list", "adm-offsets", *when, "--json"))[0]["offset"]

    assert offset() == 2
    assert offset("--at", "earliest") == 0
    assert offset("--at", "2020-01-31T12:00:00") == 0
    assert offset("--at", "2040-01-31T12:00:00") is None


@pytest.mark.slow
def test_partitions_are_added_elected_and_trimmed(run) -> None:
    run("topics", "create", "adm-parts")
    run("produce", "adm-parts", "1", "2", "3", "--partition", "0")
    assert run("partitions", "add", "adm-parts", "2") == "adm-parts: 2 partitions\n"
    assert "increase" in run("partitions", "add", "adm-parts", "1", code=1)
    assert "leads already" in run("partitions", "elect", "adm-parts:0")
    run("partitions", "reassignments")
    trimmed = json.loads(run("partitions", "trim", "adm-parts:0", "--before", "2", "--json"))
    assert [(row["start_offset"], row["error"]) for row in trimmed] == [(2, None)]
    run("partitions", "trim", "adm-parts:0", "--before", "99", code=1)
    assert "unknown topic or partition" in run("partitions", "trim", "adm-parts:7", "--before", "1", code=1)


def test_quotas_are_set_described_and_removed(run) -> None:
    run("quotas", "alter", "--client", "adm-client", "--set", "producer_byte_rate=1000")
    found = json.loads(run("quotas", "describe", "--client", "adm-client", "--json"))
    assert found == [{"entity": {"client-id": "adm-client"}, "limits": {"producer_byte_rate": 1000.0}}]
    assert "adm-client" in run("quotas", "describe")
    run("quotas", "alter", "--client", "adm-client", "--unset", "producer_byte_rate")
    assert json.loads(run("quotas", "describe", "--client", "adm-client", "--json")) == []
    assert "name an entity" in run("quotas", "alter", "--set", "producer_byte_rate=1", code=1)
    assert "NAME=NUMBER" in run("quotas", "alter", "--client", "x", "--set", "producer_byte_rate=fast", code=1)


def test_an_absent_broker_is_named_by_every_noun() -> None:
    for words in (
        ["configs", "describe", "topic", "a"],
        ["groups", "list"],
        ["offsets", "list", "a"],
        ["partitions", "reassignments"],
        ["quotas", "describe"],
    ):
        command = [sys.executable, "-m", "moldau.cli.main", *words, "-b", "127.0.0.1:1"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (
            1,
            "moldau: no broker answers at 127.0.0.1:1: connection refused, nothing listens there\n",
        )
