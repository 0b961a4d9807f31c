"""The user of a token: claims that Apache Kafka requires in addition to those of every token."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moldau.core.authentication.bearer import Bearer
from moldau.core.authentication.bearer_settings import TokenRules
from moldau.core.authentication.web_tokens import check_web_token
from moldau.wire.web_tokens.key_set import parse_key_set
from moldau.wire.web_tokens.rules import TokenRefusedError
from tests.support.json_web_tokens import SigningKey, signed

NOW_S = 1_800_000_000
RULES = TokenRules(("kafka",), "https://issuer", 30, "scope", "sub")
KEY = SigningKey("EC", "k")
KEYS = parse_key_set(json.dumps({"keys": [KEY.public_jwk()]}).encode())


def check(rules: TokenRules = RULES, **claims: Any) -> Bearer:
    usual = {"iss": "https://issuer", "aud": "kafka", "sub": "alice", "iat": NOW_S, "exp": NOW_S + 60}
    return check_web_token(signed(KEY, {**usual, **claims}), KEYS, rules, 1_000 * NOW_S)


def test_a_valid_token_is_its_subjects_until_it_expires() -> None:
    assert check(scope=["read", "write"]) == Bearer("alice", 1_000 * (NOW_S + 60))


def test_rules_may_name_other_claims() -> None:
    assert check(TokenRules((), None, 0, "roles", "user"), iss="x", aud="y", scope="", user="bob").subject == "bob"


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"sub": "a\nb"}, "its sub is longer than 1024, or cannot be printed"),
        ({"sub": "\ud800"}, "its sub is longer than 1024, or cannot be printed"),
        ({"sub": "a" * 1_025}, "its sub is longer than 1024, or cannot be printed"),
        ({"sub": ["alice"]}, "its sub is no text, or blank"),
        ({"scope": ["a", 1]}, "its scope is empty"),
        ({"deep": json.loads("[" * 400 + "]" * 400), "sub": ""}, "its sub is no text, or blank"),
        ({"aud": "other"}, "its aud is 'other'"),
    ],
)
def test_claims_are_judged(claims: dict[str, Any], words: str) -> None:
    with pytest.raises(TokenRefusedError, match=words):
        check(**claims)
