"""A node whose listener requires a login."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.core.metadata.image import ResourceType
from moldau.shell.network.authenticating import EXPIRED, FAILURES, REAUTHENTICATIONS, SUCCESSES
from moldau.shell.network.connection_state import ConnectionState
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.jaas import PLAIN_MODULE
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from moldau.wire.protocol.messages.scram import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from moldau.wire.protocol.sasl_tokens import Credentials
from tests.unit.shell.conftest import Client, NodeUnderTest
from tests.unit.shell.node.sasl_listener import ALICE, CAROL, InVirtualTime, answer, log_in, set_password, story


def metadata(client: Client) -> list[Any]:
    client.send(ApiKey.METADATA, 9, MetadataRequest(topics=()))
    return client.answers()


@pytest.mark.parametrize("credentials", [ALICE, CAROL])
def test_a_client_that_logs_in_is_served_under_its_name(
    in_virtual_time: InVirtualTime, credentials: Credentials
) -> None:
    async def tell(node: NodeUnderTest) -> None:
        await set_password(node, CAROL)
        client = node.connect()
        client.send(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("test", "1"))
        assert client.answers()[0].error_code == 0
        assert await log_in(client, credentials) == 0
        session = client.connection.session
        assert (session.principal, session.mechanism) == (f"User:{credentials.username}", credentials.mechanism)
        assert metadata(client)[0].brokers
        assert node.node.telemetry.value(SUCCESSES, "SASL") == 1

    story(in_virtual_time, tell)


def test_requests_behind_the_last_token_in_the_same_read_are_served(in_virtual_time: InVirtualTime) -> None:
    async def tell(node: NodeUnderTest) -> None:
        client = node.connect()
        client.feed(
            client.request(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
            + client.request(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"\0alice\0secret"))
            + client.request(ApiKey.METADATA, 9, MetadataRequest(topics=()))
        )
        handshake, token, served = await client.next_answers(3)
        assert (handshake.error_code, token.error_code, len(served.brokers)) == (0, 0, 1)

    story(in_virtual_time, tell)


def test_a_request_before_the_login_ends_the_connection(in_virtual_time: InVirtualTime) -> None:
    async def tell(node: NodeUnderTest) -> None:
        client = node.connect()
        assert metadata(client) == []
        assert client.wire.is_closed

    story(in_virtual_time, tell)


def test_a_frame_over_512_kib_before_the_login_ends_the_connection_unread(in_virtual_time: InVirtualTime) -> None:
    async def tell(node: NodeUnderTest) -> None:
        client = node.connect()
        client.feed((524_289).to_bytes(4, "big") + b"\0\x11")
        assert client.wire.is_closed
        client = node.connect()
        client.feed((524_288).to_bytes(4, "big") + b"\0\x11")
        assert not client.wire.is_closed

    story(in_virtual_time, tell)


def test_failed_logins_are_answered_later_and_later_and_others_are_served(in_virtual_time: InVirtualTime) -> None:
    async def tell(node: NodeUnderTest) -> None:
        loop = asyncio.get_running_loop()
        for delay_s in (0.1, 0.2, 0.4, 0.8):
            began_s, client = loop.time(), node.connect()
            client.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
            assert isinstance(await answer(client), SaslHandshakeResponse)
            client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"\0alice\0wrong"))
            assert client.answers() == []
            other = node.connect()
            await log_in(other, ALICE)
            assert metadata(other)
            refused = await answer(client)
            assert isinstance(refused, SaslAuthenticateResponse)
            assert refused.error_code == 58
            assert delay_s - 0.001 < loop.time() - began_s < delay_s + 0.05
            assert client.wire.is_closed
        assert node.node.telemetry.value(FAILURES, "SASL") == 4

    story(in_virtual_time, tell)


def test_a_client_that_leaves_before_its_refusal_frees_its_place(in_virtual_time: InVirtualTime) -> None:
    async def tell(node: NodeUnderTest) -> None:
        for _ in range(250):  # more than may wait at once
            client = node.connect()
            client.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("GSSAPI"))
            assert not client.wire.is_closed
            client.connection.connection_lost(None)
        await asyncio.sleep(60)
        assert node.node.connections.connections == {}

    story(in_virtual_time, tell)


def test_a_deleted_user_is_out_at_once_and_others_stay(in_virtual_time: InVirtualTime) -> None:
    async def tell(node: NodeUnderTest) -> None:
        await set_password(node, CAROL)
        dave = Credentials("SCRAM-SHA-512", "dave", "crayon")
        await set_password(node, dave)
        clients = [node.connect() for _ in range(3)]
        for client, credentials in zip(clients, (CAROL, dave, ALICE), strict=True):
            await log_in(client, credentials)
        request = AlterUserScramCredentialsRequest(deletions=(ScramCredentialDeletion("carol", 2),))
        await node.node.broker.submit(request)
        assert [client.wire.is_closed for client in clients] == [True, False, False]

    story(in_virtual_time, tell)


def test_a_user_that_the_settings_no_longer_name_is_out(in_virtual_time: InVirtualTime) -> None:
    async def tell(node: NodeUnderTest) -> None:
        clients = [node.connect() for _ in range(2)]
        await log_in(clients[0], ALICE)
        await log_in(clients[1], Credentials("PLAIN", "bob", "other"))
        name, value = "listener.name.sasl.plain.sasl.jaas.config", f'{PLAIN_MODULE} required user_bob="new";'
        resource = IncrementalAlterConfigsResource(
            ResourceType.BROKER, "1", (IncrementalAlterableConfig(name, 0, value),)
        )
        answered = await clients[1].ask(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest((resource,))
        )
        assert answered.responses[0].error_code == 0, answered
        await node.turns(5)
        assert [client.wire.is_closed for client in clients] == [True, False]
        await log_in(node.connect(), Credentials("PLAIN", "bob", "new"))

    story(in_virtual_time, tell)


def test_no_answer_shows_the_passwords_of_the_settings(in_virtual_time: InVirtualTime) -> None:
    async def tell(node: NodeUnderTest) -> None:
        client = node.connect()
        await log_in(client, ALICE)
        asked = DescribeConfigsResource(ResourceType.BROKER, "1", None)
        answered = await client.ask(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest((asked,), include_synonyms=True))
        rows = {row.name: row for row in answered.results[0].configs}
        row = rows["listener.name.sasl.plain.sasl.jaas.config"]
        assert (row.value, row.is_sensitive, row.config_type) == (None, True, 9)
        assert "user_alice" not in repr(answered)

    story(in_virtual_time, tell)


def test_a_session_ends_unless_its_client_logs_in_again(in_virtual_time: InVirtualTime) -> None:
    async def tell(node: NodeUnderTest) -> None:
        stays, goes = node.connect(), node.connect()
        assert await log_in(stays, ALICE) == 5_000
        await log_in(goes, ALICE)
        for _ in range(3):
            await asyncio.sleep(4)
            assert await log_in(stays, ALICE) == 5_000
            assert metadata(stays)
        assert metadata(goes) == []
        assert goes.wire.is_closed
        assert node.node.telemetry.value(REAUTHENTICATIONS, "SASL") == 3
        assert node.node.telemetry.value(EXPIRED, "SASL") == 1

    story(in_virtual_time, tell, connections_max_reauth_ms="5000")


def test_a_handshake_of_a_client_that_is_known_gets_illegal_state(in_virtual_time: InVirtualTime) -> None:
    async def tell(node: NodeUnderTest) -> None:
        client = node.connect()
        await log_in(client, ALICE)
        assert client.connection.state is ConnectionState.SERVING
        client.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
        assert client.answers()[0].error_code == 34

    story(in_virtual_time, tell)


def test_a_refusal_in_the_log_is_escaped_and_short_and_without_a_password(
    in_virtual_time: InVirtualTime, caplog: pytest.LogCaptureFixture
) -> None:
    async def tell(node: NodeUnderTest) -> None:
        client = node.connect()
        client.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("\x1b[31m\n" * 1_000))
        await answer(client)
        client = node.connect()
        client.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
        await answer(client)
        client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(b"\0alice\0hidden"))
        await answer(client)

    with caplog.at_level("INFO", "moldau"):
        story(in_virtual_time, tell)
    told = [record.getMessage() for record in caplog.records if "failed authentication" in record.getMessage()]
    assert told
    assert all(len(line) < 300 and "\x1b" not in line and "\n" not in line and "hidden" not in line for line in told)
