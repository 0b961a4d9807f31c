"""PLAIN on the server's side."""

from __future__ import annotations

import pytest

from moldau.core.authentication.exchange import Accepted, AuthenticationRefusedError
from moldau.core.authentication.plain import PlainExchange, PlainUsers

USERS = PlainUsers({"alice": "secret", "müller": "ü", "": "nobody"}, b"s" * 32)
WRONG = "Authentication failed: Invalid username or password"
OTHER = "Authentication failed: Client requested an authorization id that is different from username"


@pytest.mark.parametrize(
    ("token", "name"),
    [
        (b"\0alice\0secret", "alice"),
        (b"alice\0alice\0secret", "alice"),
        ("\0müller\0ü".encode(), "müller"),
    ],
)
def test_a_user_with_its_password_is_accepted(token: bytes, name: str) -> None:
    assert PlainExchange(USERS).evaluate(token) == Accepted(name)


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (b"\0alice\0wrong", WRONG),
        (b"\0alice\0secre", WRONG),
        (b"\0nobody\0secret", WRONG),
        (b"\0nobody\0" + b"x" * 100_000, WRONG),
        (b"\0\0nobody", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"bob\0alice\0secret", OTHER),
        (b"bob\0alice\0wrong", WRONG),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice\0secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0secret\0more", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\xff\0secret", WRONG),
    ],
)
def test_everything_else_is_refused_in_the_words_of_kafka(token: bytes, told: str) -> None:
    with pytest.raises(AuthenticationRefusedError) as refused:
        PlainExchange(USERS).evaluate(token)
    assert refused.value.told == told
    assert "secret" not in str(refused.value)
