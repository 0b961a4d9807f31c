"""The admission of a service with logins, and its pages: login, own role, log-out, log-out everywhere.

A browser has a session cookie. A request that changes something must also have the session's token, as the form field
`csrf` or the header `x-csrf-token`, and come from the service's own pages. `machines` identifies requests with other
credentials (basic, bearer).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from moldau.products.service.admission import Refusal, refuse_other_sites
from moldau.products.service.logins.attempts import Attempts
from moldau.products.service.logins.forms import is_same_origin, local_path, read_form
from moldau.products.service.logins.sessions import Session, Sessions, is_same
from moldau.products.service.logins.settings import CLUSTER, LoginSettings
from moldau.products.service.logins.source import Login, LoginRefused, NoAnswer, OidcSource, PasswordSource, outcome_of
from moldau.products.service.logins.turns import MAX_TRIES, Turns
from moldau.products.service.look.pages import templates_in
from moldau.products.service.people import NOBODY, Person, Role, person_of, put_admitted
from moldau.products.service.routes import ServedRoute

LOGIN, LOGOUT, EVERYWHERE, ME = "/login", "/logout", "/logout-everywhere", "/me"
OIDC_START, OIDC_BACK = "/login/oidc", "/login/oidc/back"
MAX_NAME, MAX_PASSWORD = 255, 4_096
SWEEP_S = 30.0
WRONG = "The name or the password is wrong."

Machines = Callable[[Request], Awaitable[Person | Refusal | None]]
"""Identifies the sender by an Authorization header; None without such a header."""


async def no_machines(_: Request) -> Person | Refusal | None:
    return None


class Gate:
    """`name`: of the service. `source`: checks a login and gives access under the person's own name. `ended`: called
    with each person whose session ends. Use from the loop of the service, and for one service only."""

    def __init__(
        self,
        name: str,
        settings: LoginSettings,
        source: PasswordSource | OidcSource,
        *,
        machines: Machines = no_machines,
        ended: Callable[[Person], None] = lambda _: None,
    ) -> None:
        self._name = name
        self._settings = settings
        self._source = source
        self._machines = machines
        self._ended = ended
        self._sessions = Sessions(settings.idle_s)
        self._attempts = Attempts()
        self._key = secrets.token_bytes(32)
        self._turns = Turns()
        self._threads = ThreadPoolExecutor(MAX_TRIES, thread_name_prefix="login")
        self._sweeping: asyncio.Task[None] | None = None
        self._giving_back: set[asyncio.Future[None]] = set()
        self._templates = templates_in(Path(__file__).parent / "templates")

    # -- admission

    async def admit(self, request: Request, needs: Role) -> Person | Refusal:
        """See `admission.Admit`."""
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep())
        changes = request.method not in ("GET", "HEAD")
        refusal = refuse_other_sites(request.method, request.scope["headers"])
        if refusal is not None or (changes and not is_same_origin(request)):
            return refusal or Refusal(403, "this service does not answer requests from other sites")
        machine = await self._machines(request)
        if machine is not None:
            return machine
        session = self._session(request)
        if session is None:
            return NOBODY if needs is Role.NOBODY else _who_are_you(request)
        if changes and request.url.path != LOGIN and not await _has_token(request, session.person.csrf):
            return Refusal(403, "the form belongs to another session: reload the page")
        put_admitted(request.scope, lambda: not session.is_over)
        return session.person

    def _session(self, request: Request) -> Session | None:
        text = request.cookies.get(self._cookie(request), "")
        return self._sessions.find(text, time.monotonic()) if text else None

    def _cookie(self, request: Request, what: str = "") -> str:
        """The cookie's name contains the port, because cookies do not distinguish ports. `__Host-`: a browser accepts
        it only over TLS, and only from this host."""
        server = request.scope.get("server") or ("", 0)
        return f"{'__Host-' if _is_secure(request) else ''}moldau-{self._name}{what}-{server[1]}"

    # -- pages

    def routes(self) -> list[ServedRoute]:
        """These routes need no role: the role of a person may cover only some subjects. The login form has its own
        token."""
        found = [
            ServedRoute(LOGIN, self.login_page, needs=Role.NOBODY, methods=["GET"]),
            ServedRoute(ME, self.me, needs=Role.NOBODY, methods=["GET"]),
            ServedRoute(LOGOUT, self.log_out, needs=Role.NOBODY, methods=["POST"]),
            ServedRoute(EVERYWHERE, self.log_out_everywhere, needs=Role.NOBODY, methods=["POST"]),
        ]
        if isinstance(self._source, PasswordSource):
            return [*found, ServedRoute(LOGIN, self.log_in, needs=Role.NOBODY, methods=["POST"])]
        start = ServedRoute(OIDC_START, self.start_oidc, needs=Role.NOBODY, methods=["GET"])
        return [*found, start, ServedRoute(OIDC_BACK, self.end_oidc, needs=Role.NOBODY, methods=["GET"])]

    async def login_page(self, request: Request) -> Response:
        return self._login_page(request, local_path(request.query_params.get("next", "/")))

    def _login_page(self, request: Request, then: str, sentence: str = "", status: int = 200) -> Response:
        """The form's token belongs to a cookie of the same response, so another site cannot log a user in."""
        nonce = request.cookies.get(self._cookie(request, "-form"), "")
        if len(nonce) != 43:
            nonce = secrets.token_urlsafe(32)
        page = self._page(
            "login.html",
            status,
            sentence=sentence,
            token=self._form_token(nonce),
            then=then,
            oidc=None if self._settings.source == CLUSTER else f"{OIDC_START}?{urlencode({'next': then})}",
            note=self._source.note,
        )
        self._set(page, request, "-form", nonce)
        return page

    def _page(self, name: str, status: int = 200, **values: Any) -> Response:
        frame = {"cluster": self._source.cluster, "live": "/", "person": None, "service": self._name}
        return HTMLResponse(self._templates.get_template(name).render(frame | values), status)

    async def log_in(self, request: Request) -> Response:
        form = await read_form(request)
        if form is None:
            return PlainTextResponse("this is no login form", 400)
        then = local_path(form.get("next", "/"))
        nonce = request.cookies.get(self._cookie(request, "-form"), "")
        if not is_same(form.get("csrf", ""), self._form_token(nonce)):
            return self._login_page(request, then, "The page is too old. Try again.", 403)
        name, address = form.get("name", "").strip(), _address(request)
        wait_s = self._attempts.wait_s(address, name[:MAX_NAME], time.monotonic())
        if wait_s > 0:
            return self._too_many_wrong(request, then, wait_s)
        try:
            async with self._turns.of(address):
                # the attempts before it in the line may have failed
                wait_s = self._attempts.wait_s(address, name[:MAX_NAME], time.monotonic())
                if wait_s > 0:
                    return self._too_many_wrong(request, then, wait_s)
                login = await self._tried(name, form, address)
        except NoAnswer as silent:
            return self._login_page(request, then, str(silent), 503)
        if isinstance(login, Login):
            return self._logged_in(request, login, then)
        return self._login_page(request, then, str(login), login.status if isinstance(login, LoginRefused) else 503)

    def _too_many_wrong(self, request: Request, then: str, wait_s: float) -> Response:
        answer = self._login_page(request, then, f"Too many wrong logins. Try again in {wait_s:.0f} s.", 429)
        answer.headers["retry-after"] = str(int(wait_s) + 1)
        return answer

    async def _tried(self, name: str, form: Mapping[str, str], address: str) -> Login | LoginRefused | NoAnswer:
        source = self._source
        if not isinstance(source, PasswordSource):
            return LoginRefused("This service has no passwords.")
        if not name or len(name) > MAX_NAME or not 0 < len(form.get("password", "")) <= MAX_PASSWORD:
            return LoginRefused(WRONG)
        log_in = partial(source.log_in, name, form["password"])
        found = await asyncio.get_running_loop().run_in_executor(self._threads, outcome_of, log_in)
        if isinstance(found, LoginRefused) and found.is_wrong:
            self._attempts.failed(address, name, time.monotonic())
        return found

    def _logged_in(self, request: Request, login: Login, then: str) -> Response:
        """Opens a new session, regardless of the browser's previous one."""
        self._sessions.close(request.cookies.get(self._cookie(request), ""))
        now_s = time.monotonic()
        ends_s = now_s + min(self._settings.absolute_s, login.lasts_s)
        session = Session(login.person, now_s, ends_s, lambda: self._end(login), login.renew)
        answer = RedirectResponse(then, 303)
        self._set(answer, request, "", self._sessions.open(session))
        return answer

    async def log_out(self, request: Request) -> Response:
        self._sessions.close(request.cookies.get(self._cookie(request), ""))
        return self._left(request)

    async def log_out_everywhere(self, request: Request) -> Response:
        person = person_of(request)
        if not person.is_nobody:
            self._sessions.close_all(person.principal)
        return self._left(request)

    def _left(self, request: Request) -> Response:
        answer = RedirectResponse(LOGIN, 303)
        self._set(answer, request, "", "", max_age=0)
        return answer

    async def me(self, request: Request) -> Response:
        person = person_of(request)
        if person.is_nobody:
            return RedirectResponse(LOGIN, 303)
        subjects = [(prefix, role.word) for prefix, role in person.subjects]
        return self._page("me.html", person=person, subjects=subjects, service_principal=self._source.principal)

    # -- OpenID Connect

    async def start_oidc(self, request: Request) -> Response:
        """Redirects to the issuer. Keeps the expected parts of its answer in a signed cookie of this browser."""
        then = local_path(request.query_params.get("next", "/"))
        back = f"{request.url.scheme}://{request.headers.get('host', '')}{OIDC_BACK}"
        try:
            address, kept = await run_in_threadpool(self._oidc().start, back, then)
        except NoAnswer as silent:
            return self._login_page(request, then, str(silent), 503)
        answer = RedirectResponse(address, 303)
        self._set(answer, request, "-oidc", f"{kept}.{self._form_token(kept)}", max_age=600)
        return answer

    async def end_oidc(self, request: Request) -> Response:
        kept, _, signature = request.cookies.get(self._cookie(request, "-oidc"), "").rpartition(".")
        if not is_same(signature, self._form_token(kept)):
            return self._login_page(request, "/", "This login was begun elsewhere. Try again.", 403)
        try:
            login, then = await run_in_threadpool(self._oidc().end, kept, dict(request.query_params))
            answer = self._logged_in(request, login, local_path(then))
        except LoginRefused as refused:
            answer = self._login_page(request, "/", str(refused), refused.status)
        except NoAnswer as silent:
            answer = self._login_page(request, "/", str(silent), 503)
        self._set(answer, request, "-oidc", "", max_age=0)
        return answer

    def _oidc(self) -> OidcSource:
        if not isinstance(self._source, OidcSource):
            raise NoAnswer("This service has no issuer of OpenID Connect.")
        return self._source

    # -- cookies and ends

    def _set(self, answer: Response, request: Request, what: str, text: str, max_age: int | None = None) -> None:
        answer.set_cookie(
            self._cookie(request, what),
            text,
            max_age=max_age,
            path="/",
            secure=_is_secure(request),
            httponly=True,
            samesite="lax",  # a link from elsewhere may lead to a page; a form from elsewhere carries no cookie
        )

    def _form_token(self, nonce: str) -> str:
        return hmac.new(self._key, f"form {nonce}".encode("utf-8", "replace"), hashlib.sha256).hexdigest()

    def _end(self, login: Login) -> None:
        self._ended(login.person)
        future = asyncio.get_running_loop().run_in_executor(None, login.end)
        self._giving_back.add(future)
        future.add_done_callback(self._giving_back.discard)

    async def _sweep(self) -> None:
        """Ends expired sessions, and renews the access of the others."""
        while True:
            await asyncio.sleep(SWEEP_S)
            self._sessions.sweep(time.monotonic())
            for session in self._sessions.all():
                if not await run_in_threadpool(session.renew):
                    self._sessions.drop(session)

    async def close(self) -> None:
        """Ends all sessions, and gives up their access to the cluster."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._sessions.close_all()
        await asyncio.gather(*self._giving_back, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)


def _is_secure(request: Request) -> bool:
    return request.url.scheme == "https"


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def _who_are_you(request: Request) -> Refusal:
    """Redirects a browser that opens a page to the login; scripts and tools get a 401."""
    if request.method in ("GET", "HEAD") and "text/html" in request.headers.get("accept", ""):
        query = request.url.query
        then = f"{request.url.path}?{query}" if query else request.url.path
        return Refusal(303, "log in first", (("location", f"{LOGIN}?{urlencode({'next': then})}"),))
    return Refusal(401, "log in first", (("www-authenticate", 'Bearer realm="moldau"'),))


async def _has_token(request: Request, expected: str) -> bool:
    given = request.headers.get("x-csrf-token")
    if given is None:
        form = await read_form(request)
        given = "" if form is None else form.get("csrf", "")
    return is_same(given, expected)
