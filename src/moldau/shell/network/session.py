"""Who asks: what a node knows of a client once it is authenticated."""

from __future__ import annotations

import msgspec

ANONYMOUS = "User:ANONYMOUS"
"""The principal of a client on a listener without authentication (KIP-11)."""


class Session(msgspec.Struct, frozen=True):
    """A client on one listener. A request that a broker forwards has the session of the client that the broker serves.

    `principal`: "User:NAME"; `client_address`: without a port."""

    principal: str
    client_address: str
    listener_name: str
    mechanism: str = ""
    """Of SASL; "": the client did not log in by it."""
    is_token_authenticated: bool = False
    """The client has logged in by a delegation token: it gets no further one (KIP-48)."""
    token_id: str = ""
    """Of that token, on the node where the client has logged in."""
