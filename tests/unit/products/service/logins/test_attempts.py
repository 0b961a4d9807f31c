"""How long login attempts wait, by address and by user."""

from __future__ import annotations

from moldau.products.service.logins.attempts import (
    FORGOTTEN_S,
    FREE_OF_ADDRESS,
    LONGEST_S,
    MAX_KEPT,
    Attempts,
)


def test_an_address_waits_twice_as_long_after_each_failure_up_to_a_minute() -> None:
    attempts, now_s, waits = Attempts(), 0.0, []
    for number in range(FREE_OF_ADDRESS + 9):
        attempts.failed("10.0.0.1", f"user {number}", now_s)
        waits.append(attempts.wait_s("10.0.0.1", "alice", now_s))
        now_s += waits[-1]
    assert waits[: FREE_OF_ADDRESS - 1] == [0.0] * (FREE_OF_ADDRESS - 1)
    assert waits[FREE_OF_ADDRESS - 1 :][:6] == [1, 2, 4, 8, 16, 32]
    assert set(waits[-3:]) == {LONGEST_S}
    assert attempts.wait_s("10.0.0.1", "alice", now_s + FORGOTTEN_S) == 0


def test_who_guesses_a_password_from_ten_addresses_does_not_keep_the_user_out() -> None:
    attempts, tried = Attempts(), 0
    for number in range(1_000):
        address = f"10.0.0.{number % 10}"
        if attempts.wait_s(address, "alice", now_s=number / 100) == 0:
            attempts.failed(address, "alice", number / 100)
            tried += 1
    assert tried < 60  # the others cost no login at the cluster
    assert attempts.wait_s("10.0.0.1", "alice", 10) > 0
    assert attempts.wait_s("10.0.1.1", "alice", 10) == 0


def test_the_addresses_of_one_ipv6_network_count_as_one() -> None:
    attempts = Attempts()
    for number in range(FREE_OF_ADDRESS):
        attempts.failed(f"2001:db8::{number:x}", "alice", 0)
    assert attempts.wait_s("2001:db8::ffff", "bob", 0) == 1
    assert attempts.wait_s("2001:db8:0:1::1", "bob", 0) == 0


def test_what_is_remembered_is_bounded() -> None:
    attempts = Attempts()
    for number in range(MAX_KEPT + FREE_OF_ADDRESS):
        attempts.failed("10.0.0.1" if number < FREE_OF_ADDRESS else f"address {number}", f"user {number}", 0)
    assert attempts.wait_s("10.0.0.1", "user 0", 0) == 0
    assert attempts.kept == 2 * MAX_KEPT
