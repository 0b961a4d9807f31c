"""SCRAM credentials of users in `kafka-configs`: parses and prints them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from moldau.cli.kafka.options import ArgumentError
from moldau.client.admin import scram
from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.error_texts import java_name
from moldau.shell.io.random import SystemRandom
from moldau.wire.protocol.sasl_tokens import MIN_ITERATIONS, SCRAM_NUMBERS

DEFAULT_ITERATIONS: Final = 4_096
_MAX_INT: Final = (1 << 31) - 1
_ONLY_ITERATIONS = re.compile(r"iterations=[-0-9]*,?")
_CREDENTIAL = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)")


def is_mechanism(name: str) -> bool:
    """Whether a setting of this name is a SCRAM credential."""
    return name in SCRAM_NUMBERS


def parse_credential(mechanism: str, text: str) -> scram.Credential:
    """Parses `iterations=8192,password=secret`, or the password alone. Raises ArgumentError in the words of Kafka's
    tool."""
    found = _CREDENTIAL.fullmatch(text)
    if found is None:
        # Kafka's tool prints the password here
        shown = text if _ONLY_ITERATIONS.fullmatch(text) else "***"
        raise ArgumentError(f"Invalid credential property {mechanism.replace('-', '_')}={shown}")
    typed = found[1]
    iterations = DEFAULT_ITERATIONS
    if typed is not None and typed != "-1":
        if typed in ("", "-") or not -_MAX_INT - 1 <= int(typed) <= _MAX_INT:
            raise ArgumentError(f'For input string: "{typed}"')
        iterations = int(typed)
    if iterations < MIN_ITERATIONS:
        raise ArgumentError(
            f"Iterations {iterations} is less than the minimum {MIN_ITERATIONS} required for {mechanism}"
        )
    return scram.Credential(mechanism, iterations, found[2])


def alter_user(admin: ClusterAdmin, user: str, to_set: Mapping[str, str], to_delete: Sequence[str]) -> None:
    """Sets and removes credentials of one user. `to_set`: mechanism to the typed text; `to_delete`: mechanisms."""
    credentials = [parse_credential(mechanism, text) for mechanism, text in to_set.items()]
    scram.alter_credentials(admin, SystemRandom(), user, credentials, to_delete)


def print_users(admin: ClusterAdmin, names: Iterable[str]) -> None:
    """Prints a line for each of these users, or for all if `names` is empty. A user without credentials gets no
    line."""
    for user in scram.describe_credentials(admin, list(names)):
        if user.error is not None:
            error = f"{java_name(user.error).rpartition('.')[2]}: {user.error}"
            print(f"Error retrieving SCRAM credential configs for user-principal '{user.name}': {error}")
        else:
            listed = ", ".join(f"{mechanism}=iterations={count}" for mechanism, count in user.credentials)
            print(f"SCRAM credential configs for user-principal '{user.name}' are {listed}")
