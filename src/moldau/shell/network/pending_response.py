"""The answer to one request: complete at once, or a place in the order of responses that is filled later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from moldau.ports import LaterBytes
from moldau.types import Buffer

Answer = bytes | list[Buffer] | list[Buffer | LaterBytes]
"""A whole framed response; in parts if records are sent from the memory they were read into, or are read while they are
sent."""


class ResponseQueue(Protocol):
    """Sends responses in the order of their requests."""

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended: no more responses are sent."""
        ...

    def response_completed(self, response: PendingResponse) -> None:
        """`response` has its answer: it is sent after all responses before it."""
        ...


class PendingResponse:
    """A place in the order of responses. `complete` fills it, once; after a lost connection it does nothing."""

    __slots__ = ("_queue", "answer", "is_complete", "may_produce_begin", "on_abandoned", "on_complete", "size")

    def __init__(self, queue: ResponseQueue, *, may_produce_begin: bool = False) -> None:
        self._queue = queue
        self.may_produce_begin = may_produce_begin
        """For a Produce request that is appended and waits for a flush: further ones of the connection may begin."""
        self.answer: Answer | None = None
        self.is_complete = False
        self.size = 0
        self.on_abandoned: Callable[[], object] | None = None
        """Called if the connection is lost before the answer is complete."""
        self.on_complete: Callable[[], None] | None = None
        """Called when the answer is complete, before it is sent."""

    def complete(self, answer: Answer | None) -> None:
        """`answer`: a whole framed response, or None if the request gets none (acks=0)."""
        if self.is_complete or self._queue.is_closed:
            return
        self.answer = answer
        self.is_complete = True
        if answer is not None:
            self.size = len(answer) if isinstance(answer, bytes) else sum(map(len, answer))
        # no longer needed; the callback refers back to it, a cycle that only the collector would free
        self.on_abandoned = None
        if self.on_complete is not None:
            self.on_complete()
        self._queue.response_completed(self)

    def when_abandoned(self, call: Callable[[], object]) -> None:
        """Calls `call` if the connection is lost before the answer is complete."""
        self.on_abandoned = call

    def take(self) -> Answer | None:
        """Returns the answer for sending, and drops it: a request that still refers to its place does not keep the
        bytes."""
        answer, self.answer = self.answer, None
        return answer

    def abandon(self) -> None:
        """The client is gone: nobody reads the answer."""
        on_abandoned, self.on_abandoned, self.answer = self.on_abandoned, None, None
        if on_abandoned is not None:
            on_abandoned()
