"""Where the answer to a request goes: what dispatcher and handlers may know of a connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from moldau.errors import ProtocolError
from moldau.shell.network.pending_response import Answer, PendingResponse
from moldau.shell.network.session import Session


class Reply(Protocol):
    """A connection to which answers go; it lives as long as that."""

    id: int
    session: Session
    """Of the requests that come now: a handler keeps that of its own request."""
    local_address: tuple[str, int] | None
    """Our end of the connection: an address under which this client reaches us."""
    client_id: str
    client_id_bytes: bytes

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended, or this side ends it."""
        ...

    @property
    def is_write_paused(self) -> bool:
        """Whether the client does not take what was sent to it."""
        ...

    def reserve(self, *, may_produce_begin: bool = False) -> PendingResponse:
        """The next place in the order of responses. `may_produce_begin`: see PendingResponse."""
        ...

    def let_produce_begin(self) -> None:
        """The request behind which nothing begins yet, a Produce, is appended: further ones may begin."""
        ...

    def mute(self, throttle_ms: int) -> None:
        """No further request begins for `throttle_ms`; what is answered meanwhile is sent."""
        ...

    def press(self) -> None:
        """From now on nothing is written before all that was written is sent: what is not sent is counted at once."""
        ...

    def when_writable(self, resume: Callable[[], None]) -> None:
        """Calls `resume` now, or when the transport has fallen below its low water."""
        ...

    def when_lost(self, call: Callable[[bool], None]) -> None:
        """Calls `call`, in place of an earlier one, when the connection has ended, for whatever reason; now, if it
        has. Its argument: whether it was reset, so that the client may not know of it."""
        ...

    def introduced(self, software: str) -> None:
        """The client has said by what software it is: a name and a version."""
        ...

    def authenticated(self, session: Session) -> None:
        """The client is the one of `session`. Ends the work of an authenticator: the dispatcher gets the frames behind
        the one that is being handled."""
        ...

    def hand_frames_to(self, handler: FrameHandler) -> None:
        """Once the client is authenticated: from the next bytes that arrive, `handler` gets the frames in place of the
        dispatcher."""
        ...

    def close(self) -> None:
        """Writes what was answered, then ends the connection. What is still owed or being streamed is dropped."""
        ...

    def close_for(self, error: ProtocolError) -> None:
        """Ends the connection because of what the peer sent."""
        ...


class FrameHandler(Protocol):
    """Where whole frames go: the dispatcher, an authenticator, or what a test puts in front of the dispatcher."""

    def handle(self, connection: Reply, frame: memoryview) -> Answer | PendingResponse | None:
        """Takes one request, without the length in front of it; `frame` is valid until this returns. Gives the answer,
        or its place in the order of responses where it comes later; None: nothing is answered. Raises ProtocolError for
        a frame that ends the connection."""
        ...


CertifiedPrincipal = Callable[[bytes | None], str | None]
"""Of a TLS listener: the principal ("User:NAME") of a client with this certificate (DER; None: it gave none). None: no
principal, and the connection ends."""

Authenticator = Callable[[Reply], FrameHandler]
"""Makes what gets the frames of one new connection until it calls `authenticated` of the connection, or closes it."""
