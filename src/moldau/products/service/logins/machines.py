"""Programs with secrets: Prometheus, serializers, scripts.

Each request has the header `Authorization`: Basic with a name and a secret, or Bearer with the secret alone.

    [machines.prometheus]
    role = "viewer"
    sha256 = "..."                                # or a list of two while the secret is changed

    [machines.builder]                            # of a registry: a role on subjects with a prefix
    sha256 = "..."
    subjects = {"orders-" = "editor"}

`moldau machine NAME` makes a secret of 256 random bits and the lines for the file, which contain only its hash. A plain
hash would not protect a password that a person chose.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from moldau.products.service.admission import Admit, Refusal, refuse_other_sites
from moldau.products.service.logins.attempts import Attempts
from moldau.products.service.logins.forms import is_same_origin
from moldau.products.service.logins.passwords import KnownPasswords
from moldau.products.service.logins.settings import LoginFileError, LoginSettings
from moldau.products.service.logins.source import LoginRefused, NoAnswer, outcome_of
from moldau.products.service.people import NOBODY, How, Person, Role
from moldau.transport.http_authorization import CHALLENGE, is_digest, name_of, parse_authorization

MAX_MACHINES: Final = 1_000
MAX_TRIES: Final = 4
"""How many passwords and tokens are tried at the same time. MAX_WAITING more wait; others get 503."""
MAX_WAITING: Final = 16
SLOW_S: Final = 3.0
"""A login that gets no answer for this long counts as a failed attempt. Brokers delay the rejection of a password, and
longer with each attempt of this service, so guesses would occupy all places of MAX_TRIES."""
METRICS: Final = "/metrics"
PRINCIPAL: Final = "Machine:"
"""The prefix of a machine's name in its principal: a machine is not a user of the cluster."""
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")

Bearers = Callable[[str], Person]
"""Returns the person of a token; waits. Raises LoginRefused, NoAnswer."""


class Machine(msgspec.Struct, frozen=True):
    """`digests`: SHA-256 of its secret, and of the old one while the secret is changed."""

    person: Person
    digests: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"Machine({self.person!r})"


def read_machines(settings: LoginSettings) -> dict[str, Machine]:
    """The machines by name. Raises LoginFileError."""
    if len(settings.machines) > MAX_MACHINES:
        raise LoginFileError(f"{settings.path}: [machines] has more than {MAX_MACHINES}")
    return {
        name: _machine(f"{settings.path}: machines.{name}", name, given) for name, given in settings.machines.items()
    }


class Callers:
    """Identifies senders by an Authorization header: see `Machines` of `gate.py`. `passwords`: checks users of the
    cluster; `bearers`: checks tokens that belong to no machine. Use from the loop of one service."""

    def __init__(
        self,
        machines: Mapping[str, Machine],
        passwords: KnownPasswords | None = None,
        bearers: Bearers | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._machines = machines
        self._digests = {name: machine.digests for name, machine in machines.items()}
        self._passwords = passwords
        self._bearers = bearers
        self._clock = clock
        self._attempts = Attempts()
        self._tries = asyncio.Semaphore(MAX_TRIES)
        self._waiting = 0

    async def __call__(self, request: Request) -> Person | Refusal | None:
        headers = request.headers.getlist("authorization")
        if not headers:
            return None
        given = parse_authorization(headers)
        if given is None:
            return unauthorized("the Authorization header is malformed")
        name = name_of(given, self._digests)
        if name is not None:
            how = How.BEARER if given.name is None else How.BASIC
            return msgspec.structs.replace(self._machines[name].person, how=how)
        address = "" if request.client is None else request.client.host
        if given.name is None:
            return await self._tried(self._bearers and partial(self._bearers, given.secret), address, address)
        if given.name in self._machines or self._passwords is None:
            return await self._tried(None, given.name, address)
        known = self._passwords.known(given.name, given.secret)
        log_in = partial(self._passwords.log_in, given.name, given.secret)
        return known or await self._tried(log_in, given.name, address)

    async def _tried(self, ask: Callable[[], Person] | None, name: str, address: str) -> Person | Refusal:
        """`name`: failures are counted by it and by the address."""
        wait_s = self._attempts.wait_s(address, name, self._clock())
        if wait_s > 0:
            return Refusal(429, "too many wrong logins: try again later", (("retry-after", str(int(wait_s) + 1)),))
        found, took_s = await self._within_bounds(ask)
        if isinstance(found, LoginRefused):
            if not found.is_wrong:
                return Refusal(403, str(found))
            self._attempts.failed(address, name, self._clock())
            return unauthorized()
        if isinstance(found, NoAnswer):
            if took_s >= SLOW_S:
                self._attempts.failed(address, name, self._clock())
            return Refusal(503, str(found), (("retry-after", "1"),))
        return found

    async def _within_bounds(self, ask: Callable[[], Person] | None) -> tuple[Person | LoginRefused | NoAnswer, float]:
        """The result of `ask`, and its duration without the wait for a place."""
        if ask is None:
            return LoginRefused("", is_wrong=True), 0.0
        if self._waiting >= MAX_TRIES + MAX_WAITING:
            return NoAnswer("too many logins at once: try again in a moment"), 0.0
        self._waiting += 1
        try:
            async with self._tries:
                began_s = self._clock()
                found = await run_in_threadpool(outcome_of, ask)
                return found, self._clock() - began_s
        finally:
            self._waiting -= 1


def unauthorized(sentence: str = "Unauthorized") -> Refusal:
    return Refusal(401, sentence, (CHALLENGE,))


def only_metrics(callers: Callers) -> Callable[[Request], Awaitable[Person | Refusal | None]]:
    """Lets machines read only `/metrics` of a service with pages: a machine is not a user of the cluster, so the
    service would ask the cluster under its own name."""

    async def find(request: Request) -> Person | Refusal | None:
        found = await callers(request)
        if isinstance(found, Person) and request.url.path != METRICS:
            return Refusal(403, f"{found.principal} may read {METRICS} alone here")
        return found

    return find


def admit_callers(callers: Callers) -> Admit:
    """The admission of a service without pages, such as a registry: without cookies and sessions."""

    async def admit(request: Request, needs: Role) -> Person | Refusal:
        refusal = refuse_other_sites(request.method, request.scope["headers"])
        if refusal is None and request.method not in ("GET", "HEAD") and not is_same_origin(request):
            refusal = Refusal(403, "this service does not answer requests from other sites")
        if refusal is not None:  # a browser that knows a password sends it even with a form of another site
            return refusal
        person = await callers(request)
        if person is not None:
            return person
        return NOBODY if needs is Role.NOBODY else unauthorized()

    return admit


def _machine(where: str, name: str, given: object) -> Machine:
    if not _NAME.fullmatch(name):
        raise LoginFileError(f"{where}: a name has letters, digits, . _ and - alone")
    if not isinstance(given, dict) or not set(given) <= {"role", "subjects", "sha256"}:
        raise LoginFileError(f"{where} takes role, subjects and sha256")
    digests = given.get("sha256")
    digests = [digests] if isinstance(digests, str) else digests
    if not isinstance(digests, list) or not 1 <= len(digests) <= 2 or not all(map(is_digest, digests)):
        raise LoginFileError(f"{where}.sha256 must be what `moldau machine {name}` prints, or a list of two of them")
    subjects = given.get("subjects", {})
    if not isinstance(subjects, dict):
        raise LoginFileError(f'{where}.subjects must be like {{"orders-" = "editor"}}')
    role = _role(f"{where}.role", given["role"]) if "role" in given else Role.NOBODY
    prefixes = tuple((prefix, _role(f"{where}.subjects.{prefix}", word)) for prefix, word in subjects.items())
    person = Person(PRINCIPAL + name, role, How.BEARER, subjects=prefixes)
    return Machine(person, tuple(bytes.fromhex(digest) for digest in digests))


def _role(where: str, word: Any) -> Role:
    for role in Role:
        if role is not Role.NOBODY and role.word == word:
            return role
    raise LoginFileError(f"{where} must be viewer, editor or admin")
