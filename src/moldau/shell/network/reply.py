"""The connection as dispatcher and handlers see it: where the answer to a request goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from moldau.errors import ProtocolError
from moldau.shell.network.pending_response import Answer, PendingResponse
from moldau.shell.network.session import Session


class Reply(Protocol):
    """A connection that receives answers; lives as long as the connection."""

    id: int
    session: Session
    """The session of new requests: a handler keeps its own request's session."""
    local_address: tuple[str, int] | None
    """Our end of the connection: an address at which this client reaches us."""
    client_id: str
    client_id_bytes: bytes

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended, or this side is ending it."""
        ...

    @property
    def is_write_paused(self) -> bool:
        """Whether the client does not read its answers."""
        ...

    def reserve(self, *, may_produce_begin: bool = False) -> PendingResponse:
        """The next place in the order of responses. `may_produce_begin`: see PendingResponse."""
        ...

    def let_produce_begin(self) -> None:
        """The Produce request that held up later ones is appended: further ones may begin."""
        ...

    def mute(self, throttle_ms: int) -> None:
        """No further request begins for `throttle_ms`; answers are still sent."""
        ...

    def press(self) -> None:
        """From now on nothing is written until all earlier data is sent, and unsent data is counted at once."""
        ...

    def when_writable(self, resume: Callable[[], None]) -> None:
        """Calls `resume` now, or when the transport has fallen below its low water."""
        ...

    def when_lost(self, call: Callable[[bool], None]) -> None:
        """Calls `call` when the connection has ended for any reason, or now if it has; replaces an earlier `call`. Its
        argument: whether the connection was reset, so the client may not know."""
        ...

    def introduced(self, software: str) -> None:
        """The client has named its software and version."""
        ...

    def authenticated(self, session: Session) -> None:
        """The client is the one of `session`. Ends the work of an authenticator: the dispatcher gets the frames after
        the current one."""
        ...

    def hand_frames_to(self, handler: FrameHandler) -> None:
        """Once the client is authenticated: `handler`, not the dispatcher, gets the frames that arrive from now on."""
        ...

    def close(self) -> None:
        """Writes the completed answers, then ends the connection. Pending and streamed answers are dropped."""
        ...

    def close_for(self, error: ProtocolError) -> None:
        """Ends the connection because of the peer's data."""
        ...


class FrameHandler(Protocol):
    """The receiver of whole frames: the dispatcher, an authenticator, or a test's wrapper of the dispatcher."""

    def handle(self, connection: Reply, frame: memoryview) -> Answer | PendingResponse | None:
        """Takes one request, without the length before it; `frame` is valid until this returns. Returns the answer, or
        its place in the order of responses if it follows later; None: no answer. Raises ProtocolError for a frame that
        ends the connection."""
        ...


CertifiedPrincipal = Callable[[bytes | None], str | None]
"""For a TLS listener: the principal ("User:NAME") of a client with this certificate (DER; None: it has none). The
result None means no principal, and the connection ends."""

Authenticator = Callable[[Reply], FrameHandler]
"""Makes the frame handler of a new connection, which handles its frames until it calls the connection's `authenticated`
or closes it."""
