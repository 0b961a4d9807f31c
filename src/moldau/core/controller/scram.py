"""AlterUserScramCredentials and DescribeUserScramCredentials (KIP-554). For logins see core/authentication.

Responses are those of Apache Kafka. Results come in the order of the request; Kafka's come in that of a Java hash map.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable
from typing import Any

from moldau.core.metadata.batches import MAX_BATCH_RECORDS, batch_too_large
from moldau.core.metadata.fold import MetadataRecord
from moldau.core.metadata.login_records import LoginRecords
from moldau.errors import KafkaError, kafka_error
from moldau.types import Pausing
from moldau.wire.protocol.messages.metadata_records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from moldau.wire.protocol.messages.scram import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from moldau.wire.protocol.sasl_tokens import MIN_ITERATIONS

MAX_ITERATIONS = 16_384
UNUSABLE_KEY = "UNKNOWN_SERVER_ERROR"
"""Kafka finds an empty salted password last, when it creates the record."""
Change = ScramCredentialDeletion | ScramCredentialUpsertion
_HASHES: dict[int, Callable[..., Any]] = {1: hashlib.sha256, 2: hashlib.sha512}
"""By mechanism."""


def alter_user_scram_credentials(
    kept: LoginRecords, request: AlterUserScramCredentialsRequest
) -> Pausing[tuple[list[MetadataRecord], AlterUserScramCredentialsResponse]]:
    """The records of the changes, and a result for each user. A repeated user is not changed."""
    changes: dict[str, MetadataRecord | KafkaError] = {}
    for change in _changes(request):
        yield
        present = changes.get(change.name)
        if isinstance(present, KafkaError) and present.name != UNUSABLE_KEY:
            continue
        if present is not None:
            changes[change.name] = kafka_error(
                "DUPLICATE_RESOURCE", "A user credential cannot be altered twice in the same request"
            )
            continue
        try:
            changes[change.name] = _record(kept, change)
        except KafkaError as error:
            changes[change.name] = error
    records: list[MetadataRecord] = []
    results: list[AlterUserScramCredentialsResult] = []
    for name, one in changes.items():
        if isinstance(one, KafkaError):
            results.append(_result(name, one))
        else:
            results.append(_result(name, None))
            records.append(one)
        yield
    if len(records) > MAX_BATCH_RECORDS:
        return [], (yield from refused(request, batch_too_large()))
    return records, AlterUserScramCredentialsResponse(results=tuple(results))


def refused(request: AlterUserScramCredentialsRequest, error: KafkaError) -> Pausing[AlterUserScramCredentialsResponse]:
    """The response with `error` for each user."""
    results: dict[str, AlterUserScramCredentialsResult] = {}
    for change in _changes(request):
        results[change.name] = _result(change.name, error)
        yield
    return AlterUserScramCredentialsResponse(results=tuple(results.values()))


def _result(name: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    if error is None:
        return AlterUserScramCredentialsResult(name, 0, None)
    # Kafka gives no message for an unusable key
    message = None if error.name == UNUSABLE_KEY else error.message
    return AlterUserScramCredentialsResult(name, error.code, message)


def _changes(request: AlterUserScramCredentialsRequest) -> tuple[Change, ...]:
    return (*request.deletions, *request.upsertions)


def _record(kept: LoginRecords, change: Change) -> RemoveUserScramCredentialRecord | UserScramCredentialRecord:
    if change.name == "":
        raise kafka_error("UNACCEPTABLE_CREDENTIAL", "Username must not be empty")
    algorithm = _HASHES.get(change.mechanism)
    if algorithm is None:
        raise kafka_error("UNSUPPORTED_SASL_MECHANISM", "Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialDeletion):
        if kept.scram_credential(change.name, change.mechanism) is None:
            raise kafka_error("RESOURCE_NOT_FOUND", "Attempt to delete a user credential that does not exist")
        return RemoveUserScramCredentialRecord(change.name, change.mechanism)
    if change.iterations < MIN_ITERATIONS:
        raise kafka_error("UNACCEPTABLE_CREDENTIAL", "Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        raise kafka_error("UNACCEPTABLE_CREDENTIAL", "Too many iterations")
    if not change.salted_password:
        raise kafka_error(UNUSABLE_KEY)
    return credential_record(change.name, change.mechanism, change.salt, change.salted_password, change.iterations)


def credential_record(
    name: str, mechanism: int, salt: bytes, salted_password: bytes, iterations: int
) -> UserScramCredentialRecord:
    """The record with the keys that a server stores for a password (RFC 5802). `mechanism`: 1 or 2, as in the
    protocol."""
    algorithm = _HASHES[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", algorithm)
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism,
        salt=salt,
        stored_key=algorithm(client_key).digest(),
        server_key=hmac.digest(salted_password, b"Server Key", algorithm),
        iterations=iterations,
    )


def describe_user_scram_credentials(
    kept: Iterable[UserScramCredentialRecord], request: DescribeUserScramCredentialsRequest
) -> Pausing[DescribeUserScramCredentialsResponse]:
    """The mechanisms and iterations of the named users, or of all. No secrets."""
    by_user: dict[str, list[CredentialInfo]] = {}
    for record in kept:
        by_user.setdefault(record.name, []).append(CredentialInfo(record.mechanism, record.iterations))
    times: dict[str, int] = {}
    for user in request.users or ():
        times[user.name] = times.get(user.name, 0) + 1
        yield
    results: list[DescribeUserScramCredentialsResult] = []
    for name in times or by_user:
        results.append(_described(name, times.get(name, 1), by_user.get(name)))
        yield
    return DescribeUserScramCredentialsResponse(results=tuple(results))


def _described(name: str, times: int, found: list[CredentialInfo] | None) -> DescribeUserScramCredentialsResult:
    if times > 1:
        error = kafka_error(
            "DUPLICATE_RESOURCE",
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    elif found is None:
        error = kafka_error("RESOURCE_NOT_FOUND", f"Attempt to describe a user credential that does not exist: {name}")
    else:
        infos = tuple(sorted(found, key=lambda info: info.mechanism))
        return DescribeUserScramCredentialsResult(name, credential_infos=infos)
    return DescribeUserScramCredentialsResult(name, error.code, error.message)
