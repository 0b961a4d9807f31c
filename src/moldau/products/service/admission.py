"""The admission of requests. The contract between a service, its routes and its logins:

1. `Admit` is an async function of the request and of the role that its route needs. It returns the `Person`, or
   a `Refusal`. Where the route needs Role.NOBODY, it gives `NOBODY` for a request without a login. Elsewhere it
   rejects such a request: a browser is redirected to the login page (303), others get 401 with WWW-Authenticate.
2. `Service` asks it before each request and then compares roles: a person whose role is lower than the route needs gets
   403. An endpoint reads the Person by `person_of(request)` and decides nothing about roles.
3. A route is a `ServedRoute` or `ServedFiles` (`routes.py`) and names its least role. `Service.app` takes no other.
   Paths without a route need Role.VIEWER.

`this_machine` is the admission of a service without logins, which listens only on the loopback.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec
from starlette.requests import Request

from moldau.products.service.people import LOCAL, Person, Role
from moldau.transport.http_endpoint import is_loopback_host

Headers = Sequence[tuple[bytes, bytes]]
"""Names in lower case, in the order of the request."""


class Refusal(msgspec.Struct, frozen=True):
    """`status`: 303 (with a `location`), 401 (with a `www-authenticate`), 403, 429 or 503. `sentence`: the reason."""

    status: int
    sentence: str
    headers: tuple[tuple[str, str], ...] = ()


Admit = Callable[[Request, Role], Awaitable[Person | Refusal]]
"""Takes a request and the role that its route needs."""


async def this_machine(request: Request, _: Role) -> Person | Refusal:
    """Admits requests of this machine's browsers and tools as an admin.

    The Host header must name the loopback. Otherwise a page elsewhere could read the service under its own host name
    (DNS rebinding).
    """
    headers: Headers = request.scope["headers"]
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) != 1 or not is_loopback_host(hosts[0].decode("latin-1")):
        return Refusal(403, "this service answers requests from this machine only")
    return refuse_other_sites(request.method, headers) or LOCAL


def refuse_other_sites(method: str, headers: Headers) -> Refusal | None:
    """Rejects requests that other sites cause: of these, a browser may only follow a link, not load streams or scripts
    or send forms. A request that changes something must come from the service's own pages, or not from a browser."""
    fetched = dict(headers)
    site, reads = fetched.get(b"sec-fetch-site", b"none"), method in ("GET", "HEAD")
    is_foreign = site == b"cross-site" and fetched.get(b"sec-fetch-mode") != b"navigate"
    if is_foreign or (not reads and site not in (b"none", b"same-origin")):
        return Refusal(403, "this service does not answer requests from other sites")
    return None
