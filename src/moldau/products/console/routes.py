"""Paths to pages. Every page is whole without JavaScript; `/live` streams the same markup again when it changed.

Read-only: GET and HEAD only. The Host header must name this machine's loopback, so that no page elsewhere can read
this one under a name of its own (DNS rebinding), and streams are refused to other sites. Nothing is loaded from
elsewhere, no script or style stands in the markup, and every foreign text goes through the templates' escaping.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jinja2
import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from moldau import __version__
from moldau.errors import MoldauError
from moldau.products.console.browse import Browser, Found
from moldau.products.console.cluster import ClusterError, GroupFacts, TopicFacts
from moldau.products.console.core.browsing import COUNTS, Question, read_question, write_next
from moldau.products.console.core.charts import draw
from moldau.products.console.core.shown import ShownRecord, show_count, show_duration, show_rate, show_size, visible
from moldau.products.console.sampler import Snapshot
from moldau.products.console.tail import Tail, show_record
from moldau.products.console.viewers import Console
from moldau.products.record_json import record_as_json
from moldau.shell.node.http_endpoint import is_loopback_host

TOPICS_PER_PAGE = 50
HEARTBEAT_S = 10.0
ASKED = ("from", "at", "partition", "key", "value", "header", "count", "next")
"""Parameters of the page of records."""

_HERE = Path(__file__).parent
_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
        b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


def make_app(console: Console) -> ASGIApp:
    pages = Pages(console)
    routes = [
        Route("/", pages.page),
        Route("/topics", pages.page),
        Route("/topics/{topic}", pages.page),
        Route("/topics/{topic}/tail", pages.page),
        Route("/topics/{topic}/records", pages.records),
        Route("/topics/{topic}/records.jsonl", pages.download),
        Route("/topics/{topic}/stream", pages.stream),
        Route("/groups", pages.page),
        Route("/groups/{group:path}", pages.page),
        Route("/brokers", pages.page),
        Route("/live", pages.live),
        Mount("/static", StaticFiles(directory=_HERE / "static")),
    ]
    return Guard(Starlette(routes=routes, exception_handlers={404: pages.no_such_page}), console)


class Guard:
    """Refuses what this machine's browser would not send, and adds the headers that keep it that way."""

    def __init__(self, app: ASGIApp, console: Console) -> None:
        self._app = app
        self._console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        self._console.seen()
        headers = dict(scope["headers"])
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or not is_loopback_host(hosts[0].decode("latin-1")):
            await PlainTextResponse("this page answers requests from this machine only", 403)(scope, receive, send)
            return
        if headers.get(b"sec-fetch-site") == b"cross-site" and headers.get(b"sec-fetch-mode") != b"navigate":
            await PlainTextResponse("this page does not answer requests from other sites", 403)(scope, receive, send)
            return

        async def send_guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *_HEADERS]}
            await send(message)

        await self._app(scope, receive, send_guarded)


class Pages:
    """All pages of one server."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.templates.filters.update(
            size=show_size,
            count=show_count,
            rate=show_rate,
            duration=show_duration,
            visible=visible,
            when=show_time,
            path=quote_path,
        )
        self.templates.globals["m"] = self.templates.get_template("macros.html").module
        self.templates.globals.update(version=__version__, spark=self._spark, chart=self._chart, rate_of=self._rate)

    # -- whole pages

    async def page(self, request: Request) -> Response:
        path = request.url.path
        parameters = {key: value for key, value in request.query_params.items() if key in ("q", "page")}
        try:
            status, name, values = await run_in_threadpool(self.gather, path, dict(request.path_params), parameters)
        except MoldauError as error:
            status, name, values = 502, "error.html", {"title": "The cluster does not answer", "reason": str(error)}
        query = request.url.query
        values = {"here": path, "live": f"{path}?{query}" if query else path, **self._frame(), **values}
        return HTMLResponse(await run_in_threadpool(self._render, name, values), status)

    async def no_such_page(self, request: Request, _: Exception) -> Response:
        values = {"title": "There is no such page", "reason": visible(request.url.path), "here": "", "live": "/"}
        return HTMLResponse(await run_in_threadpool(self._render, "page_missing.html", self._frame() | values), 404)

    def _render(self, name: str, values: dict[str, Any]) -> str:
        return self.templates.get_template(name).render(values)

    def _frame(self) -> dict[str, Any]:
        return {"bootstrap": self.console.cluster.bootstrap_servers, "q": "", "stylesheet": "/static/style.css"}

    def gather(
        self, path: str, path_parameters: dict[str, str], parameters: dict[str, str]
    ) -> tuple[int, str, dict[str, Any]]:
        """(status, template, values) of the page at `path`. In a worker thread. Raises MoldauError."""
        snapshot = self.console.sampler.snapshot()
        if snapshot.taken_s == 0.0:
            raise ClusterError(snapshot.error or "the cluster does not answer")
        values: dict[str, Any] = {"snapshot": snapshot}
        if path == "/":
            busiest = sorted(
                (topic for topic in snapshot.topics if not topic.is_internal),
                key=lambda topic: (-(self._rate(f"in:{topic.name}") or 0), -(topic.records or 0), topic.name),
            )
            return 200, "overview.html", values | {"busiest": busiest[:8]}
        if path == "/topics":
            return 200, "topics.html", values | self._topic_list(snapshot, parameters)
        if path == "/groups":
            return 200, "groups.html", values
        if path == "/brokers":
            return 200, "brokers.html", values | self._brokers(snapshot)
        if "group" in path_parameters:
            return self._group(path_parameters["group"], values)
        return self._topic(path, path_parameters["topic"], values)

    def _topic_list(self, snapshot: Snapshot, parameters: dict[str, str]) -> dict[str, Any]:
        q = parameters.get("q", "")[:249]
        found = [topic for topic in snapshot.topics if q.lower() in topic.name.lower()]
        found.sort(key=lambda topic: (topic.is_internal, topic.name))
        pages = max(1, -(-len(found) // TOPICS_PER_PAGE))
        text = parameters.get("page", "1")
        number = min(pages, max(1, int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 1))
        shown = found[(number - 1) * TOPICS_PER_PAGE : number * TOPICS_PER_PAGE]
        if any(topic.end_sum is None for topic in shown):
            shown = self.console.cluster.with_offsets(shown)
        internal = sum(topic.is_internal for topic in found)
        return {
            "topics": shown,
            "found": len(found),
            "found_internal": internal,
            "page": number,
            "pages": pages,
            "q": q,
        }

    def _topic(self, path: str, name: str, values: dict[str, Any]) -> tuple[int, str, dict[str, Any]]:
        topic = self.find_topic(name)
        if topic is None:
            return 404, "error.html", {"title": "There is no such topic", "reason": visible(name)}
        values["topic"] = topic
        if path.endswith("/tail") and path.count("/") == 3:  # a topic may be called so too
            newest = self._find(topic, Question()).messages
            return 200, "tail.html", values | {"records": [show_record(each) for each in newest]}
        snapshot: Snapshot = values["snapshot"]
        values["groups"] = [
            (group, rows) for group in snapshot.groups if (rows := [row for row in group.rows if row.topic == name])
        ]
        try:
            values["configs"], values["configs_error"] = self.console.cluster.topic_configs(name), None
        except ClusterError as error:
            values["configs"], values["configs_error"] = [], str(error)
        return 200, "topic.html", values

    # -- records of a topic

    async def records(self, request: Request) -> Response:
        """A form and what it finds: `?from=offset&at=120&key=paris`."""
        status, name = 502, "error.html"
        values: dict[str, Any] = {"title": "The cluster does not answer"}
        try:
            topic, question, found = await run_in_threadpool(self._browse, request)
        except MoldauError as error:
            values["reason"] = str(error)
        else:
            if topic is None or found is None:
                status, name = 404, "error.html"
                values = {"title": "There is no such topic", "reason": visible(request.path_params["topic"])}
            else:
                status, name = 200, "records.html"
                values = {**_found_values(dict(request.query_params), found), "topic": topic, "question": question}
        frame = {"here": request.url.path, "live": request.url.path, **self._frame()}
        return HTMLResponse(await run_in_threadpool(self._render, name, frame | values), status)

    async def download(self, request: Request) -> Response:
        """What the page shows, as the JSON lines that `moldau produce --json` reads."""
        try:
            topic, _, found = await run_in_threadpool(self._browse, request)
        except MoldauError as error:
            return PlainTextResponse(str(error), 502)
        if topic is None or found is None:
            return PlainTextResponse("no such topic", 404)
        lines = "".join(f"{json.dumps(record_as_json(each), ensure_ascii=False)}\n" for each in found.messages)
        # A topic's name holds nothing but letters, digits and ._- and is safe in a header.
        headers = {"content-disposition": f'attachment; filename="{topic.name}.jsonl"'}
        return Response(lines.encode("utf-8", "surrogateescape"), media_type="application/x-ndjson", headers=headers)

    def _browse(self, request: Request) -> tuple[TopicFacts | None, Question, Found | None]:
        question = read_question(request.query_params)
        topic = self.find_topic(request.path_params["topic"])
        if topic is None:
            return None, question, None
        return topic, question, self._find(topic, question)

    def _find(self, topic: TopicFacts, question: Question) -> Found:
        browser = Browser(self.console.cluster.bootstrap_servers, topic)
        try:
            return browser.find(question)
        finally:
            browser.close()

    def find_topic(self, name: str) -> TopicFacts | None:
        """With offsets and sizes as they are now."""
        overview = self.console.cluster.overview()
        found = [topic for topic in overview.topics if topic.name == name]
        return self.console.cluster.with_offsets(found)[0] if found else None

    def _group(self, group_id: str, values: dict[str, Any]) -> tuple[int, str, dict[str, Any]]:
        group = self.console.cluster.group(group_id)
        if group.state == "Dead" and not group.rows:
            return 404, "error.html", {"title": "There is no such group", "reason": visible(group_id)}
        return 200, "group.html", values | {"group": group, "idle": _idle(group)}

    def _brokers(self, snapshot: Snapshot) -> dict[str, Any]:
        brokers = []
        for broker in snapshot.overview.brokers:
            leads = sum(each.leader == broker.broker_id for topic in snapshot.topics for each in topic.partitions)
            try:
                configs, error = self.console.cluster.broker_configs(broker.broker_id), None
            except ClusterError as failure:
                configs, error = [], str(failure)
            brokers.append((broker, leads, configs, error))
        return {"brokers": brokers, "not_served": self.console.cluster.features_not_served()}

    # -- charts

    def _spark(self, name: str) -> Any:
        return draw(self.console.sampler.series(name).rates()[-60:], width=120, height=28, slots=30)

    def _chart(self, name: str, *, is_rate: bool = True) -> Any:
        series = self.console.sampler.series(name)
        values = series.rates() if is_rate else series.values()
        return draw(values, width=600, height=120, slots=30, span_s=series.span_s)

    def _rate(self, name: str) -> float | None:
        return self.console.sampler.series(name).rate()

    # -- streams

    async def live(self, request: Request) -> Response:
        """The main part of a page, again whenever it changed: `?path=/topics`."""
        target = request.query_params.get("path", "/")[:1000]
        path, _, query = target.partition("?")
        matched = _match(path)
        if matched is None:
            return PlainTextResponse("no such page", 404)
        parameters = {key: value for key, value in _parse_query(query) if key in ("q", "page")}
        return self._streaming(self._updates(path, matched, parameters))

    async def _updates(
        self, path: str, path_parameters: dict[str, str], parameters: dict[str, str]
    ) -> AsyncIterator[str]:
        version, shown = -1, ""
        while not self.console.is_closed:
            newer = await run_in_threadpool(self.console.sampler.newer_than, version, HEARTBEAT_S)
            self.console.seen()
            if newer == version:
                yield ": still here\n\n"
                continue
            version = newer
            try:
                _, name, values = await run_in_threadpool(self.gather, path, path_parameters, parameters)
            except MoldauError as error:
                name, values = "error.html", {"title": "The cluster does not answer", "reason": str(error)}
            values = {"here": path, "live": path, **self._frame(), **values}
            markup = await run_in_threadpool(self._render_main, name, values)
            if markup != shown:
                shown = markup
                yield _event("main", json.dumps(markup))

    def _render_main(self, name: str, values: dict[str, Any]) -> str:
        template = self.templates.get_template(name)
        context = template.new_context(values)
        return "".join(template.blocks["main"](context))

    async def stream(self, request: Request) -> Response:
        """Records of a topic as they come."""
        try:
            topic = await run_in_threadpool(self.find_topic, request.path_params["topic"])
        except MoldauError as error:
            return PlainTextResponse(str(error), 502)
        if topic is None:
            return PlainTextResponse("no such topic", 404)
        return self._streaming(self._records(topic))

    async def _records(self, topic: TopicFacts) -> AsyncIterator[str]:
        tail = await run_in_threadpool(Tail, self.console.cluster.bootstrap_servers, topic)
        last_s = 0.0
        try:
            records = tail.follow()
            pull: Callable[[], tuple[list[ShownRecord], int]] = partial(next, records)
            while not self.console.is_closed:
                shown, left_out = await run_in_threadpool(pull)
                self.console.seen()
                if shown or left_out:
                    body = {"records": msgspec.to_builtins(shown), "left_out": left_out}
                    yield _event("records", json.dumps(body))
                elif time.monotonic() - last_s > HEARTBEAT_S:
                    yield _event("waiting", "{}")
                else:
                    continue
                last_s = time.monotonic()
        except ClusterError as error:
            yield _event("trouble", json.dumps({"reason": str(error)}))
        finally:
            # a consumer's close waits for its threads, and this may run while the request is being cancelled
            asyncio.get_running_loop().run_in_executor(None, tail.close)

    def _streaming(self, events: AsyncIterator[str]) -> Response:
        console = self.console
        if not console.has_room:
            return PlainTextResponse("too many viewers", 503, {"retry-after": "30"})

        async def counted() -> AsyncIterator[str]:
            if not console.begin_stream():
                return
            try:
                yield "retry: 3000\n\n"
                async for event in events:
                    yield event
            finally:
                console.end_stream()
                await events.aclose()  # type: ignore[attr-defined]

        return StreamingResponse(counted(), media_type="text/event-stream")


def _found_values(parameters: dict[str, str], found: Found) -> dict[str, Any]:
    """What the template shows of `found`. `asked` and `next` are query strings: of this page, and of the one after."""
    asked = {name: parameters[name] for name in ASKED if parameters.get(name)}
    rest = {name: value for name, value in asked.items() if name != "next"}
    return {
        "records": [show_record(each) for each in found.messages],
        "asked": urlencode(asked),
        "next": urlencode({**rest, "next": write_next(found.next_offsets)}) if found.next_offsets else "",
        "scanned": found.scanned,
        "is_complete": found.is_complete,
        "counts": COUNTS,
    }


def _event(name: str, data: str) -> str:
    """`data` is JSON, so it holds no line break."""
    return f"event: {name}\ndata: {data}\n\n"


def _match(path: str) -> dict[str, str] | None:
    """The parameters of a page's path; None: no page that is updated."""
    from urllib.parse import unquote

    if path in ("/", "/topics", "/groups", "/brokers"):
        return {}
    kind, _, name = path.removeprefix("/").partition("/")
    if kind == "topics" and name and "/" not in name:
        return {"topic": unquote(name)}
    if kind == "groups" and name:
        return {"group": unquote(name)}
    return None


def _parse_query(query: str) -> list[tuple[str, str]]:
    from urllib.parse import parse_qsl

    return parse_qsl(query, max_num_fields=10)


def _idle(group: GroupFacts) -> int:
    return sum(not member.assignment for member in group.members)


def quote_path(text: str) -> str:
    """One part of a path; a group id may hold anything."""
    from urllib.parse import quote

    return quote(text, safe="")


def show_time(timestamp_ms: int) -> str:
    """UTC, to the millisecond; empty where there is none or it is no date."""
    if timestamp_ms < 0:
        return ""
    try:
        moment = time.gmtime(timestamp_ms / 1000)
    except (OverflowError, OSError, ValueError):
        return str(timestamp_ms)
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', moment)}.{timestamp_ms % 1000:03d}"
