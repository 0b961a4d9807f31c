"""TLS, logins and ACLs of a test cluster, and the client settings for them.

The brokers log in to each other as one user of the cluster, to which no ACL applies. Keys are made once for each
process and are not written to disk.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from moldau.core.authorization.settings import STANDARD_AUTHORIZER
from moldau.errors import MoldauError, kafka_error
from moldau.extras import require_extra
from moldau.types import hint
from moldau.wire.protocol.acls import Acl
from moldau.wire.protocol.jaas import PLAIN_MODULE, SCRAM_MODULE

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker
    from moldau.testing.rights import Rights
    from moldau.transport.authority import Authority, Issued
    from moldau.wire.protocol.messages.scram import ScramCredentialUpsertion

Security = Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]
Users = Mapping[str, str] | Iterable[str]
"""Passwords by name; names alone if users have certificates."""
OWN_USER = "moldau"
MECHANISM = "SCRAM-SHA-512"
OWN_MECHANISM = "PLAIN"
"""For OWN_USER alone. Its password is a setting, so brokers can log in before they have metadata."""
HOSTS = ("127.0.0.1", "localhost")
_ITERATIONS = 4_096
_SALT_BYTES = 20
_CONTROLLER = "CONTROLLER"


class ClusterSecurity:
    """The security of one cluster with this number of `brokers`."""

    def __init__(
        self, security: Security, users: Users | None, acls: Iterable[Rights | Acl] | None, brokers: int
    ) -> None:
        """Raises ValueError for arguments that contradict each other, and MissingExtraError if TLS needs an extra."""
        if security not in get_args(Security):
            known = get_args(Security)
            raise ValueError(f"security={security!r}: the values are {', '.join(known)}{hint(str(security), known)}")
        self.protocol = security.upper()
        self.has_tls = security.endswith("ssl")
        self.has_sasl = security.startswith("sasl_")
        self._passwords = self._passwords_of(users)
        self._acls = None if acls is None else _flat(acls)
        if security == "plaintext" and acls is not None and brokers > 1:
            raise ValueError(
                "acls= of several brokers needs another security=: without it the brokers reach each other as "
                "User:ANONYMOUS, as all clients do"
            )
        if self.has_tls:
            require_extra(f"security={security!r}", "tls")

    def __repr__(self) -> str:
        return f"ClusterSecurity({self.protocol}, users {', '.join(self._passwords) or 'none'})"

    def _passwords_of(self, users: Users | None) -> dict[str, str]:
        """The password of each user; "" if a certificate identifies the user. Includes the cluster's own user if
        clients log in."""
        if self.protocol == "PLAINTEXT":
            if users:
                raise ValueError('users= needs security="sasl_ssl", "sasl_plaintext" or "ssl": here nobody logs in')
            return {}
        if isinstance(users, str):
            raise ValueError(f'users={users!r}: write users={{{users!r}: "secret"}}')
        found = dict(users) if isinstance(users, Mapping) else dict.fromkeys(users or (), "")
        for name, password in found.items():
            if not isinstance(name, str) or not isinstance(password, str):
                raise ValueError("users: names and passwords are texts")
            if name == OWN_USER:
                raise ValueError(f"users: {OWN_USER!r} is the user of the cluster itself, choose another name")
            if not name or (self.has_sasl and not password):
                raise ValueError(f'users: {name!r} needs a password: users={{"{name or "alice"}": "secret"}}')
        return {**found, OWN_USER: secrets.token_urlsafe(16)}

    # -- of brokers

    def settings(self) -> dict[str, str]:
        """The settings of every broker. `listeners` is only for a single broker."""
        found: dict[str, str] = {}
        if self.protocol != "PLAINTEXT":
            found["listeners"] = f"{self.protocol}://127.0.0.1:0"
            found["listener.security.protocol.map"] = ",".join(
                f"{name}:{self.protocol}" for name in (self.protocol, _CONTROLLER)
            )
            found["security.inter.broker.protocol"] = self.protocol
        if self.has_tls:
            found |= _material(OWN_USER)
        if self.protocol == "SSL":
            found["ssl.client.auth"] = "requested"
            found["ssl.principal.mapping.rules"] = "RULE:^CN=([^,]+).*$/$1/,DEFAULT"
        if self.has_sasl:
            found["sasl.mechanism.inter.broker.protocol"] = OWN_MECHANISM
            found["sasl.mechanism.controller.protocol"] = OWN_MECHANISM
            own = self._passwords[OWN_USER]
            options = {"username": OWN_USER, "password": own, f"user_{OWN_USER}": own}
            for name, mechanisms in ((self.protocol, f"{MECHANISM},{OWN_MECHANISM}"), (_CONTROLLER, OWN_MECHANISM)):
                prefix = f"listener.name.{name.lower()}."
                found[f"{prefix}sasl.enabled.mechanisms"] = mechanisms
                found[f"{prefix}{OWN_MECHANISM.lower()}.sasl.jaas.config"] = _jaas(PLAIN_MODULE, options)
        if self._acls is not None:
            found["authorizer.class.name"] = STANDARD_AUTHORIZER
            found["super.users"] = f"User:{OWN_USER}"
        return found

    def check_given(self, given: Iterable[str]) -> None:
        """Raises ValueError for a setting that this class chooses."""
        own = self.settings()
        for name in given:
            if name in own:
                raise ValueError(f"{name} cannot be set: security= and acls= choose it")

    @property
    def has_entries(self) -> bool:
        """Whether `enter` has users or ACLs to create."""
        return bool(self._acls) or (self.has_sasl and len(self._passwords) > 1)

    async def enter(self, broker: Broker) -> None:
        """Creates the users and the ACLs through one broker of the cluster. Raises KafkaError."""
        from moldau.wire.protocol.messages.acls import AclCreation, CreateAclsRequest
        from moldau.wire.protocol.messages.scram import AlterUserScramCredentialsRequest

        users = [name for name in self._passwords if name != OWN_USER] if self.has_sasl else []
        if users:
            upsertions = tuple(_upsertion(name, self._passwords[name]) for name in users)
            for user in (await broker.submit(AlterUserScramCredentialsRequest(upsertions=upsertions))).results:
                if user.error_code:
                    raise kafka_error(user.error_code, user.error_message or f"user {user.user}")
        if self._acls:
            creations = tuple(AclCreation(*msgspec.structs.astuple(acl)) for acl in self._acls)
            for acl in (await broker.submit(CreateAclsRequest(creations))).results:
                if acl.error_code:
                    raise kafka_error(acl.error_code, acl.error_message or "an ACL")

    # -- of clients

    def properties(self, user: str | None) -> dict[str, str]:
        """The properties of Kafka's own clients, without `bootstrap.servers`. Raises MoldauError."""
        name = self._user(user)
        found = {"security.protocol": self.protocol}
        if self.protocol == "SSL":
            found |= _material(name)
        elif self.has_tls:
            found |= _trust()
        if self.has_sasl:
            mechanism = _mechanism_of(name)
            module = PLAIN_MODULE if mechanism == OWN_MECHANISM else SCRAM_MODULE
            found["sasl.mechanism"] = mechanism
            found["sasl.jaas.config"] = _jaas(module, {"username": name, "password": self._passwords[name]})
        return found

    def _user(self, user: str | None) -> str:
        """Raises MoldauError for an unknown user."""
        if user is None:
            return OWN_USER
        if user not in self._passwords:
            known = [name for name in self._passwords if name != OWN_USER]
            there = f"there are {', '.join(known)}" if known else "there is none"
            raise MoldauError(f"the cluster has no user {user!r}{hint(user, known)}; {there}")
        return user


def _flat(acls: Iterable[Rights | Acl]) -> tuple[Acl, ...]:
    found: dict[Acl, None] = {}
    for one in acls:
        if not isinstance(one, Acl | tuple):
            raise ValueError(f'acls: {one!r} is no ACL: write allow("alice", "read", topic="orders")')
        found |= dict.fromkeys(one if isinstance(one, tuple) else (one,))
    return tuple(found)


def _mechanism_of(user: str) -> str:
    return OWN_MECHANISM if user == OWN_USER else MECHANISM


def _jaas(module: str, options: Mapping[str, str]) -> str:
    quoted = (f'{key}="{_escaped(value)}"' for key, value in options.items())
    return f"{module} required {' '.join(quoted)};"


def _escaped(text: str) -> str:
    for character, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(character, written)
    return text


@cache
def _upsertion(name: str, password: str) -> ScramCredentialUpsertion:
    from moldau.wire.protocol.messages.scram import ScramCredentialUpsertion
    from moldau.wire.protocol.sasl_tokens import SCRAM_NUMBERS, salted_password

    salt = secrets.token_bytes(_SALT_BYTES)
    salted = salted_password(MECHANISM, password, salt, _ITERATIONS)
    return ScramCredentialUpsertion(name, SCRAM_NUMBERS[MECHANISM], _ITERATIONS, salt, salted)


# -- keys


@cache
def _authority() -> Authority:
    from moldau.transport.authority import Authority, common_name

    return Authority.create(common_name("moldau.testing"), datetime.now(UTC))


@cache
def _issued(name: str) -> Issued:
    from moldau.transport.authority import common_name

    try:
        subject = common_name(name)
    except ValueError as error:
        raise ValueError(f"users: no certificate can name {name!r}: {error}") from error
    return _authority().issue(subject, HOSTS if name == OWN_USER else (), datetime.now(UTC))


def _trust() -> dict[str, str]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _authority().pem}


def _material(name: str) -> dict[str, str]:
    issued = _issued(name)
    own = {"ssl.keystore.key": issued.key_pem, "ssl.keystore.certificate.chain": issued.chain_pem}
    return {"ssl.keystore.type": "PEM", **own, **_trust()}
