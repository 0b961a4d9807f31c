"""The audit log of a node."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.core.auditing.repeated import CLIENT_LINES, WINDOW_MS
from moldau.core.authorization.settings import STANDARD_AUTHORIZER
from moldau.shell.network.audit import DROPPED, EVENTS, NOT_WRITTEN
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.jaas import PLAIN_MODULE
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from moldau.wire.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.support.no_room import files_end_at
from tests.support.node import data_of, fetch, produce, result_of
from tests.unit.shell.conftest import Client, NodeUnderTest, StartNode

InVirtualTime = Callable[[Callable[[StartNode], Awaitable[None]]], None]
SETTINGS = {
    "listeners": "SASL://10.0.0.1:9092",
    "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
    "inter.broker.listener.name": "SASL",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="secret" user_bob="other";',
}
ALICE, BOB = b"\0alice\0secret", b"\0bob\0other"
AUTHORIZED = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:node;User:alice"}
NEW_TOPIC = CreateTopicsRequest(topics=(CreatableTopic("new\n\x1b[2J", 1, 1), CreatableTopic("t", 1, 1)))


def log_in(client: Client, token: bytes) -> None:
    client.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
    client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(token))
    client.answers()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def story(run: InVirtualTime, path: Path, tell: Callable[[NodeUnderTest], Awaitable[None]], **settings: str) -> None:
    async def start(start_node: StartNode) -> None:
        more = {name.replace("_", "."): text for name, text in settings.items()}
        node = await start_node({**SETTINGS, **AUTHORIZED, "moldau.audit.file": str(path), **more})
        await tell(node)
        await node.node.stop()

    run(start)


def test_refusals_and_changes_are_written_down(in_virtual_time: InVirtualTime, tmp_path: Path) -> None:
    async def tell(node: NodeUnderTest) -> None:
        log_in(node.connect(), b"\0alice\0mistaken")
        alice, bob = node.connect(), node.connect()
        log_in(alice, ALICE)
        log_in(bob, BOB)
        for client in (alice, bob):
            client.send(ApiKey.CREATE_TOPICS, 7, NEW_TOPIC)
            await asyncio.sleep(1)
        bob.send(ApiKey.PRODUCE, 9, produce())
        bob.send(ApiKey.METADATA, 9, MetadataRequest(topics=None))
        assert bob.answers()[-1].topics == ()

    path = tmp_path / "audit"
    story(in_virtual_time, path, tell)
    written = lines(path)
    assert [line["event"] for line in written] == [
        "authentication",
        "change",
        "change",
        "authorization",
        "authorization",
        "authorization",
    ]
    assert all(line["address"] and line["listener"] == "SASL" for line in written)
    of_alice = [line for line in written if line.get("principal") == "User:alice"]
    assert [(line["operation"], line["resource_type"], line["result"]) for line in of_alice] == [
        ("CREATE_TOPICS", "topic", "INVALID_TOPIC_EXCEPTION"),
        ("CREATE_TOPICS", "topic", "allowed"),
    ]
    assert of_alice[1]["detail"] == "partitions 1, replication factor 1"
    of_bob = [line for line in written if line.get("principal") == "User:bob"]
    assert [(line["operation"], line["resource"], line["detail"], line["result"]) for line in of_bob] == [
        ("Create", "new\n\x1b[2J", "CREATE_TOPICS", "denied"),
        ("Create", "t", "CREATE_TOPICS", "denied"),
        ("Write", "t", "PRODUCE", "denied"),
    ]
    text = path.read_text()
    assert "\x1b" not in text
    assert "mistaken" not in text
    assert "secret" not in text


def test_a_client_that_is_refused_again_and_again_fills_no_file(in_virtual_time: InVirtualTime, tmp_path: Path) -> None:
    async def tell(node: NodeUnderTest) -> None:
        bob = node.connect()
        log_in(bob, BOB)
        for _ in range(500):
            bob.send(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=(CreatableTopic("x", 1, 1),)))
        assert node.node.telemetry.value(NOT_WRITTEN) == 500 - CLIENT_LINES
        await asyncio.sleep(2 * WINDOW_MS / 1_000)

    story(in_virtual_time, tmp_path / "audit", tell)
    written = lines(tmp_path / "audit")
    assert len(written) == CLIENT_LINES + 1
    assert (written[-1]["event"], written[-1]["left_out"]) == ("left out", 500 - CLIENT_LINES)


def test_a_file_that_cannot_be_written_stops_nothing(in_virtual_time: InVirtualTime, tmp_path: Path) -> None:
    path = tmp_path / "absent" / "audit"

    async def tell(node: NodeUnderTest) -> None:
        alice = node.connect()
        log_in(alice, ALICE)
        alice.send(ApiKey.CREATE_TOPICS, 7, NEW_TOPIC)
        await asyncio.sleep(1)
        assert [topic.error_code for topic in alice.answers()[-1].topics] == [17, 0]
        assert node.node.telemetry.value(DROPPED) == 2
        path.parent.mkdir()
        alice.send(ApiKey.CREATE_TOPICS, 7, NEW_TOPIC)
        await asyncio.sleep(1)

    story(in_virtual_time, path, tell)
    assert [line["result"] for line in lines(path)] == ["INVALID_TOPIC_EXCEPTION", "TOPIC_ALREADY_EXISTS"]


def test_a_full_disk_stops_nothing_and_damages_no_later_line(
    in_virtual_time: InVirtualTime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit"

    async def tell(node: NodeUnderTest) -> None:
        alice = node.connect()
        log_in(alice, ALICE)
        alice.send(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=(CreatableTopic("first", 1, 1),)))
        await asyncio.sleep(1)
        with files_end_at(path.stat().st_size + 10):
            for number in range(5):
                topic = CreatableTopic(f"t{number}", 1, 1)
                alice.send(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=(topic,)))
                await asyncio.sleep(1)
        assert [answer.topics[0].error_code for answer in alice.answers()] == [0] * 6
        assert node.node.telemetry.value(DROPPED) == 5
        alice.send(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=(CreatableTopic("last", 1, 1),)))
        await asyncio.sleep(1)

    with caplog.at_level("INFO", "moldau"):
        story(in_virtual_time, path, tell)
    first, cut, last = path.read_bytes().splitlines()
    assert [json.loads(line)["resource"] for line in (first, last)] == ["first", "last"]
    assert len(cut) == 10
    assert f"the audit log {path} cannot be written: File too large; 1 event lost" in caplog.text


def test_what_is_allowed_to_clients_that_change_nothing_is_not_written(
    in_virtual_time: InVirtualTime, tmp_path: Path
) -> None:
    async def tell(node: NodeUnderTest) -> None:
        alice = node.connect()
        log_in(alice, ALICE)
        alice.send(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=(CreatableTopic("t", 1, 1),)))
        await asyncio.sleep(1)
        alice.answers()
        for _ in range(20):
            alice.send(ApiKey.PRODUCE, 9, produce(b"v"))
            alice.send(ApiKey.FETCH, 11, fetch(0))
            alice.send(ApiKey.METADATA, 9, MetadataRequest(topics=None))
        *_, produced, fetched, seen = await alice.next_answers(60)
        assert result_of(produced).error_code == 0
        assert data_of(fetched).records
        assert [topic.name for topic in seen.topics] == ["t"]
        assert [label for label, _ in node.node.telemetry.labels_of(EVENTS)] == ["change"]

    path = tmp_path / "audit"
    story(in_virtual_time, path, tell)
    assert [(line["event"], line["resource"]) for line in lines(path)] == [("change", "t")]


def test_a_full_queue_drops_and_counts(in_virtual_time: InVirtualTime, tmp_path: Path) -> None:
    async def tell(node: NodeUnderTest) -> None:
        alice = node.connect()
        log_in(alice, ALICE)
        topics = tuple(CreatableTopic(f"t{number}", 1, 1) for number in range(20))
        alice.send(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=topics))
        await asyncio.sleep(1)
        assert node.node.telemetry.value(DROPPED) == 15

    story(in_virtual_time, tmp_path / "audit", tell, moldau_audit_queue_events="5")
    assert len(lines(tmp_path / "audit")) == 5
