"""Faults that a test wants: what happens to a request instead of, or before, its handler.

A dispatcher without a plan never comes here. The plan decides (which request, how often); this module carries out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from moldau.shell.network.pending_response import Answer

if TYPE_CHECKING:
    from moldau.shell.network.context import RequestContext


class Drop(msgspec.Struct, frozen=True):
    """The request is not handled and never answered; the connection stays open, and what comes behind it waits."""


class Disconnect(msgspec.Struct, frozen=True):
    """The connection ends without an answer, before the request is handled, or after."""

    is_handled: bool = False


class Delay(msgspec.Struct, frozen=True):
    """The request is handled once `wait` is over; nothing else of its connection begins meanwhile."""

    wait: Callable[[], Awaitable[None]]


class Replace(msgspec.Struct, frozen=True):
    """The request is not handled: `answer(context, frame, position of the body)` gives the whole framed response, or
    None where there is none (acks=0). It keeps no view of `frame`."""

    answer: Callable[[RequestContext, memoryview, int], Answer | None]


Fault = Drop | Disconnect | Delay | Replace


class FaultPlan(Protocol):
    """Set as `Dispatcher.faults`; asked on the node's loop before each request is handled, in connection order."""

    def consult(self, context: RequestContext, api_name: str) -> Fault | None:
        """What shall happen to this request; `api_name` is Kafka's key in capitals (FETCH, OFFSET_COMMIT)."""
        ...
