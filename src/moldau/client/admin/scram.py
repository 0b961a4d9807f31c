"""SCRAM credentials of users (KIP-554): set, removed, described. Passwords stay here: what is sent is salted."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.error_texts import error_of
from moldau.errors import KafkaError, kafka_error
from moldau.ports import Random
from moldau.wire.protocol.messages.scram import (
    AlterUserScramCredentialsRequest,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)

MECHANISMS: Final[dict[str, int]] = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""As the protocol numbers them."""
MIN_ITERATIONS: Final = 4_096
_HASHES: Final[dict[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_SALT_BYTES: Final = 20
_RESOURCE_NOT_FOUND: Final = 91


class Credential(msgspec.Struct, frozen=True):
    """What a user shall have: a mechanism of MECHANISMS, its iterations, the password as it was typed."""

    mechanism: str
    iterations: int
    password: str


class User(msgspec.Struct, frozen=True):
    """`credentials`: (mechanism, iterations), in the order of the protocol's numbers; `error`: why there are none."""

    name: str
    credentials: tuple[tuple[str, int], ...]
    error: KafkaError | None = None


def alter_credentials(
    admin: ClusterAdmin, random: Random, user: str, to_set: Sequence[Credential], to_delete: Sequence[str]
) -> None:
    """Sets credentials of `user`, and removes those of the mechanisms `to_delete`. All of it is done, or
    nothing. Each salt comes from `random`."""
    if any(not credential.password for credential in to_set):
        raise kafka_error("UNACCEPTABLE_CREDENTIAL", "Password must not be empty")
    request = AlterUserScramCredentialsRequest(
        deletions=tuple(ScramCredentialDeletion(user, MECHANISMS[mechanism]) for mechanism in to_delete),
        upsertions=tuple(_upsertion(user, credential, random.random_bytes(_SALT_BYTES)) for credential in to_set),
    )
    response = admin.ask(request)
    for result in response.results:
        if result.error_code:
            raise error_of(result.error_code, result.error_message)


def _upsertion(user: str, credential: Credential, salt: bytes) -> ScramCredentialUpsertion:
    mechanism = MECHANISMS[credential.mechanism]
    return ScramCredentialUpsertion(user, mechanism, credential.iterations, salt, salted_password(credential, salt))


def salted_password(credential: Credential, salt: bytes) -> bytes:
    """`Hi(password, salt, iterations)` of RFC 5802. As in Kafka's client, the password is not normalized first."""
    password = credential.password.encode()
    return hashlib.pbkdf2_hmac(_HASHES[credential.mechanism], password, salt, credential.iterations)


def describe_credentials(admin: ClusterAdmin, names: Sequence[str]) -> list[User]:
    """The users `names`, all if it is empty; a user without credentials is left out, as by Kafka's client."""
    request = DescribeUserScramCredentialsRequest(users=tuple(UserName(name) for name in names))
    response = admin.ask(request)
    if response.error_code:
        raise error_of(response.error_code, response.error_message)
    return [
        User(
            result.user,
            _named(result.credential_infos),
            error_of(result.error_code, result.error_message) if result.error_code else None,
        )
        for result in sorted(response.results, key=lambda result: result.user)
        if result.error_code != _RESOURCE_NOT_FOUND
    ]


def _named(infos: Sequence[CredentialInfo]) -> tuple[tuple[str, int], ...]:
    names = {number: name for name, number in MECHANISMS.items()}
    return tuple((names.get(info.mechanism, "UNKNOWN"), info.iterations) for info in infos)
