"""Unauthenticated clients on a SASL listener: long frames and long tokens, and their memory."""

from __future__ import annotations

import asyncio
import gc
import re
import tracemalloc

import pytest

from moldau.core.authentication.authentication import MAX_TOKEN_BYTES
from moldau.shell.network.authenticating import FAILURES
from moldau.shell.network.bounds import UNAUTHENTICATED_SHARE
from moldau.shell.network.connection_group import UNAUTHENTICATED_MEMORY
from moldau.shell.network.long_frame import LongFrame
from moldau.shell.network.server_connection import CARRY_BYTES, ServerConnection
from moldau.telemetry import BOUND_REACHED
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.framing import frame
from moldau.wire.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.support.node import produce, result_of
from tests.unit.shell.conftest import Client, NodeUnderTest
from tests.unit.shell.node.sasl_listener import ALICE, CAROL, InVirtualTime, answer, log_in, set_password, story

FRAME_BYTES = 524_288
"""The default of sasl.server.max.receive.size."""
STRANGERS = 1_000


def begin(client: Client, mechanism: str, version: int = 1) -> None:
    client.send(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism))
    assert client.answers()[0].error_code == 0


def token_frame(client: Client, frame_bytes: int) -> bytes:
    """A whole request, without its length."""
    around = len(client.request(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(bytes(frame_bytes - 100)))) - 4
    client._asked.pop()
    token = b"\0alice\0".ljust(frame_bytes - around + frame_bytes - 100, b"x")
    made = client.request(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(token))
    assert len(made) == 4 + frame_bytes
    return made


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_frame_of_512_kib_is_a_failed_login(
    in_virtual_time: InVirtualTime, caplog: pytest.LogCaptureFixture, mechanism: str
) -> None:
    async def tell(node: NodeUnderTest) -> None:
        client, bare = node.connect(), node.connect()
        begin(client, mechanism)
        client.feed(token_frame(client, FRAME_BYTES))
        refused = await answer(client)
        assert (refused.error_code, refused.auth_bytes) == (58, b"")
        assert refused.error_message.endswith(f"invalid credentials with SASL mechanism {mechanism}")
        begin(bare, mechanism, version=0)
        bare.feed(frame(bytes(FRAME_BYTES)))
        await asyncio.sleep(1)
        assert bare.answers() == []
        assert client.wire.is_closed
        assert bare.wire.is_closed
        assert node.node.telemetry.value(FAILURES, "SASL") == 2

    with caplog.at_level("INFO", "moldau"):
        story(in_virtual_time, tell)
    assert re.search(rf"a token of 524\d\d\d bytes, and {MAX_TOKEN_BYTES} are read", caplog.text)


def test_1000_long_frames_of_strangers_hold_little_memory_and_delay_nobody(in_virtual_time: InVirtualTime) -> None:
    async def tell(node: NodeUnderTest) -> None:
        await node.create_topic("t")
        group = node.node.connections
        limit_bytes = group.unauthenticated_memory.limit_bytes
        assert limit_bytes == group.request_memory.limit_bytes // UNAUTHENTICATED_SHARE
        alice = node.connect()
        await log_in(alice, ALICE)
        strangers = [node.connect() for _ in range(STRANGERS)]
        unfinished = FRAME_BYTES.to_bytes(4, "big") + b"\0\x24\0\2".ljust(FRAME_BYTES - 1, b"x")
        for stranger in strangers:
            stranger.feed(unfinished)
        frames = [stranger.connection._frame for stranger in strangers]
        held_bytes = sum(len(each.buffer) for each in frames if each is not None)
        assert all(frames)
        assert held_bytes == group.unauthenticated_memory.used_bytes <= limit_bytes + STRANGERS * CARRY_BYTES
        assert held_bytes > limit_bytes // 2
        assert node.node.telemetry.value(BOUND_REACHED, UNAUTHENTICATED_MEMORY) > 0
        assert group.request_memory.used_bytes == 0
        value = bytes(300_000)  # longer than one read
        for _ in range(3):
            alice.send(ApiKey.PRODUCE, 9, produce(value))
            await node.turns(2)
            (produced,) = alice.answers()
            assert result_of(produced).error_code == 0
        await asyncio.sleep(12)
        assert all(stranger.wire.is_closed for stranger in strangers)
        assert group.unauthenticated_memory.used_bytes == 0
        assert not alice.wire.is_closed

    story(in_virtual_time, tell)


def test_a_long_request_behind_the_token_is_served(in_virtual_time: InVirtualTime) -> None:
    async def tell(node: NodeUnderTest) -> None:
        await node.create_topic("t")
        group, client = node.node.connections, node.connect()
        begin(client, "PLAIN")
        token = client.request(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"\0alice\0secret"))
        request = client.request(ApiKey.PRODUCE, 9, produce(bytes(300_000)))
        client.feed(token + request[:20_000])
        client.feed(request[20_000:])
        await node.turns(2)
        logged_in, produced = client.answers()
        assert (logged_in.error_code, result_of(produced).error_code) == (0, 0)
        assert group.request_memory.used_bytes == group.unauthenticated_memory.used_bytes == 0

    story(in_virtual_time, tell)


def test_an_exchange_that_is_not_ended_holds_little_memory(in_virtual_time: InVirtualTime) -> None:
    async def tell(node: NodeUnderTest) -> None:
        await set_password(node, CAROL)
        strangers = [node.connect() for _ in range(100)]
        for stranger in strangers:
            begin(stranger, CAROL.mechanism)
        first = b"n,,n=carol,r=".ljust(MAX_TOKEN_BYTES, b"r")
        requests = [
            stranger.request(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(first)) for stranger in strangers
        ]
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for stranger, request in zip(strangers, requests, strict=True):
                stranger.feed(request)
            held_bytes = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        sent_bytes = sum(len(stranger.wire.sent) for stranger in strangers)
        assert sent_bytes > len(strangers) * MAX_TOKEN_BYTES
        assert held_bytes < len(strangers) * 8 * MAX_TOKEN_BYTES

    story(in_virtual_time, tell)


async def visit(node: NodeUnderTest, how: str) -> None:
    """A client that connects, and is gone at the end."""
    client = node.connect()
    if how == "logged in":
        await log_in(client, ALICE)
        client.connection.close()
    elif how == "refused":
        begin(client, "PLAIN")
        client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"\0alice\0wrong"))
        await answer(client)
    elif how == "left":
        begin(client, "PLAIN")
        client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"\0alice\0wrong"))
        client.connection.connection_lost(None)
        client.wire.is_closed = True
    else:
        client.feed(FRAME_BYTES.to_bytes(4, "big") + b"\0\x24\0\2".ljust(100_000, b"x"))
        await asyncio.sleep(12)
    await asyncio.sleep(1)
    assert client.wire.is_closed
    client.wire.protocol = None  # like a transport of a loop


def held() -> list[object]:
    return [each for each in gc.get_objects() if isinstance(each, ServerConnection | LongFrame)]


@pytest.mark.parametrize(
    "how", ["logged in", *(pytest.param(how, marks=pytest.mark.slow) for how in ("refused", "left", "late"))]
)
def test_a_connection_that_has_ended_is_freed_without_the_collector(in_virtual_time: InVirtualTime, how: str) -> None:
    async def tell(node: NodeUnderTest) -> None:
        gc.collect()
        others = held()  # of earlier tests
        gc.disable()
        try:
            await visit(node, how)
            await asyncio.sleep(1)
            assert [type(each) for each in held() if not any(each is other for other in others)] == []
        finally:
            gc.enable()

    story(in_virtual_time, tell)


@pytest.mark.parametrize(
    "first",
    [
        b"p=tls-server-end-point,,n=carol,r=abc",
        b"p=tls-exporter,,n=carol,r=abc",
        b"n,,n=carol,r=",
        b"n,,m=1,n=carol,r=abc",
        b"n,,n=carol,r=" + b"a" * 10_000 + b"\0",
    ],
)
def test_a_channel_binding_or_a_damaged_first_message_is_a_failed_login(
    in_virtual_time: InVirtualTime, first: bytes
) -> None:
    async def tell(node: NodeUnderTest) -> None:
        await set_password(node, CAROL)
        stranger, other = node.connect(), node.connect()
        begin(stranger, CAROL.mechanism)
        stranger.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(first))
        assert stranger.answers() == []
        await log_in(other, CAROL)
        refused = await answer(stranger)
        assert (refused.error_code, refused.auth_bytes) == (58, b"")
        assert stranger.wire.is_closed

    story(in_virtual_time, tell)
