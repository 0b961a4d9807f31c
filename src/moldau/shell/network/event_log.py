"""Log lines about what strangers do: escaped, cut, and at most one a second for each kind.

A foreign string (client id, group id, address, software name) never reaches a log raw: a newline in it would forge a
line. What the bound leaves out is counted, and told with the next line of the same kind.
"""

from __future__ import annotations

import logging
import traceback

from moldau.ports import Clock

MIN_INTERVAL_MS = 1_000
MAX_FOREIGN_LENGTH = 200
MAX_KINDS = 1_000

logger = logging.getLogger("moldau.network")


def escape(foreign: str | bytes) -> str:
    """`foreign` in printable ASCII, at most MAX_FOREIGN_LENGTH characters and a mark that it was cut."""
    if isinstance(foreign, bytes):
        foreign = foreign[: MAX_FOREIGN_LENGTH + 1].decode("utf-8", "backslashreplace")
    is_cut = len(foreign) > MAX_FOREIGN_LENGTH
    text = foreign[:MAX_FOREIGN_LENGTH].encode("unicode_escape").decode("ascii")
    return text + "..." if is_cut else text


class EventLog:
    """One per node. `kind` is a word of ours, never a foreign string: it names what the bound applies to."""

    __slots__ = ("_clock", "_last_ms", "_left_out", "node_id")

    def __init__(self, clock: Clock, node_id: int | None = None) -> None:
        self._clock = clock
        self.node_id = node_id
        self._last_ms: dict[str, int] = {}
        self._left_out: dict[str, int] = {}

    def write(self, level: int, kind: str, message: str, **fields: str | int) -> None:
        """Logs `message` (its foreign parts already escaped), or counts it when this kind spoke within the second.

        `fields` (node, topic, partition, epoch) stand beside the message where the log is written as JSON.
        """
        now_ms = self._clock.monotonic_ms()
        last_ms = self._last_ms.get(kind)
        if last_ms is not None and now_ms - last_ms < MIN_INTERVAL_MS:
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return
        if last_ms is None and len(self._last_ms) >= MAX_KINDS:
            return
        self._last_ms[kind] = now_ms
        left_out = self._left_out.pop(kind, 0)
        suffix = f" ({left_out} more of this kind)" if left_out else ""
        if self.node_id is not None:
            fields = {"node": self.node_id, **fields}
        logger.log(level, "%s%s", message, suffix, extra={"kind": kind, "fields": fields})

    def info(self, kind: str, message: str, **fields: str | int) -> None:
        self.write(logging.INFO, kind, message, **fields)

    def warn(self, kind: str, message: str, **fields: str | int) -> None:
        self.write(logging.WARNING, kind, message, **fields)

    def error(self, kind: str, message: str, **fields: str | int) -> None:
        self.write(logging.ERROR, kind, message, **fields)

    def finding(self, level: int, kind: str, message: str) -> None:
        """Logs `message` whatever was logged before: the caller has bounded how many there are."""
        fields = {} if self.node_id is None else {"node": self.node_id}
        logger.log(level, "%s", message, extra={"kind": kind, "fields": fields})

    def unforeseen(self, kind: str, message: str, error: BaseException) -> None:
        """Our own mistake: the message, with the trace of the error, bounded as every other kind."""
        lines = traceback.format_exception(error)
        self.error(kind, message + "\n" + "".join(lines[-12:]))
