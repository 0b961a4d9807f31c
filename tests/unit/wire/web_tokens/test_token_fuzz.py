"""Damaged tokens and key sets are rejected with the one error of each."""

from __future__ import annotations

import base64
import json

from hypothesis import given
from hypothesis import strategies as st

from moldau.core.authentication.bearer_settings import TokenRules
from moldau.core.authentication.web_tokens import check_web_token
from moldau.wire.web_tokens.key_set import KeySetError, parse_key_set
from moldau.wire.web_tokens.rules import TokenRefusedError
from tests.support.json_web_tokens import SigningKey, signed

KEY = SigningKey("EC", "k")
DOCUMENT = json.dumps({"keys": [KEY.public_jwk(), {**KEY.public_jwk(), "kid": "other"}]}).encode()
KEYS = parse_key_set(DOCUMENT)
RULES = TokenRules(("kafka",), "https://issuer", 30, "scope", "sub")
NOW_MS = 1_800_000_000_000
CLAIMS = {"iss": "https://issuer", "aud": "kafka", "sub": "alice", "iat": 1_800_000_000, "exp": 1_800_000_060}
TOKEN = signed(KEY, CLAIMS)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


def is_refused(token: str) -> bool:
    try:
        check_web_token(token, KEYS, RULES, NOW_MS)
    except TokenRefusedError:
        return True
    return False


def test_the_token_that_is_damaged_below_is_good() -> None:
    assert not is_refused(TOKEN)


@given(position=st.integers(0, len(TOKEN) - 1), character=st.characters())
def test_a_token_with_another_character_is_refused(position: int, character: str) -> None:
    damaged = TOKEN[:position] + character + TOKEN[position + 1 :]
    assert is_refused(damaged) or damaged[:-1] == TOKEN[:-1]  # the last character has unused bits


@given(name=st.sampled_from([*CLAIMS, "nbf", "scope", "x"]), value=JSON)
def test_any_claim_may_be_anything(name: str, value: object) -> None:
    is_refused(signed(KEY, {**CLAIMS, name: value}))


@given(name=st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk", "x5c", "x5u", "cty", "x"]), value=JSON)
def test_any_member_of_the_header_may_be_anything(name: str, value: object) -> None:
    is_refused(signed(KEY, CLAIMS, {name: value}))


@given(header=JSON, claims=JSON)
def test_header_and_claims_may_be_anything(header: object, claims: object) -> None:
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (header, claims)]
    assert is_refused(".".join([*parts, "AAAA"]))


@given(name=st.sampled_from(["kty", "crv", "x", "y", "n", "e", "use", "alg", "kid", "key_ops"]), value=JSON)
def test_any_member_of_a_key_may_be_anything(name: str, value: object) -> None:
    damaged = {**KEY.public_jwk(), "kid": "damaged", name: value}
    assert "k" in parse_key_set(json.dumps({"keys": [damaged, KEY.public_jwk()]}).encode())


@given(position=st.integers(0, len(DOCUMENT) - 1), byte=st.binary(min_size=1, max_size=3))
def test_a_damaged_document_is_one_error(position: int, byte: bytes) -> None:
    try:
        parse_key_set(DOCUMENT[:position] + byte + DOCUMENT[position + 1 :])
    except KeySetError:
        pass


@given(document=JSON)
def test_a_document_may_be_anything(document: object) -> None:
    try:
        parse_key_set(json.dumps({"keys": document}).encode())
    except KeySetError:
        pass
