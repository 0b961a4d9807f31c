"""The states of a connection.

    HANDSHAKING -> ADMITTED -> AUTHENTICATING -> SERVING -> CLOSING -> ENDED or RESET

Only connections with TLS are HANDSHAKING. ADMITTED lasts until the node serves. A listener without authentication
skips AUTHENTICATING. Every state may end in CLOSING, ENDED or RESET. Hold in flow_control.py has the reasons why an
open connection begins no request.
"""

from __future__ import annotations

import enum


class ConnectionState(enum.IntEnum):
    """In the order of a connection's life."""

    HANDSHAKING = enum.auto()
    """Accepted. Nothing arrives before the TLS handshake is complete."""
    ADMITTED = enum.auto()
    """The client may send. The node does not serve yet: requests are held."""
    AUTHENTICATING = enum.auto()
    """An authenticator of the listener gets the frames, see `Authenticator` in reply.py."""
    SERVING = enum.auto()
    """The dispatcher gets the frames."""
    CLOSING = enum.auto()
    """This side ends the connection: it neither reads nor answers any more."""
    ENDED = enum.auto()
    """Lost without an error: the client or this side closed it."""
    RESET = enum.auto()
    """Lost with an error: the client may not know."""


# module-level names: Python 3.11 looks up an enum member ten times slower
HANDSHAKING = ConnectionState.HANDSHAKING
ADMITTED = ConnectionState.ADMITTED
AUTHENTICATING = ConnectionState.AUTHENTICATING
SERVING = ConnectionState.SERVING
CLOSING = ConnectionState.CLOSING
ENDED = ConnectionState.ENDED
RESET = ConnectionState.RESET
