"""The interface of a source of people: a login, or the reason why it fails."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar, runtime_checkable

import msgspec

from moldau.errors import MoldauError
from moldau.products.service.people import Person


class LoginRefused(MoldauError):
    """`is_wrong`: the name or the password was wrong, which counts as a failed attempt."""

    def __init__(self, sentence: str, status: int = 403, *, is_wrong: bool = False) -> None:
        super().__init__(sentence)
        self.status = status
        self.is_wrong = is_wrong


class NoAnswer(MoldauError):
    """The cluster or the issuer that decides about the login does not answer now."""


Found = TypeVar("Found")


def outcome_of(ask: Callable[[], Found]) -> Found | LoginRefused | NoAnswer:
    """The result or the error of `ask`, as a value. The frames of an exception hold the password, and if an awaitable
    holds the exception, they live until Python's cycle collector runs."""
    try:
        return ask()
    except LoginRefused as refused:
        return LoginRefused(str(refused), refused.status, is_wrong=refused.is_wrong)
    except NoAnswer as silent:
        return NoAnswer(str(silent))


def _nothing() -> None:
    return None


def _lives() -> bool:
    return True


class Login(msgspec.Struct, frozen=True):
    """`lasts_s`: how long it lasts at most. `renew`: keeps it valid, called every half minute; False means that it has
    ended. `end`: ends it at the cluster. Both may wait for the cluster."""

    person: Person
    lasts_s: float = math.inf
    renew: Callable[[], bool] = _lives
    end: Callable[[], None] = _nothing


@runtime_checkable
class PasswordSource(Protocol):
    """`cluster`: its name on the page; `principal`: of the service itself; `note`: an explanation for people who log
    in."""

    cluster: str
    principal: str
    note: str

    def log_in(self, name: str, password: str) -> Login:
        """Waits for the cluster. Raises LoginRefused, NoAnswer."""
        ...


@runtime_checkable
class OidcSource(Protocol):
    """As PasswordSource, for a login at an issuer of OpenID Connect."""

    cluster: str
    principal: str
    note: str

    def start(self, back: str, then: str) -> tuple[str, str]:
        """The URL for the browser, and the text that it keeps until it returns to `back`. Raises NoAnswer."""
        ...

    def end(self, kept: str, answer: Mapping[str, str]) -> tuple[Login, str]:
        """The login, and `then` of `start`. Raises LoginRefused, NoAnswer."""
        ...
