"""The file of `--login`: logins, roles and TLS of a service.

    [login]
    source = "cluster"                  # or "oidc"
    # mechanism = "SCRAM-SHA-512"       # by which passwords are tried; default: that of the service's own access
    # without_tokens = "refuse"         # or "service": if the cluster has no delegation tokens
    # idle_minutes = 30
    # hours = 12

    [roles]
    admin = ["alice"]
    editor = ["bob"]
    viewer = ["*"]

    [subjects."orders-"]                # of a registry: more for subjects that begin so
    editor = ["carol"]

    [tls]                               # Kafka's names
    ssl.keystore.type = "PEM"
    ssl.keystore.location = "server.pem"

    [oidc]
    issuer = "https://login.example.org"
    client.id = "moldau"
    client.secret = {file = "oidc-secret"}      # or {env = "NAME"}
    # ca = "ca.pem"
    # principal.claim = "sub"
    # audience = "moldau"               # of a registry: takes access tokens for this audience as Bearer

A file that others can read is rejected. Paths are relative to its folder. Only `[tls]` may contain a secret itself.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from moldau.client.protocol.secrets import Secret
from moldau.errors import KafkaError, MoldauError
from moldau.products.service.people import Role
from moldau.transport.secrets import read_text
from moldau.types import hint
from moldau.wire.protocol.sasl_tokens import PASSWORD_MECHANISMS

CLUSTER, OIDC = "cluster", "oidc"
REFUSE, SERVICE = "refuse", "service"
EVERYBODY: Final = "*"
USER: Final = "User:"
ROLES: Final = tuple(role for role in Role if role is not Role.NOBODY)
_FOR_OTHERS: Final = 0o077
_TABLES: Final = ("login", "roles", "subjects", "machines", "tls", "oidc")
_LOGIN: Final = ("source", "mechanism", "without_tokens", "idle_minutes", "hours")
_OIDC: Final = ("issuer", "client.id", "client.secret", "ca", "principal.claim", "scope", "audience")

T = TypeVar("T")


class LoginFileError(MoldauError):
    """The file of `--login` cannot be used; the message names the file and the reason."""


class Roles(msgspec.Struct, frozen=True):
    """The names with each role; `*` means every logged-in person."""

    names: tuple[tuple[Role, tuple[str, ...]], ...] = ()

    def of(self, name: str) -> Role:
        """The highest role of a name (without `User:`)."""
        return max((role for role, names in self.names if name in names or EVERYBODY in names), default=Role.NOBODY)


class OidcSettings(msgspec.Struct, frozen=True):
    """`client_id`, `client_secret`: for a service with logins of people. `ca`: a file with the certificates that sign
    the issuer's; None means those that the system trusts."""

    issuer: str
    client_id: str
    client_secret: Secret | None
    ca: Path | None = None
    principal_claim: str = "sub"
    scope: str = "openid"
    audience: str = ""
    """The required audience of access tokens that programs send as Bearer; empty to accept none."""


class LoginSettings(msgspec.Struct, frozen=True):
    """`machines`: the raw table, for `machines.py`. `idle_s`, `absolute_s`: the idle time and the maximum time after
    which a session ends."""

    path: Path
    source: str
    roles: Roles
    mechanism: str | None = None
    acts_without_tokens: bool = False
    """Whether the service reads under its own name for people to whom the cluster gives no delegation token."""
    wants_tokens: bool = True
    """Whether the service asks the cluster on behalf of people; not in the file."""
    idle_s: int = 30 * 60
    absolute_s: int = 12 * 3600
    subjects: tuple[tuple[str, Roles], ...] = ()
    machines: dict[str, Any] = {}
    tls: tuple[tuple[str, str], ...] = ()
    oidc: OidcSettings | None = None

    def subjects_of(self, name: str) -> tuple[tuple[str, Role], ...]:
        """The roles of a name on prefixes of subjects."""
        return tuple((prefix, role) for prefix, roles in self.subjects if (role := roles.of(name)) is not Role.NOBODY)


def read_login_file(path: Path) -> LoginSettings:
    """Raises LoginFileError, whose message contains no secret."""
    try:
        return _Reader(path.absolute()).settings()
    except KafkaError as error:
        raise LoginFileError(error.message or str(error)) from error


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._tables = self._read()

    def settings(self) -> LoginSettings:
        self._known("", self._tables, _TABLES)
        login = self._table("login")
        self._known("login.", login, _LOGIN)
        source = self._one_of("login.source", login.get("source", CLUSTER), (CLUSTER, OIDC))
        mechanism = login.get("mechanism")
        without = self._one_of("login.without_tokens", login.get("without_tokens", REFUSE), (REFUSE, SERVICE))
        if mechanism is not None:
            self._one_of("login.mechanism", mechanism, PASSWORD_MECHANISMS)
        oidc = self._oidc()
        if source == OIDC and oidc is None:
            raise self._error('login.source is "oidc", and there is no table [oidc]')
        roles = self._roles("roles", self._table("roles"))
        subjects = self._table("subjects")
        if not roles.names and not subjects and not self._table("machines"):
            raise self._error('nobody has a role: add [roles] with viewer = ["*"]')
        return LoginSettings(
            path=self._path,
            source=source,
            roles=roles,
            mechanism=mechanism,
            acts_without_tokens=without == SERVICE,
            idle_s=60 * self._count("login.idle_minutes", login.get("idle_minutes", 30), 24 * 60),
            absolute_s=3600 * self._count("login.hours", login.get("hours", 12), 24 * 7),
            subjects=tuple((prefix, self._roles(f"subjects.{prefix}", each)) for prefix, each in subjects.items()),
            machines=self._table("machines"),
            tls=tuple(self._tls().items()),
            oidc=oidc,
        )

    def _read(self) -> dict[str, Any]:
        try:
            mode = self._path.stat().st_mode
        except OSError as error:
            raise self._error(f"cannot be read: {error.strerror}") from error
        if mode & _FOR_OTHERS:
            raise self._error(f"may hold secrets, and others can read it (mode {mode & 0o777:04o}): chmod 600 it")
        try:
            return tomllib.loads(read_text(str(self._path), "--login"))
        except tomllib.TOMLDecodeError as error:
            raise self._error(f"is not TOML: {error}") from None

    def _table(self, name: str) -> dict[str, Any]:
        found = self._tables.get(name, {})
        if not isinstance(found, dict):
            raise self._error(f"{name} must be a table: [{name}]")
        return found

    def _known(self, where: str, table: Mapping[str, object], names: tuple[str, ...]) -> None:
        for name in table:
            if name not in names:
                raise self._error(f"{where}{name} is not known{hint(name, names)}")

    def _one_of(self, name: str, value: object, allowed: tuple[str, ...]) -> str:
        if value not in allowed:
            raise self._error(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
        return str(value)

    def _count(self, name: str, value: object, most: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise self._error(f"{name} must be a whole number from 1 to {most}, not {value!r}")
        return value

    def _roles(self, where: str, table: object) -> Roles:
        if not isinstance(table, dict):
            raise self._error(f"{where} must be a table with the roles {', '.join(role.word for role in ROLES)}")
        self._known(f"{where}.", table, tuple(role.word for role in ROLES))
        found = []
        for role in ROLES:
            names = table.get(role.word, [])
            if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
                raise self._error(f'{where}.{role.word} must be a list of names, as in ["alice"], or ["*"]')
            if names:
                found.append((role, tuple(name.removeprefix(USER) for name in names)))
        return Roles(tuple(found))

    def _oidc(self) -> OidcSettings | None:
        table = _flat(self._table("oidc"))
        if not table:
            return None
        self._known("oidc.", table, _OIDC)
        is_for_people = self._table("login").get("source") == OIDC
        for name in ("issuer", "client.id") if is_for_people else ("issuer",):
            if not isinstance(table.get(name), str) or not table[name]:
                raise self._error(f"oidc.{name} must be set")
        issuer = str(table["issuer"])
        if not issuer.startswith("https://"):
            raise self._error(f"oidc.issuer must begin with https://, not {issuer!r}")
        ca = table.get("ca")
        return OidcSettings(
            issuer=issuer,
            client_id=str(table.get("client.id", "")),
            client_secret=self._secret("oidc.client.secret", table.get("client.secret")) if is_for_people else None,
            ca=None if ca is None else self._path.parent / Path(str(ca)).expanduser(),
            principal_claim=str(table.get("principal.claim", "sub")),
            scope=str(table.get("scope", "openid")),
            audience=str(table.get("audience", "")),
        )

    def _secret(self, name: str, value: object) -> Secret:
        if isinstance(value, dict) and len(value) == 1:
            ((kind, place),) = value.items()
            if kind == "env" and isinstance(place, str):
                return Secret.in_environment(place)
            if kind == "file" and isinstance(place, str):
                return Secret.in_file(str(self._path.parent / Path(place).expanduser()))
        raise self._error(f'{name} must be a reference: {{env = "NAME"}} or {{file = "PATH"}}')

    def _tls(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, value in _flat(self._table("tls")).items():
            if not name.startswith("ssl."):
                raise self._error(f"tls.{name} is not known: the names are Kafka's, ssl.keystore.location and others")
            if isinstance(value, dict):
                found[name] = self._secret(f"tls.{name}", value).reference()
            elif name.endswith(".location"):
                found[name] = str(self._path.parent / Path(str(value)).expanduser())
            else:
                found[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return found

    def _error(self, reason: str) -> LoginFileError:
        return LoginFileError(f"{self._path}: {reason}")


def _flat(table: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Joins names that TOML splits at their dots; a reference (`env` or `file`) stays a table."""
    found: dict[str, object] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and not (len(value) == 1 and set(value) <= {"env", "file"}):
            found |= _flat(value, f"{name}.")
        else:
            found[name] = value
    return found
