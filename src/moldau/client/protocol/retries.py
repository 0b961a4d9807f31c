"""How long a client retries, and the pauses between tries. The time is an argument.

Pauses begin at 50 ms and double to 1 s. A client retries for `first_contact_timeout_ms` while no broker of the cluster
has ever answered (not for an unknown host, whose name is probably misspelt), for 15 s if a topic does not exist, and
for `retry_timeout_ms` in all other cases, such as a lost broker.
"""

from __future__ import annotations

import msgspec

from moldau.errors import ERROR_CODES, KafkaError

ABSENT_TOPIC_TIMEOUT_MS = 15_000
"""How long a topic that was just made may be unknown to some broker of a large cluster."""

NO_SUCH_TOPIC = (ERROR_CODES["UNKNOWN_TOPIC_OR_PARTITION"], ERROR_CODES["UNKNOWN_TOPIC_ID"])
_NOTICE_EVERY_MS = 10_000
_FIRST_PAUSE_MS = 50
_MAX_PAUSE_MS = 1_000


class UnknownHostError(KafkaError):
    """The host's name has no address. Retriable: a name that was known may be gone while its machine starts again."""

    code = 13
    name = "NETWORK_EXCEPTION"
    is_retriable = True


class Pause(msgspec.Struct, frozen=True):
    """What comes before the next try. `notice`: a line for the log, every 10 s."""

    length_ms: int
    notice: str | None


class RetrySchedule:
    """The pauses between the tries of one action, until the time for its error is up."""

    def __init__(self, *, first_contact_timeout_ms: int, retry_timeout_ms: int, now_ms: int) -> None:
        self._first_contact_timeout_ms = first_contact_timeout_ms
        self._retry_timeout_ms = retry_timeout_ms
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        """After progress: the full time again, and short pauses."""
        self._began_ms = now_ms
        self._pause_ms = _FIRST_PAUSE_MS
        self._notice_due_ms = _NOTICE_EVERY_MS

    def is_over(self, now_ms: int) -> bool:
        """`retry_timeout_ms` has passed without progress."""
        return now_ms - self._began_ms >= self._retry_timeout_ms

    def after(self, error: KafkaError, *, has_contact: bool, now_ms: int) -> Pause:
        """The pause that follows this error; raises the error, with the time that was spent, once no time is left.

        `has_contact`: some broker of the cluster has answered at some time.
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
            # a broker that advertises an address which means nothing here: waiting longer does not help
            return min(self._retry_timeout_ms, self._first_contact_timeout_ms)
        if error.code in NO_SUCH_TOPIC:
            return min(self._retry_timeout_ms, ABSENT_TOPIC_TIMEOUT_MS)
        return self._retry_timeout_ms
