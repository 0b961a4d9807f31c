"""Secrets are read from their references, and an error names the place but no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.client.protocol.secrets import Secret, Source
from moldau.errors import KafkaError
from moldau.transport.secrets import MAX_FILE_BYTES, read_secret
from moldau.wire.protocol.jaas import SCRAM_MODULE

SETTING = "sasl.password"


def test_a_secret_is_read_from_each_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLDAU_TEST_PASSWORD", "of the environment")
    whole, properties = tmp_path / "secret", tmp_path / "client.properties"
    whole.write_bytes(b" with blanks \r\n")
    jaas = f'{SCRAM_MODULE} required username="a" password="of jaas";'
    properties.write_text(f"sasl.password = of the file\nsasl.jaas.config={jaas}\n")
    read = {
        "in memory": Secret.in_memory(SETTING, "in memory"),
        "of the environment": Secret.in_environment("MOLDAU_TEST_PASSWORD"),
        " with blanks ": Secret.in_file(str(whole)),
        "of the file": Secret(Source.ENTRY, str(properties), "sasl.password"),
        "of jaas": Secret(Source.ENTRY, str(properties), "sasl.jaas.config"),
    }
    for expected, secret in read.items():
        assert read_secret(secret, SETTING) == expected


def test_a_secret_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLDAU_TEST_EMPTY", "")
    large, binary, properties = tmp_path / "large", tmp_path / "binary", tmp_path / "client.properties"
    large.write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    binary.write_bytes(b"\xff")
    properties.write_text("a=hidden\n")
    told = {
        "MOLDAU_TEST_EMPTY is not set": Secret.in_environment("MOLDAU_TEST_EMPTY"),
        "No such file": Secret.in_file(str(tmp_path / "nothing")),
        "has more than": Secret.in_file(str(large)),
        "is not UTF-8": Secret.in_file(str(binary)),
        "client.properties has no b": Secret(Source.ENTRY, str(properties), "b"),
    }
    for expected, secret in told.items():
        with pytest.raises(KafkaError, match=expected) as refused:
            read_secret(secret, SETTING)
        assert str(refused.value).startswith(f"{SETTING}: ")
        assert "hidden" not in str(refused.value)
