"""Log lines about clients' actions: escaped, cut, and at most one a second for each kind.

A foreign string (client id, group id, address, software name) is always escaped: a newline in it would forge a line.
Omitted lines are counted and named: with the next line of the same kind, or in a separate line.
"""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING

from moldau.ports import Clock

if TYPE_CHECKING:
    from moldau.shell.network.audit import Audit

MIN_INTERVAL_MS = 1_000
MAX_FOREIGN_LENGTH = 200
MAX_KINDS = 1_000
MAX_NAMES = 5
MAX_NAME_LENGTH = 80

logger = logging.getLogger("moldau.network")


def escape(foreign: str | bytes) -> str:
    """`foreign` in printable ASCII, at most MAX_FOREIGN_LENGTH characters and a mark that it was cut."""
    if isinstance(foreign, bytes):
        foreign = foreign[: MAX_FOREIGN_LENGTH + 1].decode("utf-8", "backslashreplace")
    is_cut = len(foreign) > MAX_FOREIGN_LENGTH
    text = foreign[:MAX_FOREIGN_LENGTH].encode("unicode_escape").decode("ascii")
    return text + "..." if is_cut else text


class LeftOut:
    """The omitted lines of one kind."""

    __slots__ = ("count", "level", "names")

    def __init__(self) -> None:
        self.count = 0
        self.level = logging.INFO
        self.names: dict[str, None] = {}
        """At most MAX_NAMES, and one more if names are missing."""

    def add(self, level: int, name: str) -> None:
        """Counts an omitted line: its level, and the name of its subject."""
        self.count += 1
        self.level = max(self.level, level)
        if len(self.names) <= MAX_NAMES:
            self.names[name if len(name) <= MAX_NAME_LENGTH else name[:MAX_NAME_LENGTH] + "..."] = None

    def listed(self) -> str:
        """The names with commas, at most MAX_NAMES; then ", and others" if names are missing."""
        names = list(self.names)
        others = ", and others" if len(names) > MAX_NAMES else ""
        return ", ".join(names[:MAX_NAMES]) + others


class EventLog:
    """One per node. `kind` is a word of ours, never a foreign string: the rate bound applies to each kind."""

    __slots__ = ("_clock", "_last_ms", "_left_out", "audit", "node_id")

    def __init__(self, clock: Clock, node_id: int | None = None, audit: Audit | None = None) -> None:
        """`audit`: the audit log; None: no audit log."""
        self._clock = clock
        self.audit = audit
        self.node_id = node_id
        self._last_ms: dict[str, int] = {}
        self._left_out: dict[str, LeftOut] = {}

    def write(self, level: int, kind: str, message: str, *, about: str = "", **fields: str | int) -> None:
        """Logs `message` (its foreign parts already escaped). If a line of this kind was written within the second,
        keeps only the name of its subject. `about`: that name, a topic or a client, escaped; default: the message.

        A JSON log has `fields` (node, topic, partition, epoch) next to the message.
        """
        now_ms = self._clock.monotonic_ms()
        last_ms = self._last_ms.get(kind)
        if last_ms is not None and now_ms - last_ms < MIN_INTERVAL_MS:
            self._left_out.setdefault(kind, LeftOut()).add(level, about or message.partition("\n")[0])
            return
        if last_ms is None and len(self._last_ms) >= MAX_KINDS:
            return
        self._last_ms[kind] = now_ms
        left_out = self._left_out.pop(kind, None)
        suffix = f" ({left_out.count} more before: {left_out.listed()})" if left_out is not None else ""
        if self.node_id is not None:
            fields = {"node": self.node_id, **fields}
        logger.log(level, "%s%s", message, suffix, extra={"kind": kind, "fields": fields})

    def write_left_out(self, *, is_ending: bool = False) -> None:
        """Call it once a second, and at the end: names the omitted lines of kinds without a new line."""
        now_ms = self._clock.monotonic_ms()
        for kind, left_out in list(self._left_out.items()):
            if is_ending or now_ms - self._last_ms.get(kind, 0) >= MIN_INTERVAL_MS:
                self._last_ms[kind] = now_ms - MIN_INTERVAL_MS
                del self._left_out[kind]
                self.write(left_out.level, kind, f"{kind}, {left_out.count} more: {left_out.listed()}")

    def info(self, kind: str, message: str, *, about: str = "", **fields: str | int) -> None:
        """`write` with the level INFO: an event that is useful to know."""
        self.write(logging.INFO, kind, message, about=about, **fields)

    def warn(self, kind: str, message: str, *, about: str = "", **fields: str | int) -> None:
        """`write` with the level WARNING: something is wrong, but the node works as before."""
        self.write(logging.WARNING, kind, message, about=about, **fields)

    def error(self, kind: str, message: str, *, about: str = "", **fields: str | int) -> None:
        """`write` with the level ERROR: the node failed to do something."""
        self.write(logging.ERROR, kind, message, about=about, **fields)

    def finding(self, level: int, kind: str, message: str) -> None:
        """Logs `message` without the rate bound: the caller bounds the number of calls."""
        fields = {} if self.node_id is None else {"node": self.node_id}
        logger.log(level, "%s", message, extra={"kind": kind, "fields": fields})

    def unforeseen(self, kind: str, message: str, error: BaseException) -> None:
        """A bug of ours: the message, with the trace of the error, bounded as every other kind."""
        lines = traceback.format_exception(error)
        self.error(kind, message + "\n" + "".join(lines[-12:]))
