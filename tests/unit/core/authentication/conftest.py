"""A directory of SCRAM users, and the messages of a SCRAM client."""

from __future__ import annotations

from moldau.core.authentication.users import ScramDirectory
from moldau.core.controller.scram import credential_record
from moldau.core.metadata.login_records import LoginRecords, login_key
from moldau.wire.protocol.sasl_tokens import (
    SCRAM_NUMBERS,
    client_key,
    decode_server_first,
    encode_client_final,
    encode_client_first,
    encode_unproven,
    exclusive_or,
    salted_password,
    signature,
    stored_key,
)

SALT = b"a salt of twenty byt"


class Users:
    """Their credentials, as in the metadata."""

    def __init__(self) -> None:
        self.kept = LoginRecords()
        self.directory = ScramDirectory(b"s" * 32)

    def add(
        self, name: str, password: str, mechanism: str = "SCRAM-SHA-256", *, salt: bytes = SALT, iterations: int = 4_096
    ) -> None:
        salted = salted_password(mechanism, password, salt, iterations)
        record = credential_record(name, SCRAM_NUMBERS[mechanism], salt, salted, iterations)
        self.kept[login_key(record)] = record  # type: ignore[index]
        self.directory.changed(self.kept)

    def remove(self, name: str, mechanism: str = "SCRAM-SHA-256") -> None:
        del self.kept["scram", SCRAM_NUMBERS[mechanism], name]
        self.directory.changed(self.kept)


class ScramClient:
    """The messages of a client that knows a password."""

    def __init__(self, name: str, password: str, mechanism: str = "SCRAM-SHA-256", header: str = "n,,") -> None:
        self.mechanism = mechanism
        self.password = password
        self.header = header
        self.bare = encode_client_first(name, "rOprNGfwEbeRWgbNEkqO")

    def first(self) -> bytes:
        return (self.header + self.bare).encode()

    def final(self, answer: bytes, *, header: str | None = None, nonce: str | None = None) -> bytes:
        """With a proof for `answer`; `header` and `nonce` replace the correct ones."""
        said = decode_server_first(answer)
        salted = salted_password(self.mechanism, self.password, said.salt, said.iterations)
        key = client_key(self.mechanism, salted)
        unproven = encode_unproven(self.header if header is None else header, nonce or said.nonce)
        proof = signature(self.mechanism, stored_key(self.mechanism, key), f"{self.bare},{answer.decode()},{unproven}")
        return encode_client_final(unproven, exclusive_or(key, proof))
