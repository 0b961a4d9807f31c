"""Passwords that are cached for a short time: bounded, hashed, and never a wrong one."""

from __future__ import annotations

import pytest

from moldau.products.service.logins.passwords import KEPT_S, MAX_KEPT, MAX_PASSWORD, KnownPasswords
from moldau.products.service.logins.source import LoginRefused, NoAnswer
from moldau.products.service.people import How, Person, Role


class Users:
    """Of a cluster, whose clock a test moves. `asked`: the names that were tried."""

    def __init__(self) -> None:
        self.passwords = {"ann": "right"}
        self.asked: list[str] = []
        self.now_s = 0.0
        self.is_away = False
        self.known = KnownPasswords(self.check, lambda: self.now_s)

    def check(self, name: str, password: str) -> Person:
        self.asked.append(name)
        if self.is_away:
            raise NoAnswer("later")
        if self.passwords.get(name, password) != password:
            raise LoginRefused("wrong", is_wrong=True)
        return Person(f"User:{name}", Role.VIEWER, How.BASIC)


def test_a_password_is_tried_once_within_its_time() -> None:
    users = Users()
    assert users.known.known("ann", "right") is None
    assert users.known.log_in("ann", "right").principal == "User:ann"
    users.is_away = True
    users.now_s = KEPT_S - 1
    assert users.known.known("ann", "right") is not None
    assert users.known.known("ann", "righ") is None
    users.now_s = KEPT_S
    assert users.known.known("ann", "right") is None
    assert users.asked == ["ann"]


def test_a_wrong_password_is_not_kept_and_takes_nothing_away() -> None:
    users = Users()
    users.known.log_in("ann", "right")
    for wrong in ("wrong", "", "x" * (MAX_PASSWORD + 1)):
        with pytest.raises(LoginRefused):
            users.known.log_in("ann", wrong)
        assert users.known.known("ann", wrong) is None
    assert users.known.known("ann", "right") is not None
    assert users.asked == ["ann", "ann"]  # an empty or too long one is not tried


def test_a_silent_cluster_keeps_nothing() -> None:
    users = Users()
    users.is_away = True
    with pytest.raises(NoAnswer):
        users.known.log_in("ann", "right")
    assert len(users.known) == 0


def test_the_names_kept_are_bounded() -> None:
    users = Users()
    for number in range(MAX_KEPT + 10):
        users.known.log_in(f"u{number}", "p")
    assert len(users.known) == MAX_KEPT
    assert users.known.known("u0", "p") is None
    assert users.known.known(f"u{MAX_KEPT + 9}", "p") is not None


def test_neither_passwords_nor_hashes_are_shown() -> None:
    users = Users()
    users.known.log_in("ann", "right")
    kept = vars(users.known)["_known"]["ann"]
    assert repr(kept) == "_Known(Person('User:ann', viewer, BASIC))"
    assert b"right" not in kept.digest + kept.salt
