"""The audit log of a node, for its loop: events go into a queue that a writer empties (`shell/node/audit.py`).

Nothing here waits. A full queue drops new events and counts them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from msgspec.structs import replace

from moldau.core.auditing.changes import Change, changes_of
from moldau.core.auditing.lines import ALLOWED, AUTHORIZATION, CHANGE, DENIED, LEFT_OUT, Event, Origin
from moldau.core.auditing.repeated import RepeatedRefusals
from moldau.errors import ERROR_CODES, ERROR_NAMES
from moldau.ports import Clock
from moldau.telemetry import BOUND_REACHED, Telemetry
from moldau.types import Pausing
from moldau.wire.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from moldau.shell.network.rights import Right

QUEUE = "moldau.audit.queue.events"
"""The setting that bounds the queue."""
_AUDIT = "moldau.server:type=Audit,name="
EVENTS = f"{_AUDIT}Events"
"""Counted by kind of event."""
DROPPED = f"{_AUDIT}DroppedEvents"
NOT_WRITTEN = f"{_AUDIT}RefusalsLeftOut"
"""Rejections of clients that were rejected too often."""
REFUSALS = tuple(
    ERROR_CODES[name]
    for name in (
        "TOPIC_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
    )
)


class Audit:
    """One per node with `moldau.audit.file`. Used on its loop."""

    def __init__(self, clock: Clock, telemetry: Telemetry, max_events: int) -> None:
        self._clock = clock
        self._telemetry = telemetry
        self._max_events = max_events
        self._queue: deque[Event] = deque()
        self._repeated = RepeatedRefusals()
        self._came: asyncio.Event = asyncio.Event()
        telemetry.held[QUEUE.replace(".", "_")] = lambda: (len(self._queue), max_events)

    # -- events

    def refused(self, kind: str, origin: Origin, detail: str, operation: str = "") -> None:
        """A client failed AUTHENTICATION or TLS."""
        self._refused(Event(self._clock.now_ms(), kind, origin, operation, "", "", DENIED, detail))

    def denied(self, origin: Origin, api_key: int, right: Right, name: str | bytes) -> None:
        """A request was denied because the principal lacks the right to the resource `name`."""
        text = name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")
        operation, resource_type = str(right).split()
        kind, detail = resource_type.lower(), ApiKey(api_key).name
        event = Event(self._clock.now_ms(), AUTHORIZATION, origin, operation, kind, text, DENIED, detail)
        self._refused(event)

    def changed(
        self, origin: Origin, api_key: int, request: object, response: object, about: str = ""
    ) -> Pausing[None]:
        """Writes the effects of an administrator's request, one row for each step; run it with pauses. `about`: see
        `changes_of`."""
        rows = changes_of(api_key, request, response, about)
        for row in () if rows is None else rows:
            if row.error_code not in REFUSALS:  # logged as denied, with the missing right
                self._put(self._event_of(origin, api_key, row))
            yield

    def _event_of(self, origin: Origin, api_key: int, row: Change) -> Event:
        result = ERROR_NAMES.get(row.error_code, str(row.error_code)) if row.error_code else ALLOWED
        name = ApiKey(api_key).name
        now_ms = self._clock.now_ms()
        return Event(now_ms, CHANGE, origin, name, row.resource_type, row.resource, result, row.detail)

    def _refused(self, event: Event) -> None:
        client = event.origin.address, event.origin.principal
        left_out = self._repeated.admit(client, self._clock.monotonic_ms())
        if left_out is None:
            self._telemetry.count(NOT_WRITTEN)
        else:
            self._put(replace(event, left_out=left_out) if left_out else event)

    def _put(self, event: Event) -> None:
        if len(self._queue) >= self._max_events:
            self._telemetry.count(DROPPED)
            self._telemetry.count(BOUND_REACHED, QUEUE)
            return
        self._telemetry.count(EVENTS, event.kind)
        self._queue.append(event)
        self._came.set()

    # -- for the writer

    def tell_left_out(self) -> None:
        """Puts a line for each client whose last rejections were left out."""
        now_ms = self._clock.monotonic_ms()
        counted = [(Origin(who, address, ""), count) for (address, who), count in self._repeated.ended(now_ms)]
        forgotten = self._repeated.take_forgotten()
        if forgotten:
            counted.append((Origin("", "", ""), forgotten))
        for origin, count in counted:
            self._put(Event(self._clock.now_ms(), LEFT_OUT, origin, "", "", "", DENIED, "", count))

    async def wait(self) -> None:
        """Waits until an event can be written."""
        await self._came.wait()

    def take(self, count: int) -> list[Event]:
        """The first events, at most `count`: the caller writes them."""
        taken = [self._queue.popleft() for _ in range(min(count, len(self._queue)))]
        if not self._queue:
            self._came.clear()
        return taken

    def lost(self, count: int) -> None:
        """`count` events were taken but could not be written."""
        self._telemetry.count(DROPPED, amount=count)
