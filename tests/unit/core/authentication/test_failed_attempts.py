"""The delay after a failed authentication, by address."""

from __future__ import annotations

from moldau.core.authentication.attempts import (
    FORGOTTEN_AFTER_MS,
    MAX_ADDRESSES,
    MAX_DELAY_MS,
    MAX_WAITING,
    FailedAttempts,
)


def fail(attempts: FailedAttempts, address: str, now_ms: int) -> int | None:
    """An attempt that fails, and is answered."""
    delay_ms = attempts.failed(address, now_ms)
    if delay_ms is not None:
        attempts.answered(address)
    return delay_ms


def test_the_delay_doubles_with_each_failure_up_to_ten_seconds() -> None:
    attempts = FailedAttempts(100)
    delays = [fail(attempts, "10.0.0.7", 0) for _ in range(40)]
    assert delays[:8] == [100, 200, 400, 800, 1_600, 3_200, 6_400, MAX_DELAY_MS]
    assert set(delays[7:]) == {MAX_DELAY_MS}


def test_each_address_pays_for_its_own_failures() -> None:
    attempts = FailedAttempts(100)
    fail(attempts, "10.0.0.7", 0)
    assert fail(attempts, "10.0.0.8", 0) == 100
    assert fail(attempts, "10.0.0.7", 0) == 200


def test_an_address_of_ipv6_is_its_network_and_one_of_ipv4_is_itself() -> None:
    attempts = FailedAttempts(100)
    fail(attempts, "2001:db8:0:1::1", 0)
    assert fail(attempts, "2001:db8:0:1:ffff::2", 0) == 200
    assert fail(attempts, "2001:db8:0:2::1", 0) == 100
    fail(attempts, "::ffff:10.0.0.7", 0)
    assert fail(attempts, "::ffff:10.0.0.8", 0) == 100


def test_failures_are_forgotten_after_a_quiet_minute() -> None:
    attempts = FailedAttempts(100)
    fail(attempts, "10.0.0.7", 0)
    assert fail(attempts, "10.0.0.7", FORGOTTEN_AFTER_MS - 1) == 200
    assert fail(attempts, "10.0.0.7", 2 * FORGOTTEN_AFTER_MS) == 100


def test_a_further_attempt_beside_a_hundred_that_wait_is_not_answered() -> None:
    attempts = FailedAttempts(100)
    waiting = [attempts.failed("10.0.0.7", 0) for _ in range(MAX_WAITING)]
    assert None not in waiting
    assert attempts.failed("10.0.0.7", 0) is None
    assert attempts.failed("10.0.0.8", 0) == 100
    attempts.answered("10.0.0.7")
    assert attempts.failed("10.0.0.7", 0) == MAX_DELAY_MS


def test_the_table_of_addresses_is_bounded_and_forgets_the_oldest_failure() -> None:
    attempts = FailedAttempts(100)
    for number in range(MAX_ADDRESSES + 1):
        fail(attempts, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", number)
    assert len(attempts) == MAX_ADDRESSES
    assert fail(attempts, "10.0.0.1", MAX_ADDRESSES) == 200
    assert fail(attempts, "10.0.0.0", MAX_ADDRESSES) == 100


def test_a_base_of_zero_is_no_delay() -> None:
    attempts = FailedAttempts(0)
    assert [fail(attempts, "10.0.0.7", 0) for _ in range(5)] == [0] * 5
