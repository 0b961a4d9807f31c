"""Who may ask a service: a function of the request's headers. A login is another such function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from moldau.shell.node.http_endpoint import is_loopback_host

Headers = Sequence[tuple[bytes, bytes]]
"""Names in lower case, in the order of the request."""

Admit = Callable[[Headers], str | None]
"""Why the request is refused (403), in one sentence; None: it is admitted."""


def this_machine(headers: Headers) -> str | None:
    """Admits what a browser or a tool of this machine sends.

    The Host header must name the loopback, so that no page elsewhere can read the service under a name of its own (DNS
    rebinding); streams and scripts of other sites are refused.
    """
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) != 1 or not is_loopback_host(hosts[0].decode("latin-1")):
        return "this service answers requests from this machine only"
    fetched = dict(headers)
    if fetched.get(b"sec-fetch-site") == b"cross-site" and fetched.get(b"sec-fetch-mode") != b"navigate":
        return "this service does not answer requests from other sites"
    return None
