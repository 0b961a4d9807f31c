"""The controller's decisions about delegation tokens: times, rights, bounds, the sweep (KIP-48, KIP-373)."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.controller.delegation_tokens import (
    MAX_REMOVED,
    MAX_RENEWERS,
    MAX_TOKENS,
    MAX_TOKENS_OF_OWNER,
    change_token,
    sweep_tokens,
)
from moldau.core.controller.requests import TokenRequest
from moldau.core.metadata.features import METADATA_VERSION
from moldau.core.metadata.fold import MetadataFold
from moldau.errors import ERROR_CODES
from moldau.shell.io.simulated.random import SeededRandom
from moldau.types import whole
from moldau.wire.protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from moldau.wire.protocol.messages.metadata_records import (
    DelegationTokenRecord,
    FeatureLevelRecord,
    RemoveDelegationTokenRecord,
)

NOW_MS = 1_000_000
KEY = "the key of a cluster"
SETTINGS = {
    "node.id": "1",
    "delegation.token.secret.key": KEY,
    "delegation.token.expiry.time.ms": "1000",
    "delegation.token.max.lifetime.ms": "5000",
}


class Tokens:
    """The tokens of a cluster: decided and applied."""

    def __init__(self, level: int = 25, **changed: str | None) -> None:
        self.fold = MetadataFold("cluster")
        self.fold.apply(FeatureLevelRecord(METADATA_VERSION, level))
        texts = SETTINGS | {name.replace("_", "."): text for name, text in changed.items()}
        self.settings = parse_broker_settings({name: text for name, text in texts.items() if text is not None})
        self.random = SeededRandom(1)

    def ask(self, request: Any, requester: str = "User:ann", now_ms: int = NOW_MS) -> Any:
        deciding = change_token(self.fold.image, self.settings, self.random, TokenRequest(request, requester), now_ms)
        records, response = whole(deciding)
        for record in records:
            self.fold.apply(record)
        return response

    def create(self, **fields: Any) -> Any:
        return self.ask(CreateDelegationTokenRequest(**fields))

    def add(self, count: int, owner: str = "User:ann", expires_ms: int = NOW_MS) -> None:
        for number in range(count):
            token_id = f"{owner} {number}"
            self.fold.apply(DelegationTokenRecord(owner, owner, (), 1, expires_ms, expires_ms, token_id))

    @property
    def kept(self) -> tuple[DelegationTokenRecord, ...]:
        return self.fold.image.logins.delegation_tokens()


@pytest.mark.parametrize(
    ("asked_ms", "until_ms", "expires_ms"),
    [(-1, 5_000, 1_000), (0, 5_000, 1_000), (500, 500, 500), (3_000, 3_000, 1_000), (2**63 - 1, 5_000, 1_000)],
)
def test_a_token_lives_as_long_as_asked_for_within_the_settings(asked_ms: int, until_ms: int, expires_ms: int) -> None:
    tokens = Tokens()
    made = tokens.create(max_lifetime_ms=asked_ms)
    assert (made.error_code, made.issue_timestamp_ms) == (0, NOW_MS)
    assert (made.max_timestamp_ms, made.expiry_timestamp_ms) == (NOW_MS + until_ms, NOW_MS + expires_ms)
    assert made.hmac == hmac.digest(KEY.encode(), made.token_id.encode(), hashlib.sha512)
    (record,) = tokens.kept
    assert (record.owner, record.requester, record.token_id) == ("User:ann", "User:ann", made.token_id)


@pytest.mark.parametrize(
    ("period_ms", "at_ms", "expires_ms"),
    [(-1, 500, 1_500), (200, 500, 700), (9_000, 500, 1_500), (-1, 900, 1_900)],
)
def test_a_renewal_goes_no_further_than_settings_and_the_last_day(period_ms: int, at_ms: int, expires_ms: int) -> None:
    tokens = Tokens()
    made = tokens.create()
    renewed = tokens.ask(RenewDelegationTokenRequest(made.hmac, period_ms), now_ms=NOW_MS + at_ms)
    assert (renewed.error_code, renewed.expiry_timestamp_ms) == (0, NOW_MS + expires_ms)
    (record,) = tokens.kept
    assert (record.expiration_timestamp, record.max_timestamp) == (NOW_MS + expires_ms, NOW_MS + 5_000)


def test_renewals_end_with_the_life_of_the_token() -> None:
    tokens = Tokens(delegation_token_expiry_time_ms="4000")
    made = tokens.create()
    renewed = tokens.ask(RenewDelegationTokenRequest(made.hmac, -1), now_ms=NOW_MS + 3_000)
    assert renewed.expiry_timestamp_ms == NOW_MS + 5_000
    late = tokens.ask(RenewDelegationTokenRequest(made.hmac, -1), now_ms=NOW_MS + 5_001)
    assert late.error_code == ERROR_CODES["DELEGATION_TOKEN_EXPIRED"]


@pytest.mark.parametrize(("requester", "error"), [("User:ann", 0), ("User:ben", 0), ("User:cy", 63), ("Group:ann", 63)])
def test_owner_and_renewers_alone_change_a_token(requester: str, error: int) -> None:
    tokens = Tokens()
    made = tokens.create(renewers=(CreatableRenewers("User", "ben"),))
    for request in (
        RenewDelegationTokenRequest(made.hmac, -1),
        ExpireDelegationTokenRequest(made.hmac, 10),
        ExpireDelegationTokenRequest(made.hmac, -1),
    ):
        assert tokens.ask(request, requester).error_code == error
    assert bool(tokens.kept) == bool(error)


def test_who_asked_for_the_token_of_another_does_not_own_it() -> None:
    tokens = Tokens()
    made = tokens.create(owner_principal_type="User", owner_principal_name="dan")
    assert (made.principal_name, made.token_requester_principal_name) == ("dan", "ann")
    assert tokens.ask(RenewDelegationTokenRequest(made.hmac, -1)).error_code == 63
    assert tokens.ask(RenewDelegationTokenRequest(made.hmac, -1), "User:dan").error_code == 0


@pytest.mark.parametrize("hmac_of_nobody", [b"", b"x", bytes(64)])
def test_an_unknown_hmac_is_of_no_token(hmac_of_nobody: bytes) -> None:
    tokens = Tokens()
    tokens.create()
    for request in (RenewDelegationTokenRequest(hmac_of_nobody), ExpireDelegationTokenRequest(hmac_of_nobody, -1)):
        assert tokens.ask(request).error_code == ERROR_CODES["DELEGATION_TOKEN_NOT_FOUND"]
    assert len(tokens.kept) == 1


@pytest.mark.parametrize(
    ("tokens", "error"),
    [
        (Tokens(delegation_token_secret_key=None), "DELEGATION_TOKEN_AUTH_DISABLED"),
        (Tokens(level=13), "UNSUPPORTED_VERSION"),
    ],
)
def test_without_key_or_with_an_old_metadata_version_nothing_is_decided(tokens: Tokens, error: str) -> None:
    for request in (
        CreateDelegationTokenRequest(),
        RenewDelegationTokenRequest(b"x"),
        ExpireDelegationTokenRequest(b"x"),
    ):
        assert tokens.ask(request).error_code == ERROR_CODES[error]


def test_a_renewer_is_a_user() -> None:
    tokens = Tokens()
    assert tokens.create(renewers=(CreatableRenewers("Role", "r"),)).error_code == ERROR_CODES["INVALID_PRINCIPAL_TYPE"]
    assert tokens.kept == ()


def test_renewers_and_names_are_bounded() -> None:
    tokens = Tokens()
    many = tuple(CreatableRenewers("User", str(number)) for number in range(MAX_RENEWERS + 1))
    policy = ERROR_CODES["POLICY_VIOLATION"]
    assert [tokens.create(renewers=each).error_code for each in (many, many[:-1])] == [policy, 0]
    long = (CreatableRenewers("User", "n" * 2_000),)
    assert tokens.create(renewers=long).error_code == policy
    assert tokens.create(owner_principal_type="User", owner_principal_name="n" * 2_000).error_code == policy


def test_tokens_of_an_owner_and_of_the_cluster_are_bounded() -> None:
    tokens = Tokens()
    tokens.add(MAX_TOKENS_OF_OWNER)
    policy = ERROR_CODES["POLICY_VIOLATION"]
    assert tokens.create().error_code == policy
    assert tokens.ask(CreateDelegationTokenRequest(), "User:ben").error_code == 0
    for number in range(1, MAX_TOKENS // MAX_TOKENS_OF_OWNER):
        tokens.add(MAX_TOKENS_OF_OWNER, f"User:{number}")
    assert tokens.ask(CreateDelegationTokenRequest(), "User:cy").error_code == policy


def test_a_sweep_removes_what_has_expired_some_at_a_time() -> None:
    tokens = Tokens()
    tokens.add(MAX_REMOVED + 1)
    tokens.add(1, "User:ben", NOW_MS + 1)
    assert whole(sweep_tokens(tokens.fold.image, NOW_MS)) == []
    counts = []
    for _ in range(3):
        records = whole(sweep_tokens(tokens.fold.image, NOW_MS + 1))
        assert all(isinstance(record, RemoveDelegationTokenRecord) for record in records)
        counts.append(len(records))
        for record in records:
            tokens.fold.apply(record)
    assert counts == [MAX_REMOVED, 1, 0]
    assert [token.owner for token in tokens.kept] == ["User:ben"]
