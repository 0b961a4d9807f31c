"""The states of a connection: the receiver of its frames, and the reason of its loss."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.errors import ProtocolError
from moldau.shell.network.connection_state import ConnectionState
from moldau.shell.network.pending_response import PendingResponse
from moldau.shell.network.reply import Reply
from moldau.shell.network.session import ANONYMOUS, Session
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.framing import frame
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from tests.unit.shell.conftest import Client, NodeUnderTest

pytestmark = pytest.mark.asyncio


class PasswordCheck:
    """Takes frames until one is the password: that one makes its client User:alice. The frame "wrong" ends the
    connection; "later" is answered when the test says so."""

    def __init__(self, connection: Reply) -> None:
        self.taken: list[bytes] = []
        self.later: PendingResponse | None = None

    def handle(self, connection: Reply, request: memoryview) -> bytes | PendingResponse | None:
        word = bytes(request)
        self.taken.append(word)
        if word == b"wrong":
            raise ProtocolError("a wrong password")
        if word == b"later":
            self.later = connection.reserve()
            return self.later
        if word == b"secret":
            connection.authenticated(Session("User:alice", connection.session.client_address, "SASL"))
        return frame(b"taken")


class Door:
    """A listener that asks for a password."""

    def __init__(self, node: NodeUnderTest) -> None:
        self.group = node.connect().connection.group
        self.checks: list[PasswordCheck] = []

    def _new_check(self, connection: Reply) -> PasswordCheck:
        self.checks.append(PasswordCheck(connection))
        return self.checks[-1]

    def connect(self) -> tuple[Client, PasswordCheck]:
        client = Client(self.group.new_connection("SASL", self._new_check))  # type: ignore[attr-defined]
        return client, self.checks[-1]


def api_versions(client: Client) -> bytes:
    return client.request(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())


def state_of(client: Client) -> ConnectionState:
    return client.connection.state


async def test_the_dispatcher_gets_the_frames_behind_the_one_that_authenticates(node: Any) -> None:
    client, check = Door(node).connect()
    assert state_of(client) is ConnectionState.AUTHENTICATING
    client.feed(frame(b"hello") + frame(b"secret") + api_versions(client) + api_versions(client))
    await node.turns(2)
    assert check.taken == [b"hello", b"secret"]
    assert client.wire.sent[:18] == frame(b"taken") * 2
    client._read = 18
    assert len(client.answers()) == 2
    assert client.connection.session.principal == "User:alice"
    assert state_of(client) is ConnectionState.SERVING


async def test_no_frame_passes_by_an_authenticator_that_still_works(node: Any) -> None:
    client, check = Door(node).connect()
    client.feed(frame(b"later") + frame(b"secret") + api_versions(client))
    await node.turns(2)
    assert (check.taken, bytes(client.wire.sent)) == ([b"later"], b"")
    assert check.later is not None
    check.later.complete(frame(b"done"))
    await node.turns(3)
    assert check.taken == [b"later", b"secret"]
    client._read = len(frame(b"done")) + len(frame(b"taken"))
    assert len(client.answers()) == 1


async def test_a_client_that_fails_to_authenticate_reaches_no_handler(node: Any) -> None:
    client, check = Door(node).connect()
    before = node.node.dispatcher.request_counts()
    client.feed(frame(b"wrong") + frame(b"secret") + api_versions(client))
    await node.turns(2)
    assert client.wire.is_closed
    assert (check.taken, bytes(client.wire.sent)) == ([b"wrong"], b"")
    assert client.connection.session.principal == ANONYMOUS
    assert node.node.dispatcher.request_counts() == before


async def test_a_frame_before_authentication_is_short(node: Any) -> None:
    door = Door(node)
    client, _ = door.connect()
    client.feed((512 << 10).to_bytes(4, "big") + b"begun")
    assert not client.wire.is_closed
    client, check = door.connect()
    client.feed(((512 << 10) + 1).to_bytes(4, "big") + b"begun")
    assert client.wire.is_closed
    assert check.taken == []
    client, _ = door.connect()
    client.feed(frame(b"secret") + ((512 << 10) + 1).to_bytes(4, "big") + b"begun")
    await node.turns(2)
    assert not client.wire.is_closed
    assert node.node.connections.request_memory.used_bytes == 0


async def test_authentication_begins_when_the_node_serves(node: Any) -> None:
    door = Door(node)
    group, dispatcher = door.group, door.group.dispatcher
    group.dispatcher = None
    client = Client(group.new_connection("SASL", door._new_check))  # type: ignore[attr-defined]
    client.feed(frame(b"secret") + api_versions(client))
    await node.turns(2)
    assert client.connection.state is ConnectionState.ADMITTED
    assert not door.checks
    assert not client.wire.sent
    group.open(dispatcher)  # type: ignore[attr-defined]
    await node.turns(3)
    assert door.checks[0].taken == [b"secret"]
    client._read = len(frame(b"taken"))
    assert len(client.answers()) == 1


async def test_what_is_put_in_front_of_the_dispatcher_gets_no_password(node: Any) -> None:
    door = Door(node)
    client, check = door.connect()
    in_front = PasswordCheck(client.connection)
    node.node.connections.hand_frames_to(in_front)
    client.feed(frame(b"secret"))
    client.feed(frame(b"other"))
    assert (check.taken, in_front.taken) == ([b"secret"], [b"other"])


@pytest.mark.parametrize("error", [None, ConnectionResetError()])
async def test_a_lost_connection_says_whether_it_was_reset(client: Any, error: Exception | None) -> None:
    said: list[bool] = []
    client.connection.when_lost(said.append)
    client.connection.connection_lost(error)
    client.connection.close()
    client.connection.when_lost(said.append)
    assert said == [error is not None] * 2
    assert client.connection.state is (ConnectionState.ENDED if error is None else ConnectionState.RESET)
