"""How long a client retries: a broker that never answered, a host without an address, a lost broker."""

from __future__ import annotations

import pytest

from moldau.client.protocol.access import FIRST_CONTACT_TIMEOUT_MS, RETRY_TIMEOUT_MS
from moldau.client.protocol.retries import ABSENT_TOPIC_TIMEOUT_MS, RetrySchedule, UnknownHostError
from moldau.errors import KafkaError, kafka_error

LOST = kafka_error("NETWORK_EXCEPTION", "lost the connection")
UNKNOWN_HOST = UnknownHostError("there is no host")
ABSENT = kafka_error("UNKNOWN_TOPIC_OR_PARTITION", "no topic")


class Trying:
    """An action that always fails with the same error; time passes only in the pauses."""

    def __init__(self, error: KafkaError, *, has_contact: bool, retry_timeout_ms: int = RETRY_TIMEOUT_MS) -> None:
        self.pauses: list[int] = []
        self.notices: list[str] = []
        self.began_ms = self.now_ms = 123_456
        self.schedule = RetrySchedule(
            first_contact_timeout_ms=FIRST_CONTACT_TIMEOUT_MS,
            retry_timeout_ms=retry_timeout_ms,
            now_ms=self.now_ms,
        )
        for _ in range(10_000):
            try:
                pause = self.schedule.after(error, has_contact=has_contact, now_ms=self.now_ms)
            except KafkaError as raised:
                self.raised = raised
                return
            self.pauses.append(pause.length_ms)
            self.notices += [pause.notice] if pause.notice else []
            self.now_ms += pause.length_ms
        raise AssertionError("the pauses go on for ever")

    @property
    def spent_ms(self) -> int:
        return self.now_ms - self.began_ms


@pytest.mark.parametrize(
    ("error", "has_contact", "allowed_ms"),
    [
        (LOST, False, FIRST_CONTACT_TIMEOUT_MS),
        (LOST, True, RETRY_TIMEOUT_MS),
        (ABSENT, True, ABSENT_TOPIC_TIMEOUT_MS),
        (kafka_error("UNKNOWN_TOPIC_ID", "no topic"), True, ABSENT_TOPIC_TIMEOUT_MS),
        (UNKNOWN_HOST, False, 0),
        (UNKNOWN_HOST, True, FIRST_CONTACT_TIMEOUT_MS),
    ],
)
def test_the_time_depends_on_the_error_and_on_whether_a_broker_has_answered(error, has_contact, allowed_ms):
    trying = Trying(error, has_contact=has_contact)
    # the last pause would end after the time limit, and no pause is longer than a second
    assert allowed_ms - 1_000 <= trying.spent_ms <= allowed_ms


def test_the_time_that_was_spent_stands_in_the_error_from_one_second_on():
    assert str(Trying(LOST, has_contact=True).raised) == "lost the connection (tried for 300 s)"
    assert Trying(LOST, has_contact=True, retry_timeout_ms=500).raised is LOST
    assert type(Trying(UNKNOWN_HOST, has_contact=True).raised) is UnknownHostError


def test_a_shorter_time_of_the_client_holds_for_every_error():
    for error in (LOST, ABSENT, UNKNOWN_HOST):
        assert Trying(error, has_contact=True, retry_timeout_ms=2_000).spent_ms <= 2_000


def test_pauses_double_from_50_ms_to_a_second():
    assert Trying(LOST, has_contact=True).pauses[:7] == [50, 100, 200, 400, 800, 1_000, 1_000]


def test_after_progress_the_full_time_and_short_pauses_are_back():
    trying = Trying(LOST, has_contact=True, retry_timeout_ms=5_000)
    trying.schedule.reset(trying.now_ms)
    assert trying.schedule.after(LOST, has_contact=True, now_ms=trying.now_ms).length_ms == 50


def test_a_lost_broker_gives_one_line_every_ten_seconds():
    notices = Trying(LOST, has_contact=True, retry_timeout_ms=60_000).notices
    assert len(notices) == 5
    assert notices[0] == "for 10 s: lost the connection; trying for another 49 s"
