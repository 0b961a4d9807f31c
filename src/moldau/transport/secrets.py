"""Reads the secrets that `client.protocol.secrets` refers to."""

from __future__ import annotations

import os
import tomllib
from typing import Final

from moldau.client.protocol.secrets import Secret, Source, parse_reference
from moldau.client.protocol.security import password_of_entry
from moldau.core.config.properties import parse_properties
from moldau.errors import KafkaError, kafka_error

MAX_FILE_BYTES: Final = 1 << 20
"""Maximum size of a file with a secret or settings."""
PROFILES_SUFFIX: Final = ".toml"


def read_secret(secret: Secret, setting: str) -> str:
    """The secret's text. `setting`: its name in errors. Waits for the disk. Raises INVALID_CONFIG, whose text has no
    part of the secret."""
    if secret.source is Source.MEMORY:
        return secret.place
    if secret.source is Source.ENVIRONMENT:
        value = os.environ.get(secret.place)
        if not value:
            raise _invalid(f"{setting}: the environment variable {secret.place} is not set")
        return value
    text = read_text(secret.place, setting)
    if secret.source is Source.FILE:
        return text.removesuffix("\n").removesuffix("\r")
    value = _entry(text, secret)
    if not value:
        raise _invalid(f"{setting}: {secret.place} has no {secret.entry}")
    return value


def read_secret_text(setting: str, text: str) -> str:
    """The text of a setting, or the text that it refers to. Raises INVALID_CONFIG as `read_secret`."""
    reference = parse_reference(text)
    return text if reference is None else read_secret(reference, setting)


def read_text(path: str, setting: str) -> str:
    """Reads a small file. Raises INVALID_CONFIG, which names `setting`."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise _invalid(f"{setting}: {path} has more than {MAX_FILE_BYTES} bytes")
        return data.decode()
    except OSError as error:
        raise _invalid(f"{setting}: cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError:
        raise _invalid(f"{setting}: {path} is not UTF-8") from None


def _entry(text: str, secret: Secret) -> str | None:
    if not secret.place.endswith(PROFILES_SUFFIX):
        found: object = parse_properties(text).get(secret.entry)
    else:
        try:
            found = _below(tomllib.loads(text), secret.entry)
        except tomllib.TOMLDecodeError:
            return None
    return password_of_entry(secret.entry, found) if isinstance(found, str) else None


def _below(table: object, name: str) -> object:
    """The value with this dotted name, quoted or split into tables."""
    if not isinstance(table, dict) or name in table:
        return table.get(name) if isinstance(table, dict) else None
    inner = (_below(value, name.removeprefix(f"{key}.")) for key, value in table.items() if name.startswith(f"{key}."))
    return next((value for value in inner if value is not None), None)


def _invalid(message: str) -> KafkaError:
    return kafka_error("INVALID_CONFIG", message)
