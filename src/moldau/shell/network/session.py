"""The identity of an authenticated client on a node."""

from __future__ import annotations

import msgspec

ANONYMOUS = "User:ANONYMOUS"
"""The principal of a client on a listener without authentication (KIP-11)."""


class Session(msgspec.Struct, frozen=True):
    """A client on one listener. A forwarded request has the session of the client that the forwarding broker serves.

    `principal`: "User:NAME"; `client_address`: without a port.
    """

    principal: str
    client_address: str
    listener_name: str
    mechanism: str = ""
    """The SASL mechanism; "": the client did not use SASL."""
    is_token_authenticated: bool = False
    """The client has logged in by a delegation token, so it may not create another (KIP-48)."""
    token_id: str = ""
    """The id of that token, on the node where the client has logged in."""
