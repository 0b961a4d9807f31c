"""`moldau up --tls`: clients need only the settings that it prints; so do the console and the registry."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped, unused-ignore]
from confluent_kafka import Producer

from moldau.transport.authority import certificates_in, hosts_of
from tests.support.running_broker import RunningBroker

pytestmark = pytest.mark.slow
WAIT_S = 60


def told(broker: RunningBroker, beginning: str) -> str:
    """The rest of the line with that beginning."""
    return next(line.partition(beginning)[2].strip() for line in broker.output if beginning in line)


def librdkafka(broker: RunningBroker) -> dict[str, Any]:
    """The settings of the printed line."""
    found = dict(word.split("=", 1) for word in told(broker, "librdkafka: ").split())
    return {**found, "bootstrap.servers": broker.address, "log_level": 0}


def write(settings: dict[str, Any], **more: Any) -> None:
    errors: list[object] = []
    producer = Producer({**settings, **more})
    producer.produce("orders", b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(WAIT_S) == 0
    assert errors == [None]


def page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
        return answer.read().decode()


def until_shown(url: str, word: str) -> None:
    """The console polls its cluster at intervals."""
    deadline_s = time.monotonic() + WAIT_S
    while word not in page(url):
        assert time.monotonic() < deadline_s, page(url)


def test_what_is_printed_is_what_clients_need(tmp_path: Path) -> None:
    words = ("--tls", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--registry", "0")
    broker = RunningBroker(*words, "--console-port", "0").wait_until_ready()
    try:
        assert "TLS at SSL" in told(broker, "Moldau ")
        write(librdkafka(broker))
        authority = told(broker, "ssl.ca.location=")
        python = told(broker, "Python: ")
        assert f"cafile={json.dumps(authority)}" in python

        async def write_in_python() -> None:
            context = ssl.create_default_context(cafile=authority)
            made = AIOKafkaProducer(bootstrap_servers=broker.address, security_protocol="SSL", ssl_context=context)
            async with made as producer:
                await asyncio.wait_for(producer.send_and_wait("orders", b"python"), WAIT_S)

        asyncio.run(write_in_python())
        properties = Path(told(broker, "Java: ").partition("(in ")[2].removesuffix(")"))
        assert f"ssl.truststore.location={authority}" in properties.read_text()
        tool = (sys.executable, "-m", "moldau.cli.main", "kafka-topics", "--bootstrap-server", broker.address)
        listed = subprocess.run(
            (*tool, "--command-config", str(properties), "--list"), capture_output=True, text=True, timeout=WAIT_S
        )
        assert listed.stdout.split() == ["orders"], listed.stderr
        until_shown(told(broker, "  console "), "orders")
        registry = told(broker, "  registry ")
        body = json.dumps({"schema": '{"type": "string"}'}).encode()
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(f"{registry}subjects/orders-value/versions", body, headers)
        with urllib.request.urlopen(asked, timeout=WAIT_S) as answer:
            assert json.load(answer)["id"] == 1
    finally:
        assert broker.stop() == 0
    assert "Traceback" not in "".join(broker.output)


def test_the_authority_is_kept_and_a_new_host_has_a_new_certificate(tmp_path: Path) -> None:
    words = ("--tls", "--data-dir", str(tmp_path), "--listen", "127.0.0.1:0", "--no-console")
    broker = RunningBroker(*words).wait_until_ready()
    settings = librdkafka(broker)
    files = {name: (tmp_path / name).read_bytes() for name in ("authority.pem", "authority.key.pem", "node.pem")}
    assert (tmp_path / "node.pem").stat().st_mode & 0o777 == 0o600
    assert broker.stop() == 0
    broker = RunningBroker(*words).wait_until_ready()
    assert {name: (tmp_path / name).read_bytes() for name in files} == files
    write({**settings, "bootstrap.servers": broker.address})
    assert broker.stop() == 0
    named = ("--set", "advertised.listeners=SSL://kafka.example:9092")
    broker = RunningBroker(*words, *named).wait_until_ready()
    assert broker.stop() == 0
    assert "did not name kafka.example" in "".join(broker.output)
    assert (tmp_path / "authority.key.pem").read_bytes() == files["authority.key.pem"]
    assert "kafka.example" in hosts_of(certificates_in((tmp_path / "node.pem").read_bytes())[0])


def test_three_brokers_reach_each_other_by_tls(tmp_path: Path) -> None:
    words = ("--tls", "--brokers", "3", "--data-dir", str(tmp_path), "--listen", "127.0.0.1:0", "--console-port", "0")
    broker = RunningBroker(*words).wait_until_ready()
    try:
        assert "TLS for clients" in told(broker, "Moldau ")
        write(librdkafka(broker), acks="all")
        until_shown(told(broker, "  console "), "orders")
        assert "listeners=SSL://127.0.0.1:" in (tmp_path / "node-2.properties").read_text()
    finally:
        assert broker.stop() == 0


def test_in_memory_with_a_folder(tmp_path: Path) -> None:
    broker = RunningBroker(
        "--in-memory", "--tls", str(tmp_path), "--listen", "[::1]:0", "--no-console"
    ).wait_until_ready()
    write(librdkafka(broker))
    assert broker.stop() == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--in-memory", "--tls"), "--in-memory keeps no file: name a folder for the authority, --tls DIR"),
        (("--tls", "--set", "listeners=SSL://127.0.0.1:0"), "--tls chooses listeners itself"),
        (("--tls", "--set", "ssl.keystore.location=x"), "--tls chooses ssl.keystore.location itself"),
        (("--tls", "--brokers", "3", "--set", "advertised.listeners=PLAINTEXT://h:1"), "is SSL://HOST:PORT of node 1"),
    ],
)
def test_what_cannot_be_together_is_refused(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    command = [sys.executable, "-m", "moldau.cli.main", "up", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
