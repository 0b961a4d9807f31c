"""`--add-scram` of `kafka-storage`: the first SCRAM credentials of a new cluster (KIP-900)."""

from __future__ import annotations

import base64
import binascii

from moldau.cli.kafka.options import ArgumentError
from moldau.core.controller.scram import MAX_ITERATIONS, credential_record
from moldau.ports import Random
from moldau.wire.protocol.messages.metadata_records import UserScramCredentialRecord
from moldau.wire.protocol.sasl_tokens import MIN_ITERATIONS, SCRAM_NUMBERS, salted_password

_DEFAULT_ITERATIONS = MIN_ITERATIONS
_SALT_BYTES = 20
_SHORTEST_KEY = 16
"""In characters: a shorter text is not a salted password."""
_NAMES = ("name", "password", "salt", "saltedpassword", "iterations")


def parse_scram_argument(text: str, random: Random) -> UserScramCredentialRecord:
    """Parses `SCRAM-SHA-256=[name=alice,password=secret]`, also with `iterations`, `salt`, and `saltedpassword` instead
    of the password, both in base64. The password itself is not kept. Raises ArgumentError in Kafka's sentences."""
    mechanism, equals, written = text.strip().partition("=")
    if not equals:
        raise ArgumentError(f"Failed to find equals sign in SCRAM argument '{text.strip()}'")
    if mechanism not in SCRAM_NUMBERS:
        raise ArgumentError(f"The add-scram mechanism {mechanism} is not supported.")
    if not written.startswith("["):
        raise ArgumentError("Expected configuration string to start with [")
    if not written.endswith("]"):
        raise ArgumentError("Expected configuration string to end with ]")
    parts = dict(map(_part, written[1:-1].split(",")))
    name = parts.pop("name", None)
    if name is None:
        raise ArgumentError("You must supply 'name' to add-scram")
    salt = _decoded("salt", parts.pop("salt", None))
    iterations = _iterations(parts.pop("iterations", None))
    password, salted = parts.pop("password", None), parts.pop("saltedpassword", None)
    if password is None:
        if salted is None:
            raise ArgumentError("You must supply one of 'password' or 'saltedpassword' to add-scram")
        if salt is None:
            raise ArgumentError("You must supply 'salt' with 'saltedpassword' to add-scram")
    key = _decoded("saltedPassword", salted) if password is None else None
    if parts:
        raise ArgumentError(f"Unknown SCRAM configurations: {', '.join(sorted(parts))}")
    _check_iterations(mechanism, iterations)
    if not (password or key):
        raise ArgumentError("Empty key")
    if salt is None:
        salt = random.random_bytes(_SALT_BYTES)
    if password:
        key = salted_password(mechanism, password, salt, iterations)
    return credential_record(name, SCRAM_NUMBERS[mechanism], salt, key or b"", iterations)


def _part(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        shown = text if text in _NAMES else "***"  # may be the part of a password after a comma
        raise ArgumentError(f"No equals sign found in SCRAM component: {shown}")
    is_quoted = len(value) >= 2 and value[0] == value[-1] == '"'
    return name, value[1:-1] if is_quoted else value


def _decoded(name: str, text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        # Java's decoder also takes base64 without its padding
        return base64.b64decode(text + "=" * (-len(text) % 4) if "=" not in text else text, validate=True)
    except (binascii.Error, ValueError):
        shown = text if name == "salt" or len(text) < _SHORTEST_KEY else "***"  # Kafka's tool prints it
        raise ArgumentError(f"Failed to decode given {name}: {shown}") from None


def _iterations(text: str | None) -> int:
    if text is None:
        return _DEFAULT_ITERATIONS
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdigit()) or abs(int(digits)) >= 1 << 31:
        raise ArgumentError(f"Failed to parse iterations count: {text}")
    return int(text)


def _check_iterations(mechanism: str, iterations: int) -> None:
    name = mechanism.replace("-", "_")
    if iterations < MIN_ITERATIONS:
        raise ArgumentError(f"The 'iterations' value must be >= {MIN_ITERATIONS} for add-scram using {name}")
    if iterations > MAX_ITERATIONS:
        raise ArgumentError(f"The 'iterations' value must be <= {MAX_ITERATIONS} for add-scram using {name}")
