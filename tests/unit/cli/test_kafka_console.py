"""The console tools end with one sentence for unreadable input."""

from __future__ import annotations

import pytest

from moldau.cli.kafka.tools import run_tool


def test_a_topic_without_a_name_is_refused_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tool("kafka-console-consumer", ["--bootstrap-server", "127.0.0.1:1", "--topic", ""]) == 1
    assert "Failed to set subscription" in capsys.readouterr().err
