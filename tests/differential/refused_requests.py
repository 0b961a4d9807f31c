"""Legal requests of features that are not served, and whether the metadata may change."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages import acls, consumer_groups, delegation_tokens, sasl, scram

TOPIC, LITERAL, USER, ANY_HOST, READ, ALLOW = 2, 3, "User:somebody", "*", 3, 3

Request = tuple[Any, bool]


def _describe_acls(chance: random.Random, prefix: str) -> Request:
    name = chance.choice((None, f"{prefix}-t0"))
    return acls.DescribeAclsRequest(TOPIC, name, LITERAL, None, None, READ, ALLOW), False


def _create_acls(chance: random.Random, prefix: str) -> Request:
    acl = acls.AclCreation(TOPIC, f"{prefix}-t0", LITERAL, USER, ANY_HOST, READ, ALLOW)
    return acls.CreateAclsRequest((acl,) * chance.randrange(3)), False


def _delete_acls(chance: random.Random, prefix: str) -> Request:
    one = acls.DeleteAclsFilter(TOPIC, f"{prefix}-t0", LITERAL, None, None, READ, ALLOW)
    return acls.DeleteAclsRequest((one,) * chance.randrange(3)), False


def _describe_user_scram_credentials(chance: random.Random, prefix: str) -> Request:
    users = tuple(scram.UserName(f"{prefix}-u{chance.randrange(3)}") for _ in range(chance.randrange(1, 4)))
    return scram.DescribeUserScramCredentialsRequest(users), False


def _alter_user_scram_credentials(chance: random.Random, prefix: str) -> Request:
    def user() -> str:
        return chance.choice(("", *(f"{prefix}-u{number}" for number in range(4))))

    def mechanism() -> int:
        return chance.choice((0, 1, 1, 1, 2, 2, 3))

    deletions = tuple(scram.ScramCredentialDeletion(user(), mechanism()) for _ in range(chance.randrange(3)))
    upsertions = tuple(
        scram.ScramCredentialUpsertion(
            user(),
            mechanism(),
            chance.choice((4095, 4096, 8192, 16384, 16385)),
            b"salt",
            chance.choice((b"", b"p" * 32)),
        )
        for _ in range(chance.randrange(4))
    )
    return scram.AlterUserScramCredentialsRequest(deletions, upsertions), True


def _create_delegation_token(chance: random.Random, prefix: str) -> Request:
    renewers = tuple(
        delegation_tokens.CreatableRenewers(chance.choice(("User", "Group")), f"{prefix}-u{number}")
        for number in range(chance.randrange(3))
    )
    request = delegation_tokens.CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=chance.choice((-1, 9)))
    return request, False


def _renew_delegation_token(chance: random.Random, prefix: str) -> Request:
    return delegation_tokens.RenewDelegationTokenRequest(b"x" * chance.randrange(3), chance.choice((-1, 1_000))), False


def _expire_delegation_token(chance: random.Random, prefix: str) -> Request:
    return delegation_tokens.ExpireDelegationTokenRequest(b"x" * chance.randrange(3), chance.choice((-1, 1_000))), False


def _describe_delegation_token(chance: random.Random, prefix: str) -> Request:
    owner = delegation_tokens.DescribeDelegationTokenOwner("User", f"{prefix}-u0")
    return delegation_tokens.DescribeDelegationTokenRequest(chance.choice((None, (), (owner,)))), False


def _consumer_group_heartbeat(chance: random.Random, prefix: str) -> Request:
    name = chance.choice(("", f"{prefix}-g0"))
    return consumer_groups.ConsumerGroupHeartbeatRequest(name, "member", 0, subscribed_topic_names=("t",)), False


def _consumer_group_describe(chance: random.Random, prefix: str) -> Request:
    return consumer_groups.ConsumerGroupDescribeRequest((f"{prefix}-g0", "")[: chance.randrange(3)]), False


def _sasl_handshake(chance: random.Random, prefix: str) -> Request:
    return sasl.SaslHandshakeRequest(chance.choice(("PLAIN", "SCRAM-SHA-256", ""))), False


def _sasl_authenticate(chance: random.Random, prefix: str) -> Request:
    return sasl.SaslAuthenticateRequest(chance.choice((b"\0user\0secret", b""))), False


REFUSED: dict[ApiKey, Callable[[random.Random, str], Request]] = {
    ApiKey.DESCRIBE_ACLS: _describe_acls,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.CREATE_DELEGATION_TOKEN: _create_delegation_token,
    ApiKey.RENEW_DELEGATION_TOKEN: _renew_delegation_token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _expire_delegation_token,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _describe_delegation_token,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _describe_user_scram_credentials,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    ApiKey.SASL_HANDSHAKE: _sasl_handshake,
    ApiKey.SASL_AUTHENTICATE: _sasl_authenticate,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _consumer_group_describe,
}
