"""References to the secrets of a client. A reference has the place of a password or key, not its value.

A reference has Kafka's form of external values (KIP-297, 887), in any setting that holds a secret:

    ${env:NAME}                  an environment variable
    ${file:PATH:NAME}            the entry NAME of a properties file, or of the profiles (`profiles.PROFILE.NAME`)
    ${directory:DIRECTORY:FILE}  a whole file, without the line break at its end

A secret given by value stays in the memory of this process. It is neither shown nor pickled. `moldau.transport.secrets`
reads the references.
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
    "sql.basic.auth.user.info",
    "sql.bearer.auth.token",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.truststore.password",
)
"""The settings of Kafka's clients whose value is not shown. `sasl.password` is a setting of librdkafka;
`basic.auth.user.info` and `bearer.auth.token` belong to Confluent's schema registry clients, and after `sql.` to a SQL
service."""
_NAME_OF_SECRET = re.compile(
    "secret|password|token|access.?key|credential|authorization|user.?info|jaas", re.IGNORECASE
)
_ENVIRONMENT = re.compile(r"\$\{env:([^}:]+)\}")
_ENTRY = re.compile(r"\$\{file:([^}:]+):([^}]+)\}")
_FILE = re.compile(r"\$\{directory:([^}:]+):([^}:/]+)\}")


class AccessError(MoldauError, ValueError):
    """An invalid setting of a cluster's access. `name`: Kafka's name of the setting; `reason`: a sentence without its
    subject."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} {reason}")
        self.name = name
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.reason)


class Source(enum.Enum):
    """The kind of place of a secret."""

    MEMORY = enum.auto()
    ENVIRONMENT = enum.auto()
    FILE = enum.auto()
    ENTRY = enum.auto()


class Secret(msgspec.Struct, frozen=True):
    """`place`: the name of the variable or the path of the file; in memory the secret itself. `entry`: for an ENTRY its
    name in the file; in memory the name of the setting."""

    source: Source
    place: str
    entry: str = ""

    @classmethod
    def in_memory(cls, setting: str, text: str) -> Secret:
        """`setting`: the name of the setting in errors."""
        return cls(Source.MEMORY, text, setting)

    @classmethod
    def in_environment(cls, name: str) -> Secret:
        """A secret in an environment variable."""
        return cls(Source.ENVIRONMENT, name)

    @classmethod
    def in_file(cls, path: str) -> Secret:
        """A secret that is a whole file. Other processes need an absolute path."""
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
    """The file of some settings. A reference to a secret in it uses the entry there, which is `prefix` and the name of
    the setting."""

    path: str
    prefix: str = ""


def _again(source: str, place: str, entry: str) -> Secret:
    return Secret(Source[source], place, entry)


def may_be_secret(name: str) -> bool:
    """Whether a setting of a program that is not known here has the name of a secret."""
    return _NAME_OF_SECRET.search(name) is not None


def secret_of(setting: str, text: str, origin: Origin | None) -> Secret:
    """The secret in a setting: a reference, or else the secret itself. `origin`: the file of the settings; None: no
    file."""
    reference = parse_reference(text)
    if reference is not None:
        return reference
    if origin is None:
        return Secret.in_memory(setting, text)
    return Secret(Source.ENTRY, origin.path, origin.prefix + setting)


def parse_reference(text: str) -> Secret | None:
    """The secret that a reference names; None if the text is not a reference."""
    stripped = text.strip()
    if found := _ENVIRONMENT.fullmatch(stripped):
        return Secret.in_environment(found[1])
    if found := _ENTRY.fullmatch(stripped):
        return Secret(Source.ENTRY, found[1], found[2])
    if found := _FILE.fullmatch(stripped):
        return Secret.in_file(f"{found[1].rstrip('/')}/{found[2]}")
    return None
