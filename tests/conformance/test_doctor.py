"""`moldau doctor` finds nothing wrong with a healthy cluster, Moldau's or Apache Kafka's."""

from __future__ import annotations

import json

import pytest

from moldau.cli.main import main


def test_a_healthy_cluster_is_found_healthy(bootstrap_servers: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", bootstrap_servers, "--round-trip", "--json", "--timeout", "30"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["level"] for row in rows} == {"ok"}, rows
    # A cluster that serves every feature has no such row.
    steps = [step for step in dict.fromkeys(row["step"] for row in rows) if step != "features"]
    assert steps == [
        "name",
        "port",
        "protocol",
        "versions",
        "metadata",
        "advertised",
        "round trip",
        "clock",
    ]
