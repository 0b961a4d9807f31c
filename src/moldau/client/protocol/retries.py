"""The duration of retries and the pauses between them. The time is an argument.

Pauses begin at 50 ms and double to 1 s. A client retries for `first_contact_timeout_ms` while no broker of the cluster
has ever answered (but not for an unknown host, whose name is probably misspelt), for 15 s if a topic does not exist,
and for `retry_timeout_ms` in all other cases, such as a lost broker.
"""

from __future__ import annotations

import msgspec

from moldau.errors import ERROR_CODES, KafkaError

ABSENT_TOPIC_TIMEOUT_MS = 15_000
"""A new topic may be unknown to some brokers of a large cluster for this time."""

NO_SUCH_TOPIC = (ERROR_CODES["UNKNOWN_TOPIC_OR_PARTITION"], ERROR_CODES["UNKNOWN_TOPIC_ID"])
_NOTICE_EVERY_MS = 10_000
_FIRST_PAUSE_MS = 50
_MAX_PAUSE_MS = 1_000


class UnknownHostError(KafkaError):
    """The host name has no address. Retriable, because a known name may be missing while its machine restarts."""

    code = 13
    name = "NETWORK_EXCEPTION"
    is_retriable = True


class Pause(msgspec.Struct, frozen=True):
    """The pause before the next try. `notice`: a line for the log, every 10 s."""

    length_ms: int
    notice: str | None


class RetrySchedule:
    """The pauses between the tries of one action, until the time for its error is over."""

    def __init__(self, *, first_contact_timeout_ms: int, retry_timeout_ms: int, now_ms: int) -> None:
        self._first_contact_timeout_ms = first_contact_timeout_ms
        self._retry_timeout_ms = retry_timeout_ms
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        """Restores the full time and short pauses, after progress."""
        self._began_ms = now_ms
        self._pause_ms = _FIRST_PAUSE_MS
        self._notice_due_ms = _NOTICE_EVERY_MS

    def is_over(self, now_ms: int) -> bool:
        """Whether `retry_timeout_ms` has passed without progress."""
        return now_ms - self._began_ms >= self._retry_timeout_ms

    def after(self, error: KafkaError, *, has_contact: bool, now_ms: int) -> Pause:
        """The pause after this error. Once no time is left, raises the error with the elapsed time.

        `has_contact`: a broker of the cluster has answered before.
        """
        elapsed_ms = now_ms - self._began_ms
        timeout_ms = self._allowed_ms(error, has_contact)
        if elapsed_ms + self._pause_ms > timeout_ms:
            if elapsed_ms < 1_000:
                raise error
            raise type(error)(f"{error} (tried for {elapsed_ms / 1_000:.0f} s)") from error
        notice = None
        if elapsed_ms >= self._notice_due_ms:
            self._notice_due_ms = elapsed_ms - elapsed_ms % _NOTICE_EVERY_MS + _NOTICE_EVERY_MS
            left_s = (timeout_ms - elapsed_ms) / 1_000
            notice = f"for {elapsed_ms // 1_000} s: {error}; trying for another {left_s:.0f} s"
        pause = Pause(self._pause_ms, notice)
        self._pause_ms = min(2 * self._pause_ms, _MAX_PAUSE_MS)
        return pause

    def _allowed_ms(self, error: KafkaError, has_contact: bool) -> int:
        if not has_contact:
            return 0 if isinstance(error, UnknownHostError) else self._first_contact_timeout_ms
        if isinstance(error, UnknownHostError):
            # the broker advertises an address that is invalid here: waiting longer does not help
            return min(self._retry_timeout_ms, self._first_contact_timeout_ms)
        if error.code in NO_SUCH_TOPIC:
            return min(self._retry_timeout_ms, ABSENT_TOPIC_TIMEOUT_MS)
        return self._retry_timeout_ms
