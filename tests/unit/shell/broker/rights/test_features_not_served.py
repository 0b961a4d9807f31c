"""ACLs, SASL, SCRAM credentials, consumer groups of KIP-848: the responses where the feature is not served.

Each response is that of Apache Kafka 4.3.1, without an authorizer and with `group.version` 0.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from typing import Any

import pytest

from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from moldau.wire.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)
from moldau.wire.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from moldau.wire.protocol.messages.scram import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)

pytestmark = pytest.mark.asyncio

TWICE = "A user credential cannot be altered twice in the same request"
NOBODY = "Attempt to delete a user credential that does not exist"


def set_one(name: str, mechanism: int = 1, iterations: int = 4096, password: bytes = b"p") -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name, mechanism, iterations, b"salt", password)


async def alter(
    client: Any, *changes: ScramCredentialDeletion | ScramCredentialUpsertion
) -> dict[str, tuple[int, str | None]]:
    deletions = tuple(one for one in changes if isinstance(one, ScramCredentialDeletion))
    upsertions = tuple(one for one in changes if isinstance(one, ScramCredentialUpsertion))
    request = AlterUserScramCredentialsRequest(deletions, upsertions)
    answer = await client.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
    return {result.user: (result.error_code, result.error_message) for result in answer.results}


async def describe(client: Any, *names: str) -> dict[str, tuple[int, list[tuple[int, int]]]]:
    users = tuple(UserName(name) for name in names) if names else None
    request = DescribeUserScramCredentialsRequest(users)
    answer = await client.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, request)
    assert (answer.error_code, answer.error_message) == (0, "")
    return {
        result.user: (result.error_code, [(info.mechanism, info.iterations) for info in result.credential_infos])
        for result in answer.results
    }


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_acls_are_refused_one_by_one_without_an_authorizer(client: Any, version: int) -> None:
    described = await client.ask(ApiKey.DESCRIBE_ACLS, version, DescribeAclsRequest(2, None, 3, None, None, 3, 3))
    assert (described.error_code, described.error_message) == (54, "No Authorizer is configured on the broker")
    acl = AclCreation(2, "t", 3, "User:a", "*", 3, 3)
    created = await client.ask(ApiKey.CREATE_ACLS, version, CreateAclsRequest((acl, acl)))
    assert [(one.error_code, one.error_message) for one in created.results] == [
        (54, "No Authorizer is configured.")
    ] * 2
    one = DeleteAclsFilter(2, "t", 3, None, None, 3, 3)
    deleted = await client.ask(ApiKey.DELETE_ACLS, version, DeleteAclsRequest((one,)))
    assert [(one.error_code, one.matching_acls) for one in deleted.filter_results] == [(54, ())]


async def test_credentials_are_kept_without_the_password_and_described_after_a_restart(start_node: Any) -> None:
    disk = MemoryDisk()
    node = await start_node(disk=disk)
    client = node.connect()
    assert await alter(client, set_one("a", 2), set_one("b", 1, 16384)) == {"a": (0, None), "b": (0, None)}
    assert await alter(client, set_one("a", 1)) == {"a": (0, None)}
    (kept,) = [one for one in node.node.broker.image.logins.scram_credentials() if one.name == "b"]
    client_key = hmac.digest(b"p", b"Client Key", "sha256")
    assert (kept.salt, kept.stored_key) == (b"salt", hashlib.sha256(client_key).digest())
    assert kept.server_key == hmac.digest(b"p", b"Server Key", "sha256")
    node.node.abort()

    client = (await start_node(disk=disk)).connect()
    assert await describe(client) == {"a": (0, [(1, 4096), (2, 4096)]), "b": (0, [(1, 16384)])}
    assert await describe(client, "b", "c") == {"b": (0, [(1, 16384)]), "c": (91, [])}
    assert await describe(client, "b", "b", "a") == {"b": (92, []), "a": (0, [(1, 4096), (2, 4096)])}
    assert await alter(client, ScramCredentialDeletion("b", 1)) == {"b": (0, None)}
    assert list(await describe(client)) == ["a"]


@pytest.mark.parametrize(
    ("changes", "answers"),
    [
        ((), {}),
        ((ScramCredentialDeletion("x", 1),), {"x": (91, NOBODY)}),
        ((ScramCredentialDeletion("x", 1), ScramCredentialDeletion("x", 1)), {"x": (91, NOBODY)}),
        ((ScramCredentialDeletion("", 1), set_one("")), {"": (93, "Username must not be empty")}),
        ((ScramCredentialDeletion("x", 0), set_one("y", 3)), dict.fromkeys("xy", (33, "Unknown SCRAM mechanism"))),
        ((set_one("x", 1, 4095), set_one("y", 1, -1)), dict.fromkeys("xy", (93, "Too few iterations"))),
        ((set_one("x", 2, 16385),), {"x": (93, "Too many iterations")}),
        ((set_one("x", password=b""),), {"x": (-1, None)}),
        ((set_one("x", 1), set_one("x", 2)), {"x": (92, TWICE)}),
        ((ScramCredentialDeletion("old", 1), set_one("old", 1)), {"old": (92, TWICE)}),
        ((set_one("x", password=b""), set_one("x", iterations=1)), {"x": (92, TWICE)}),
        ((set_one("x"), set_one("x"), set_one("y", 9)), {"x": (92, TWICE), "y": (33, "Unknown SCRAM mechanism")}),
    ],
)
async def test_credentials_that_are_refused_change_nothing(
    client: Any,
    changes: tuple[ScramCredentialDeletion | ScramCredentialUpsertion, ...],
    answers: dict[str, tuple[int, str | None]],
) -> None:
    await alter(client, set_one("old"))
    assert await alter(client, *changes) == answers
    assert await describe(client) == {"old": (0, [(1, 4096)])}


@pytest.mark.parametrize("version", [0, 1])
async def test_consumer_groups_of_kip_848_are_refused_as_with_group_version_0(
    client: Any, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "moldau"):
        for _ in range(3):
            request = ConsumerGroupHeartbeatRequest("g\n", "m", 0)
            beaten = await client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, request)
            assert (beaten.error_code, beaten.error_message, beaten.member_id) == (35, None, None)
    (line,) = [record.getMessage() for record in caplog.records if "not served" in record.getMessage()]
    assert "group.protocol=consumer (group g\\n)" in line
    described = await client.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, version, ConsumerGroupDescribeRequest(("g", "")))
    assert [(group.group_id, group.error_code) for group in described.groups] == [("g", 35), ("", 35)]


@pytest.mark.parametrize(("handshake", "authenticate"), [(0, 0), (1, 1), (1, 2)])
async def test_a_client_that_would_authenticate_is_told_so_and_is_served_on(
    client: Any, handshake: int, authenticate: int
) -> None:
    for _ in range(2):
        answer = await client.ask(ApiKey.SASL_HANDSHAKE, handshake, SaslHandshakeRequest("PLAIN"))
        assert (answer.error_code, answer.mechanisms) == (34, ())
    refused = await client.ask(ApiKey.SASL_AUTHENTICATE, authenticate, SaslAuthenticateRequest(b"\0user\0secret"))
    told = "SaslAuthenticate request received after successful authentication"
    assert (refused.error_code, refused.error_message, refused.auth_bytes) == (34, told, b"")
    assert await describe(client) == {}
