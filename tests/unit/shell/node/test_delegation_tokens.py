"""Delegation tokens on one node: the rights to create, change and see them, and logins by them (KIP-48, KIP-373)."""

from __future__ import annotations

import asyncio
import base64
import logging
from typing import Any

import pytest

from moldau.core.authorization.settings import STANDARD_AUTHORIZER
from moldau.errors import KafkaError
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.acls import AclCreation, CreateAclsRequest
from moldau.wire.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.wire.protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.sasl_tokens import Credentials
from tests.unit.shell.conftest import Client, NodeUnderTest, StartNode
from tests.unit.shell.node.sasl_listener import ALICE, InVirtualTime, answer, log_in, story

BOB = Credentials("PLAIN", "bob", "other")
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
SECRET_KEY = "a secret of the cluster"
TOKENS = {"delegation_token_secret_key": SECRET_KEY}
AUTHORIZED = TOKENS | {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": "User:root"}
USER, DELEGATION_TOKEN, LITERAL, ALLOW = 7, 6, 3, 3
DESCRIBE, CREATE_TOKENS, DESCRIBE_TOKENS = 8, 13, 14


async def ask(client: Client, key: ApiKey, version: int, request: Any) -> Any:
    client.send(key, version, request)
    return await answer(client)


async def create(client: Client, owner: str = "", renewers: tuple[str, ...] = (), lifetime_ms: int = -1) -> Any:
    kind, name = ("User", owner) if owner else (None, None)
    each = tuple(CreatableRenewers("User", renewer) for renewer in renewers)
    request = CreateDelegationTokenRequest(kind, name, each, lifetime_ms)
    return await ask(client, ApiKey.CREATE_DELEGATION_TOKEN, 3, request)


async def renew(client: Client, hmac: bytes, period_ms: int = -1) -> Any:
    return await ask(client, ApiKey.RENEW_DELEGATION_TOKEN, 2, RenewDelegationTokenRequest(hmac, period_ms))


async def expire(client: Client, hmac: bytes, period_ms: int = -1) -> Any:
    return await ask(client, ApiKey.EXPIRE_DELEGATION_TOKEN, 2, ExpireDelegationTokenRequest(hmac, period_ms))


async def seen(client: Client, *owners: str) -> list[str]:
    """The ids of the tokens that the client sees."""
    asked = tuple(DescribeDelegationTokenOwner("User", owner) for owner in owners) if owners else None
    described = await ask(client, ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, DescribeDelegationTokenRequest(asked))
    assert described.error_code == 0
    return [token.token_id for token in described.tokens]


async def logged_in(node: NodeUnderTest, credentials: Credentials = ALICE) -> Client:
    client = node.connect()
    await log_in(client, credentials)
    return client


def by(token: Any, mechanism: str = "SCRAM-SHA-512") -> Credentials:
    return Credentials(mechanism, token.token_id, base64.b64encode(token.hmac).decode(), is_token=True)


def is_served(client: Client) -> bool:
    client.send(ApiKey.METADATA, 9, MetadataRequest(topics=()))
    return bool(client.answers())


def test_a_token_logs_its_bearer_in_as_the_owner_until_it_expires(in_virtual_time: InVirtualTime) -> None:
    async def tell(node: NodeUnderTest) -> None:
        token = await create(await logged_in(node), lifetime_ms=HOUR_MS)
        assert (token.error_code, token.principal_name, token.token_requester_principal_name) == (0, "alice", "alice")
        assert token.expiry_timestamp_ms == token.max_timestamp_ms == token.issue_timestamp_ms + HOUR_MS
        assert len(token.hmac) == 64
        bearer = node.connect()
        lifetime_ms = await log_in(bearer, by(token))
        assert HOUR_MS - MINUTE_MS < lifetime_ms <= HOUR_MS
        session = bearer.connection.session
        assert (session.principal, session.is_token_authenticated) == ("User:alice", True)
        assert is_served(bearer)
        await asyncio.sleep(HOUR_MS / 1_000 + 1)
        assert not is_served(bearer)
        assert bearer.wire.is_closed
        with pytest.raises(KafkaError, match="SCRAM-SHA-512"):
            await logged_in(node, by(token))

    story(in_virtual_time, tell, **TOKENS)


def test_a_session_by_a_token_makes_and_sees_no_tokens(in_virtual_time: InVirtualTime) -> None:
    async def tell(node: NodeUnderTest) -> None:
        token = await create(await logged_in(node))
        bearer = await logged_in(node, by(token))
        described = await ask(bearer, ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, DescribeDelegationTokenRequest(None))
        answers = [await create(bearer), await renew(bearer, token.hmac), await expire(bearer, token.hmac), described]
        assert [each.error_code for each in answers] == [64] * 4

    story(in_virtual_time, tell, **TOKENS)


def test_a_renewed_token_goes_on_with_the_session(in_virtual_time: InVirtualTime) -> None:
    async def tell(node: NodeUnderTest) -> None:
        owner = await logged_in(node)
        token = await create(owner)
        bearer, other = await logged_in(node, by(token)), await logged_in(node, by(token))
        await asyncio.sleep(40)
        assert (await renew(owner, token.hmac)).error_code == 0
        assert await log_in(bearer, by(token)) > 59_000
        await asyncio.sleep(40)
        assert [is_served(client) for client in (bearer, other)] == [True, False]

    story(in_virtual_time, tell, **TOKENS, delegation_token_expiry_time_ms=str(MINUTE_MS))


@pytest.mark.parametrize("period_ms", [-1, 0])
def test_a_token_that_is_ended_ends_its_connections_alone(in_virtual_time: InVirtualTime, period_ms: int) -> None:
    async def tell(node: NodeUnderTest) -> None:
        owner = await logged_in(node)
        ended, other = await create(owner), await create(owner)
        bearers = [await logged_in(node, by(token)) for token in (ended, other)]
        assert (await expire(owner, ended.hmac, period_ms)).error_code == 0
        await asyncio.sleep(1)
        assert bearers[0].wire.is_closed == (period_ms < 0)  # an expired one ends with the next request
        assert [is_served(client) for client in (*bearers, owner)] == [False, True, True]

    story(in_virtual_time, tell, **TOKENS)


def test_expired_tokens_are_swept(in_virtual_time: InVirtualTime) -> None:
    async def tell(node: NodeUnderTest) -> None:
        owner = await logged_in(node)
        short, long = await create(owner, lifetime_ms=MINUTE_MS), await create(owner)
        assert await seen(owner) == [short.token_id, long.token_id]
        await asyncio.sleep(HOUR_MS / 1_000 + 1)
        owner = await logged_in(node)
        assert await seen(owner) == [long.token_id]
        assert (await expire(owner, short.hmac)).error_code == 62

    story(in_virtual_time, tell, **TOKENS)


def test_only_owner_and_renewers_may_change_a_token(in_virtual_time: InVirtualTime) -> None:
    async def tell(node: NodeUnderTest) -> None:
        alice, bob = await logged_in(node), await logged_in(node, BOB)
        own, shared = await create(alice, lifetime_ms=MINUTE_MS), await create(alice, renewers=("bob",))
        assert [(await renew(bob, token.hmac)).error_code for token in (own, shared)] == [63, 0]
        assert [(await expire(bob, token.hmac)).error_code for token in (own, shared)] == [63, 0]
        assert (await renew(alice, b"x" * 64)).error_code == 62
        await asyncio.sleep(MINUTE_MS / 1_000 + 1)
        # as in Apache Kafka, expiry is checked first for a renewal, last for an expiration
        assert [(await renew(client, own.hmac)).error_code for client in (alice, bob)] == [66, 66]
        assert [(await expire(client, own.hmac, 1)).error_code for client in (alice, bob)] == [66, 63]
        assert (await expire(alice, own.hmac)).error_code == 0

    story(in_virtual_time, tell, **TOKENS)


def test_without_a_secret_key_there_are_no_tokens(in_virtual_time: InVirtualTime) -> None:
    async def tell(node: NodeUnderTest) -> None:
        client = await logged_in(node)
        described = await ask(client, ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, DescribeDelegationTokenRequest(None))
        answers = [await create(client), await renew(client, b"x"), await expire(client, b"x"), described]
        assert [each.error_code for each in answers] == [61] * 4

    story(in_virtual_time, tell)


def test_a_plaintext_listener_gives_no_tokens(in_virtual_time: InVirtualTime) -> None:
    async def run(start_node: StartNode) -> None:
        client = (await start_node({"delegation.token.secret.key": "k"})).connect()
        for key, request in (
            (ApiKey.CREATE_DELEGATION_TOKEN, CreateDelegationTokenRequest()),
            (ApiKey.RENEW_DELEGATION_TOKEN, RenewDelegationTokenRequest(b"x")),
            (ApiKey.EXPIRE_DELEGATION_TOKEN, ExpireDelegationTokenRequest(b"x")),
            (ApiKey.DESCRIBE_DELEGATION_TOKEN, DescribeDelegationTokenRequest(None)),
        ):
            assert (await ask(client, key, 2, request)).error_code == 64

    in_virtual_time(run)


def test_rights_decide_over_tokens_of_others(in_virtual_time: InVirtualTime) -> None:
    """CreateTokens and DescribeTokens of a user, Describe of a token (KIP-373)."""

    async def tell(node: NodeUnderTest) -> None:
        async def allow(kind: int, name: str, operation: int) -> None:
            acl = AclCreation(kind, name, LITERAL, "User:bob", "*", operation, ALLOW)
            made = await node.node.broker.submit(CreateAclsRequest((acl,)))
            assert made.results[0].error_code == 0

        alice, bob = await logged_in(node), await logged_in(node, BOB)
        own = await create(alice)
        refused = await create(bob, owner="alice")
        assert (refused.error_code, refused.principal_name, refused.token_requester_principal_name) == (
            65,
            "alice",
            "bob",
        )
        assert await seen(bob) == await seen(bob, "alice") == []
        await allow(USER, "User:alice", CREATE_TOKENS)
        made = await create(bob, owner="alice")
        assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (0, "alice", "bob")
        assert await seen(bob) == await seen(bob, "bob") == [made.token_id]
        await allow(DELEGATION_TOKEN, own.token_id, DESCRIBE)
        assert await seen(bob) == [own.token_id, made.token_id]
        await allow(USER, "User:alice", DESCRIBE_TOKENS)
        assert await seen(bob) == await seen(bob, "alice") == [own.token_id, made.token_id]
        assert await seen(bob, "carol") == []
        assert (await logged_in(node, by(made, "SCRAM-SHA-512"))).connection.session.principal == "User:alice"

    story(in_virtual_time, tell, **AUTHORIZED)


def test_the_secret_key_is_not_shown(in_virtual_time: InVirtualTime, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def tell(node: NodeUnderTest) -> None:
        client = await logged_in(node)
        token = await create(client)
        await logged_in(node, by(token))
        resource = DescribeConfigsResource(4, "1", None)
        described = await ask(client, ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest((resource,), True))
        (row,) = [one for one in described.results[0].configs if one.name == "delegation.token.secret.key"]
        assert (row.value, row.is_sensitive, row.read_only) == (None, True, True)
        said = f"{described} {token} {caplog.text} {by(token)}"
        for secret in (SECRET_KEY, repr(token.hmac)[2:-1], base64.b64encode(token.hmac).decode()):
            assert secret not in said

    story(in_virtual_time, tell, **TOKENS)


def test_a_renewer_that_is_no_user_is_refused(in_virtual_time: InVirtualTime) -> None:
    async def tell(node: NodeUnderTest) -> None:
        client = await logged_in(node)
        request = CreateDelegationTokenRequest(None, None, (CreatableRenewers("Group", "g"),), -1)
        assert (await ask(client, ApiKey.CREATE_DELEGATION_TOKEN, 3, request)).error_code == 67
        assert await seen(client) == []

    story(in_virtual_time, tell, **TOKENS)
