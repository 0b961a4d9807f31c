"""Persons and machines that use a service, each with a role.

    NOBODY < VIEWER < EDITOR < ADMIN

Every route declares the least role that it needs (`routes.py`). `Admit` of `admission.py` identifies the Person, and
the service puts it into the request: `person_of(request)`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, Final

import msgspec
from starlette.requests import Request

from moldau.client.protocol.access import ClusterAccess


class Role(enum.IntEnum):
    """A role includes those below it. A route that needs NOBODY is open to all, such as the login page."""

    NOBODY = 0
    VIEWER = 1
    EDITOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        """The role as files and pages write it."""
        return self.name.lower()


class How(enum.Enum):
    """How a person logged in."""

    NOT = "not logged in"
    THIS_MACHINE = "a program of this machine"
    PASSWORD = "a password of the cluster"
    OIDC = "OpenID Connect"
    BASIC = "basic authentication"
    BEARER = "a bearer token"


class Person(msgspec.Struct, frozen=True):
    """`principal`: Kafka's, such as `User:alice`. `role`: everywhere; `subjects`: greater roles for subjects of a
    registry with a prefix.

    `access`: to the cluster under the person's own name; None means that the service acts under its own. Its secrets
    are masked wherever it is shown (`client.protocol.secrets`). `csrf`: the token in forms of this person; empty
    without a session cookie.
    """

    principal: str
    role: Role
    how: How
    access: ClusterAccess | None = None
    subjects: tuple[tuple[str, Role], ...] = ()
    csrf: str = ""

    def __repr__(self) -> str:
        return f"Person({self.principal!r}, {self.role.word}, {self.how.name})"

    @property
    def is_nobody(self) -> bool:
        """Whether the request has no login."""
        return self.how is How.NOT

    @property
    def greatest_role(self) -> Role:
        """The greatest role on any subject."""
        return max([self.role, *(role for _, role in self.subjects)])

    def role_on(self, subject: str | None) -> Role:
        """The role for a subject of a registry; None means everything except subjects."""
        return role_for(self.role, self.subjects, subject)


def role_for(everywhere: Role, prefixes: Sequence[tuple[str, Role]], subject: str | None) -> Role:
    """The greatest role that covers a subject; None means everything except subjects."""
    return max([everywhere, *(role for prefix, role in prefixes if (subject or "").startswith(prefix))])


NOBODY: Final = Person("User:ANONYMOUS", Role.NOBODY, How.NOT)
LOCAL: Final = Person("the user of this machine", Role.ADMIN, How.THIS_MACHINE)
"""Every user of a service without logins, which listens only on the loopback."""

_KEY, _ADMITTED = "moldau.person", "moldau.admitted"


def put_person(scope: MutableMapping[str, Any], person: Person) -> None:
    scope[_KEY] = person


def put_admitted(scope: MutableMapping[str, Any], is_admitted: Callable[[], bool]) -> None:
    """`is_admitted`: whether the session of the request is still open, for long responses."""
    scope[_ADMITTED] = is_admitted


def is_admitted(request: Request) -> Callable[[], bool]:
    found: Callable[[], bool] = request.scope.get(_ADMITTED, lambda: True)
    return found


def person_of(request: Request) -> Person:
    """The person who sent the request. Every endpoint of a service may call this: the service has admitted the
    person."""
    person: Person = request.scope[_KEY]
    return person
