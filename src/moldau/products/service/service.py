"""The common part of HTTP services: application, streams, metrics, stop.

A service has routes, each with its least role, and an `Admit` (see `admission.py`). It gets `/metrics`, headers that
keep a browser from loading or embedding foreign content, and a bound on its streams.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from moldau.products.service.admission import Admit, Refusal
from moldau.products.service.people import Role, is_admitted, put_person
from moldau.products.service.routes import ServedRoute, ServiceRoute, check_routes, needed_by

MAX_STREAMS = 20
"""The maximum for one service; a further stream gets 503."""

END_S = 5.0

_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
        b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),  # with no-referrer a browser sends `Origin: null` with our own forms
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)

NotFound = Callable[[Request, Exception], Awaitable[Response]]
ErrorAnswer = Callable[[int, str], Response]
"""Makes the service's response from a status and a sentence."""


def error_text(status: int, sentence: str) -> Response:
    return PlainTextResponse(sentence, status)


class Service:
    """One HTTP service; use from its loop. `name`: a lower-case word, the label in `/metrics`."""

    def __init__(self, name: str, admit: Admit) -> None:
        self.name = name
        self.is_closed = False
        """Streams end soon after it is set."""
        self.routes: Sequence[ServiceRoute] = ()
        """All routes that `app` serves, in their order."""
        self._admit = admit
        self._wakes: list[Callable[[], None]] = []
        self._ends: list[Callable[[], Awaitable[None]]] = []
        self._answers: Counter[int] = Counter()
        self._streams = 0
        self._last_request_s = time.monotonic()

    def app(
        self,
        routes: Sequence[ServiceRoute],
        not_found: NotFound,
        more_metrics: Callable[[], bytes] = bytes,
        error: ErrorAnswer = error_text,
    ) -> ASGIApp:
        """The application: `routes`, `/metrics` with `more_metrics` in Prometheus' text format, and `not_found` for all
        other paths. `error` answers a request that is not admitted, a method that a path does not have, and a failure.
        Raises TypeError for a route without a role."""

        async def metrics(_: Request) -> Response:
            text = (await run_in_threadpool(more_metrics)).decode() + self._own_metrics()
            return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

        async def wrong_method(request: Request, _: Exception) -> Response:
            return error(405, f"{request.url.path} has no {request.method}")

        async def failed(*_: object) -> Response:
            return error(500, "Internal server error: see the log of this service")

        every = [*routes, ServedRoute("/metrics", metrics, needs=Role.VIEWER)]
        check_routes(every)
        self.routes = every
        served = Starlette(
            routes=every,
            exception_handlers={404: not_found, 405: wrong_method, Exception: failed},
        )

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                return
            self.seen()

            async def send_guarded(message: Any) -> None:
                if message["type"] == "http.response.start":
                    self._answers[message["status"]] += 1
                    message = {**message, "headers": [*message["headers"], *_HEADERS]}
                await send(message)

            request = Request(scope, receive)
            needed = needed_by(every, scope)
            person = await self._admit(request, needed.role)
            if isinstance(person, Refusal):
                answer = error(person.status, person.sentence)
                answer.headers.update(dict(person.headers))
                await answer(scope, receive, send_guarded)
            elif not needed.has(person):
                await error(403, f"{person.principal} is no {needed.role.word} here")(scope, receive, send_guarded)
            else:
                put_person(scope, person)
                await served(scope, receive, send_guarded)

        return guarded

    # -- viewers

    def seen(self) -> None:
        """Notes a request, or a stream that still has its viewer."""
        self._last_request_s = time.monotonic()

    def is_idle(self, idle_s: float) -> bool:
        """Whether no stream is open and no request came for `idle_s`."""
        return self._streams == 0 and time.monotonic() - self._last_request_s >= idle_s

    def wake_at_close(self, wake: Callable[[], None]) -> None:
        """`wake`: wakes the waits for news, from any thread. May be called twice."""
        self._wakes.append(wake)

    def close(self) -> None:
        """Ends the streams: a server that stops waits a second for them, and would then abort them with an error."""
        self.is_closed = True
        for wake in self._wakes:
            wake()

    def await_at_end(self, end: Callable[[], Awaitable[None]]) -> None:
        """`end`: gives up the access held for people; runs on the loop, after the last response, within END_S."""
        self._ends.append(end)

    async def end(self) -> None:
        ends, self._ends = self._ends, []
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                for each in ends:
                    await each()

    # -- streams

    def stream(self, request: Request, events: AsyncGenerator[str]) -> Response:
        """Server-sent events, or 503 if MAX_STREAMS are open. `events` should end once `is_closed`. A stream ends at
        the first event after the end of its session."""
        if self._streams >= MAX_STREAMS:
            return PlainTextResponse("too many viewers", 503, {"retry-after": "30"})
        return StreamingResponse(self._counted(events, is_admitted(request)), media_type="text/event-stream")

    async def _counted(self, events: AsyncGenerator[str], may_go_on: Callable[[], bool]) -> AsyncGenerator[str]:
        if self._streams >= MAX_STREAMS:  # other streams began after the check
            return
        self._streams += 1
        try:
            yield "retry: 3000\n\n"
            async for event in events:
                if not may_go_on():
                    return
                yield event
        finally:
            self._streams -= 1
            await events.aclose()

    # -- metrics

    def _own_metrics(self) -> str:
        label = f'service="{self.name}"'
        answers = (
            f'moldau_service_responses_total{{{label},status="{status}"}} {count}'
            for status, count in sorted(self._answers.items())
        )
        lines = (
            "# TYPE moldau_service_responses_total counter",
            *answers,
            "# TYPE moldau_service_streams gauge",
            f"moldau_service_streams{{{label}}} {self._streams}",
        )
        return "\n".join(lines) + "\n"


def event(name: str, data: str) -> str:
    """One server-sent event. `data` is JSON, so it contains no line break."""
    return f"event: {name}\ndata: {data}\n\n"
