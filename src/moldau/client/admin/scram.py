"""SCRAM credentials of users (KIP-554): sets, removes and describes them. Passwords are salted before they are sent."""

from __future__ import annotations

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
from moldau.wire.protocol.sasl_tokens import SCRAM_NUMBERS, salted_password

_SALT_BYTES: Final = 20
_RESOURCE_NOT_FOUND: Final = 91


class Credential(msgspec.Struct, frozen=True):
    """A new credential: a mechanism of SCRAM_NUMBERS, its iterations, and the password as typed."""

    mechanism: str
    iterations: int
    password: str


class User(msgspec.Struct, frozen=True):
    """`credentials`: (mechanism, iterations), in the order of the protocol's numbers. `error`: the reason if they are
    missing."""

    name: str
    credentials: tuple[tuple[str, int], ...]
    error: KafkaError | None = None


def alter_credentials(
    admin: ClusterAdmin, random: Random, user: str, to_set: Sequence[Credential], to_delete: Sequence[str]
) -> None:
    """Sets credentials of `user`, and removes those of the mechanisms `to_delete`. Applies all changes or none. Salts
    come from `random`."""
    if any(not credential.password for credential in to_set):
        raise kafka_error("UNACCEPTABLE_CREDENTIAL", "Password must not be empty")
    request = AlterUserScramCredentialsRequest(
        deletions=tuple(ScramCredentialDeletion(user, SCRAM_NUMBERS[mechanism]) for mechanism in to_delete),
        upsertions=tuple(_upsertion(user, credential, random.random_bytes(_SALT_BYTES)) for credential in to_set),
    )
    response = admin.ask(request)
    for result in response.results:
        if result.error_code:
            raise error_of(result.error_code, result.error_message)


def _upsertion(user: str, credential: Credential, salt: bytes) -> ScramCredentialUpsertion:
    salted = salted_password(credential.mechanism, credential.password, salt, credential.iterations)
    return ScramCredentialUpsertion(user, SCRAM_NUMBERS[credential.mechanism], credential.iterations, salt, salted)


def describe_credentials(admin: ClusterAdmin, names: Sequence[str]) -> list[User]:
    """The users `names`, or all if it is empty. Leaves out users without credentials, as Kafka's client does."""
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
    names = {number: name for name, number in SCRAM_NUMBERS.items()}
    return tuple((names.get(info.mechanism, "UNKNOWN"), info.iterations) for info in infos)
