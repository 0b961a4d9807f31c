"""Logins by the form, one at a time from an address, with a user source that answers when the test says so."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from moldau.products.service.logins.gate import Gate
from moldau.products.service.logins.settings import CLUSTER, LoginSettings, Roles
from moldau.products.service.logins.source import Login
from moldau.products.service.people import How, Person, Role
from tests.support.web_console import token_in

WAIT_S = 60


class HeldPeople:
    """See PasswordSource. Every user may log in; `answers`: one for each login."""

    cluster, principal, note = "a cluster", "User:service", ""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.was_asked = threading.Event()
        self.answers = threading.Semaphore(0)

    def log_in(self, name: str, password: str) -> Login:
        self.asked.append(name)
        self.was_asked.set()
        assert self.answers.acquire(timeout=WAIT_S)
        return Login(Person(f"User:{name}", Role.VIEWER, How.PASSWORD))


class Browser:
    """One request of a browser. `left`: it has gone."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.left = asyncio.Event()

    async def log_in(self, name: str) -> Response:
        page = await self._gate.login_page(self._request("GET", b"", ""))
        cookie = page.headers["set-cookie"].partition(";")[0]
        fields = {"csrf": token_in(bytes(page.body).decode()), "name": name, "password": "secret", "next": "/"}
        return await self._gate.log_in(self._request("POST", urlencode(fields).encode(), cookie))

    def _request(self, method: str, body: bytes, cookie: str) -> Request:
        parts = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if parts:
                return parts.pop()
            await self.left.wait()
            return {"type": "http.disconnect"}

        headers = [(b"cookie", cookie.encode()), (b"content-type", b"application/x-www-form-urlencoded")]
        scope = {"type": "http", "method": method, "path": "/login", "query_string": b"", "scheme": "http"}
        more = {"headers": headers, "client": ("10.0.0.7", 1), "server": ("console", 1), "root_path": ""}
        return Request(scope | more, receive)


def told(story: Callable[[Gate, HeldPeople], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        people = HeldPeople()
        gate = Gate("console", LoginSettings(Path("people.toml"), CLUSTER, Roles()), people)
        async with asyncio.timeout(WAIT_S):
            await story(gate, people)
        await gate.close()

    asyncio.run(run())


def test_a_browser_that_left_the_line_is_not_logged_in() -> None:
    async def story(gate: Gate, people: HeldPeople) -> None:
        browsers = {name: Browser(gate) for name in ("first", "gone", "last")}
        tasks = {name: asyncio.create_task(browser.log_in(name)) for name, browser in browsers.items()}
        assert await asyncio.to_thread(people.was_asked.wait, WAIT_S)
        browsers["gone"].left.set()
        people.answers.release(len(tasks))
        statuses = {name: (await task).status_code for name, task in tasks.items()}
        assert statuses == {"first": 303, "gone": 400, "last": 303}
        assert people.asked == ["first", "last"]

    told(story)
