"""A login with a password succeeds with the credentials that `kafka-configs` sends for it."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from moldau.cli.kafka.options import ArgumentError
from moldau.cli.kafka.scram_arguments import parse_scram_argument
from moldau.cli.kafka.scram_users import parse_credential
from moldau.shell.io.random import SystemRandom
from moldau.wire.protocol.sasl_tokens import salted_password


def test_a_password_is_salted_as_in_the_example_of_rfc_7677() -> None:
    salted = salted_password("SCRAM-SHA-256", "pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
    stored_key = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    assert base64.b64encode(stored_key) == b"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
    assert base64.b64encode(server_key) == b"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="


@pytest.mark.parametrize("text", ["[iterations=4096,password=planted]", "planted", "iterations=x,password=planted"])
def test_a_password_that_is_typed_wrongly_is_not_repeated(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"Invalid credential property SCRAM_SHA_512=\*\*\*") as refused:
        parse_credential("SCRAM-SHA-512", text)
    assert "planted" not in str(refused.value)


@pytest.mark.parametrize(
    "parts", ["name=a,password=b,planted", "name=a,salt=AAAA,saltedpassword=planted-planted-planted"]
)
def test_nor_is_that_of_a_new_cluster(parts: str) -> None:
    with pytest.raises(ArgumentError, match=r"\*\*\*") as refused:
        parse_scram_argument(f"SCRAM-SHA-512=[{parts}]", SystemRandom())
    assert "planted" not in str(refused.value)
