"""Delegation tokens as values, and requests that are rejected without a broker."""

from __future__ import annotations

import pytest

from moldau.client.admin.tokens import (
    MAX_HMAC_BYTES,
    MAX_PRINCIPALS,
    DelegationToken,
    create_token,
    describe_tokens,
    expire_token,
    renew_token,
    split_principal,
)
from moldau.client.protocol.access import ClusterAccess
from moldau.transport.access import open_admin


def test_the_secret_of_a_token_is_not_shown() -> None:
    token = DelegationToken("id", b"hmac", "User:ann", "User:ann", (), 1, 2, 3)
    assert token.password == "aG1hYw=="
    assert "hmac" not in repr(token)
    assert "aG1hYw" not in f"{token}"


@pytest.mark.parametrize("text", ["", "ann", "User:", ":ann", "User"])
def test_a_principal_has_a_type_and_a_name(text: str) -> None:
    with pytest.raises(ValueError, match="expected a string in format principalType:principalName but got"):
        split_principal(text)
    assert split_principal("User:a:b") == ("User", "a:b")


def test_what_is_too_much_is_not_asked() -> None:
    many = ["User:ann"] * (MAX_PRINCIPALS + 1)
    with open_admin(ClusterAccess("127.0.0.1:1")) as nowhere:
        for act in (lambda: create_token(nowhere, renewers=many), lambda: describe_tokens(nowhere, many)):
            with pytest.raises(ValueError, match="at most 1000 principals"):
                act()
        for hmac in (b"", b"x" * (MAX_HMAC_BYTES + 1)):
            for change in (renew_token, expire_token):
                with pytest.raises(ValueError, match="the HMAC of a token has 1 to 1024 bytes"):
                    change(nowhere, hmac)
