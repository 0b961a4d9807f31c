"""Who may ask a service: a function of the request's method and headers. A login is another such function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from moldau.transport.http_endpoint import is_loopback_host

Headers = Sequence[tuple[bytes, bytes]]
"""Names in lower case, in the order of the request."""

Admit = Callable[[str, Headers], str | None]
"""Of a method and the headers: why the request is refused (403), in one sentence; None: it is admitted."""


def this_machine(method: str, headers: Headers) -> str | None:
    """Admits what a browser or a tool of this machine sends.

    The Host header must name the loopback, so that no page elsewhere can read the service under a name of its own (DNS
    rebinding). From other sites a reader may follow a link; streams, scripts and forms of theirs are refused, and what
    changes something has to come from the service's own pages, or from no browser at all.
    """
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) != 1 or not is_loopback_host(hosts[0].decode("latin-1")):
        return "this service answers requests from this machine only"
    fetched = dict(headers)
    site, reads = fetched.get(b"sec-fetch-site", b"none"), method in ("GET", "HEAD")
    is_foreign = site == b"cross-site" and fetched.get(b"sec-fetch-mode") != b"navigate"
    if is_foreign or (not reads and site not in (b"none", b"same-origin")):
        return "this service does not answer requests from other sites"
    return None
