"""References to the secrets of a client: the place of a password or key, not its value.

A reference is written in Kafka's form of external values (KIP-297, 887), in any setting that holds a secret:

    ${env:NAME}                  an environment variable
    ${file:PATH:NAME}            the entry NAME of a properties file, or of the profiles (`profiles.PROFILE.NAME`)
    ${directory:DIRECTORY:FILE}  a whole file, without the line break at its end

A secret that was given by value stays in the memory of this process: it is neither shown nor pickled.
`moldau.transport.secrets` reads the references.
"""

from __future__ import annotations

import enum
import re
from typing import Any, Final

import msgspec

from moldau.errors import MoldauError

SECRET_SETTINGS: Final = (
    "basic.auth.user.info",
    "bearer.auth.token",
    "sasl.jaas.config",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.password",
    "schema.registry.basic.auth.user.info",
    "schema.registry.bearer.auth.token",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.truststore.password",
)
"""The settings of Kafka's clients whose value is not shown; `sasl.password` is that of librdkafka, and
`basic.auth.user.info` and `bearer.auth.token` are those of Confluent's clients of a schema registry."""
_ENVIRONMENT = re.compile(r"\$\{env:([^}:]+)\}")
_ENTRY = re.compile(r"\$\{file:([^}:]+):([^}]+)\}")
_FILE = re.compile(r"\$\{directory:([^}:]+):([^}:/]+)\}")


class AccessError(MoldauError, ValueError):
    """A setting by which no cluster can be reached. `name`: Kafka's; `reason`: a sentence without its subject."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} {reason}")
        self.name = name
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.reason)


class Source(enum.Enum):
    """Where a secret is."""

    MEMORY = enum.auto()
    ENVIRONMENT = enum.auto()
    FILE = enum.auto()
    ENTRY = enum.auto()


class Secret(msgspec.Struct, frozen=True):
    """`place`: the name of the variable or the path of the file; in memory the secret itself. `entry`: of an ENTRY its
    name in the file; in memory the setting that was given."""

    source: Source
    place: str
    entry: str = ""

    @classmethod
    def in_memory(cls, setting: str, text: str) -> Secret:
        """`setting`: the name by which errors call it."""
        return cls(Source.MEMORY, text, setting)

    @classmethod
    def in_environment(cls, name: str) -> Secret:
        """An environment variable."""
        return cls(Source.ENVIRONMENT, name)

    @classmethod
    def in_file(cls, path: str) -> Secret:
        """The whole file. Other processes need the path to be absolute."""
        return cls(Source.FILE, path)

    def __repr__(self) -> str:
        return "***"

    def __reduce__(self) -> tuple[Any, ...]:
        """Raises AccessError for a secret in memory."""
        return _again, (self._sent().source.name, self.place, self.entry)

    def reference(self) -> str:
        """The text that `parse_reference` reads. Raises AccessError for a secret in memory."""
        place = self._sent().place
        if self.source is Source.ENVIRONMENT:
            return f"${{env:{place}}}"
        if self.source is Source.ENTRY:
            return f"${{file:{place}:{self.entry}}}"
        directory, slash, name = place.rpartition("/")
        return f"${{directory:{directory or slash or '.'}:{name}}}"

    def _sent(self) -> Secret:
        if self.source is Source.MEMORY:
            raise AccessError(
                self.entry,
                "is known to this process alone, and a secret is not sent to others. Give a reference that they can "
                "read: ${env:NAME}, ${file:PATH:NAME} or ${directory:DIRECTORY:FILE}",
            )
        return self


class Origin(msgspec.Struct, frozen=True):
    """The file that settings were read from: a secret in it is referred to by its entry there, the name of the setting
    behind `prefix`."""

    path: str
    prefix: str = ""


def _again(source: str, place: str, entry: str) -> Secret:
    return Secret(Source[source], place, entry)


def secret_of(setting: str, text: str, origin: Origin | None) -> Secret:
    """What a setting holds: a reference, else the secret itself. `origin`: of the settings; None: no file."""
    reference = parse_reference(text)
    if reference is not None:
        return reference
    if origin is None:
        return Secret.in_memory(setting, text)
    return Secret(Source.ENTRY, origin.path, origin.prefix + setting)


def parse_reference(text: str) -> Secret | None:
    """None where the text is no reference."""
    stripped = text.strip()
    if found := _ENVIRONMENT.fullmatch(stripped):
        return Secret.in_environment(found[1])
    if found := _ENTRY.fullmatch(stripped):
        return Secret(Source.ENTRY, found[1], found[2])
    if found := _FILE.fullmatch(stripped):
        return Secret.in_file(f"{found[1].rstrip('/')}/{found[2]}")
    return None
