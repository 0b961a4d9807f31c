"""The pages of one access to a cluster. `desks.py` has their paths.

Every page is complete without JavaScript; `/live` streams the markup again when it changes. Only GET and HEAD are
served. Pages load nothing from other hosts and contain no inline script or style. Templates escape all foreign text.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from moldau.errors import MoldauError
from moldau.products.console.browse import Browser, Found
from moldau.products.console.certificates import WARN_DAYS, Certificates
from moldau.products.console.cluster import Cluster, ClusterError, ConfigFacts, GroupFacts, SilentError, TopicFacts
from moldau.products.console.cluster_state import MAX_ROWS, ClusterWatch, is_whole
from moldau.products.console.connect_server import ACTIONS, ConnectServer
from moldau.products.console.core.browsing import COUNTS, MAX_PARTITIONS, Question, read_question, write_next
from moldau.products.console.core.connectors import TONES, Connector
from moldau.products.console.core.shown import ShownRecord
from moldau.products.console.core.sql_facts import SqlLists
from moldau.products.console.core.sql_picture import picture_of_sql
from moldau.products.console.dead_letters import DeadLetter, DeadLettersWatch
from moldau.products.console.pipelines import (
    PipelineFacts,
    Standing,
    is_pipeline,
    picture_of,
    pipelines_of,
    standing,
)
from moldau.products.console.sampler import Sampler, Snapshot, silent_brokers, topic_series
from moldau.products.console.sql_server import SqlServer
from moldau.products.console.tail import MAX_TAIL_PARTITIONS, Tail, show_record
from moldau.products.record_json import record_as_json
from moldau.products.registered_values import RegisteredValues
from moldau.products.service.look.charts import draw
from moldau.products.service.look.pages import render_main, templates_in
from moldau.products.service.look.plan import draw_plan
from moldau.products.service.look.words import visible
from moldau.products.service.people import person_of
from moldau.products.service.service import Service, event
from moldau.types import hint

TOPICS_PER_PAGE = 50
HEARTBEAT_S = 10.0
ASKED = ("from", "at", "partition", "key", "value", "header", "count", "next")
"""Parameters of the page of records."""

SQL_TONES = {"running": "good", "starting": "busy", "retrying": "bad", "failed": "bad"}
"""Colours of the states of queries."""

_HERE = Path(__file__).parent


class _AnyText(PathConvertor):
    """Matches any text, including line breaks, which Starlette's own convertor excludes: a group id may contain any
    character."""

    regex = "(?s:.*)"


register_url_convertor("any", _AnyText())


class Pages:
    """All pages of one access. The cluster and the sampler work in threads."""

    def __init__(
        self,
        service: Service,
        cluster: Cluster,
        sampler: Sampler,
        values: RegisteredValues | None = None,
        acts_as: str = "",
        sql: SqlServer | None = None,
        connect: ConnectServer | None = None,
    ) -> None:
        """`values`: decodes the keys and values of records. `acts_as`: the principal of the service."""
        self.is_closed = False
        self.service = service
        self.acts_as = acts_as
        self.sql = sql
        self.connect = connect
        self.values = values
        self.cluster = cluster
        self.sampler = sampler
        self.watch = ClusterWatch(cluster)
        self.certificates = Certificates(cluster.access)
        self.dead_letters = DeadLettersWatch(self._find)
        self.templates = templates_in(_HERE / "templates")
        self.templates.filters.update(when=show_time, path=quote_path)
        self.templates.globals["m"] = self.templates.get_template("macros.html").module
        self.templates.globals.update(spark=self._spark, chart=self._chart, rate_of=self._rate)
        self.templates.globals.update(standing=self._standing, sql_url=", ".join(sql.urls) if sql else "")
        self.templates.globals.update(sql_tones=SQL_TONES, connector_tones=TONES, connector_actions=list(ACTIONS))
        self.templates.globals.update(connect_url=", ".join(connect.urls) if connect else "")

    def close(self) -> None:
        """Ends the streams, and the connections to the cluster."""
        self.is_closed = True
        self.sampler.close()
        self.cluster.close()

    # -- whole pages

    async def page(self, request: Request) -> Response:
        path = request.url.path
        parameters = {key: value for key, value in request.query_params.items() if key in ("q", "page")}
        try:
            status, name, values = await run_in_threadpool(self.gather, path, dict(request.path_params), parameters)
        except MoldauError as error:
            status, name, values = 502, "error.html", {"title": "The cluster does not answer", "reason": str(error)}
        query = request.url.query
        # The raw path: a second decoding could change the name of a group.
        sent = request.scope["raw_path"].decode("latin-1")
        values = {"here": path, "live": f"{sent}?{query}" if query else sent, **self._frame(request), **values}
        return HTMLResponse(await run_in_threadpool(self._render, name, values), status)

    def whole(self, request: Request, name: str, values: dict[str, Any]) -> str:
        """A page that does not update itself. In a worker thread."""
        return self._render(name, {"here": request.url.path, "live": "", **self._frame(request), **values})

    async def no_such_page(self, request: Request, _: Exception) -> Response:
        values = {"title": "Page not found", "reason": visible(request.url.path), "here": "", "live": "/"}
        return HTMLResponse(
            await run_in_threadpool(self._render, "page_missing.html", self._frame(request) | values), 404
        )

    def _render(self, name: str, values: dict[str, Any]) -> str:
        return self.templates.get_template(name).render(values)

    def _frame(self, request: Request) -> dict[str, Any]:
        servers = str(self.cluster.access)
        who = {"person": person_of(request), "service_principal": self.acts_as}
        return {"bootstrap": servers, "cluster": servers, "q": "", **who}

    def gather(
        self, path: str, path_parameters: dict[str, str], parameters: dict[str, str]
    ) -> tuple[int, str, dict[str, Any]]:
        """(status, template, values) of the page at `path`. In a worker thread. Raises MoldauError."""
        snapshot = self.sampler.snapshot()
        if snapshot.taken_s == 0.0:
            raise ClusterError(snapshot.error or "the cluster does not answer")
        values: dict[str, Any] = {"snapshot": snapshot}
        if path == "/":
            busiest = sorted(
                (topic for topic in snapshot.topics if not topic.is_internal),
                key=lambda topic: (-(self._rate(f"in:{topic.name}") or 0), -(topic.records or 0), topic.name),
            )
            behind = sum(not is_whole(each) for topic in snapshot.topics for each in topic.partitions)
            pipelines = sum(is_pipeline(group) for group in snapshot.groups)
            return 200, "overview.html", values | {"busiest": busiest[:8], "behind": behind, "pipelines": pipelines}
        if path == "/topics":
            return 200, "topics.html", values | self._topic_list(snapshot, parameters)
        if path == "/groups":
            return 200, "groups.html", values
        if path == "/pipelines":
            return 200, "pipelines.html", values | {"pipelines": pipelines_of(snapshot.groups, snapshot.topics)}
        if "pipeline" in path_parameters:
            return self._pipeline(path_parameters["pipeline"], snapshot, values)
        if path == "/sql":
            return 200, "sql.html", values | self._sql_lists()
        if "query" in path_parameters:
            return self._sql_query(path_parameters["query"], values)
        if path == "/connectors":
            return 200, "connectors.html", values | self._connectors(snapshot)
        if "connector" in path_parameters:
            return self._connector(path_parameters["connector"], snapshot, values)
        if path == "/brokers":
            return 200, "brokers.html", values | {"seen": self.watch.at(snapshot), "max_rows": MAX_ROWS}
        if "broker" in path_parameters:
            return self._broker(path_parameters["broker"], snapshot, values)
        if "group" in path_parameters:
            return self._group(path_parameters["group"], snapshot, values)
        return self._topic(path, path_parameters["topic"], values)

    def _sql_lists(self) -> dict[str, Any]:
        lists, error = SqlLists(), ""
        try:
            lists = lists if self.sql is None else self.sql.lists()
        except MoldauError as failure:
            error = str(failure)
        boxes, edges = picture_of_sql(lists)
        return {"lists": lists, "sql_error": error, "plan": draw_plan(boxes, edges) if boxes else ""}

    def _sql_query(self, query_id: str, values: dict[str, Any]) -> tuple[int, str, dict[str, Any]]:
        try:
            query = None if self.sql is None else self.sql.explained(query_id)
        except MoldauError as error:
            return 404, "error.html", {"title": "The query is not shown", "reason": visible(str(error))}
        if query is None:
            return 404, "error.html", {"title": "Query not found", "reason": visible(query_id)}
        return 200, "sql_query.html", values | {"query": query}

    def _connectors(self, snapshot: Snapshot) -> dict[str, Any]:
        found: list[Connector] = []
        told = ""
        try:
            found = found if self.connect is None else self.connect.connectors()
        except MoldauError as error:
            told = str(error)
        return {"connectors": found, "connect_error": told, "lags": {one.group_id: one.lag for one in snapshot.groups}}

    def _connector(self, name: str, snapshot: Snapshot, values: dict[str, Any]) -> tuple[int, str, dict[str, Any]]:
        try:
            found = None if self.connect is None else self.connect.connector(name)
            offsets = () if self.connect is None else self.connect.offsets(name)
        except MoldauError as error:
            return 404, "error.html", {"title": "The connector is not shown", "reason": visible(str(error))}
        if found is None:
            return 404, "error.html", {"title": "Connector not found", "reason": visible(name)}
        lag = next((one.lag for one in snapshot.groups if one.group_id == found.group), None)
        topic = self.find_topic(found.dead_letters_topic) if found.dead_letters_topic else None
        letters: list[DeadLetter] = []
        trouble: str | None = None
        try:
            letters = [] if topic is None else self.dead_letters.newest(self.cluster.with_offsets([topic]))
        except ClusterError as error:
            trouble = str(error)
        mine = {
            "offsets": offsets,
            "lag": found.lag if lag is None else lag,
            "dead_letters": letters,
            "dead_letters_error": trouble,
        }
        return 200, "connector.html", values | {"connector": found, **mine}

    def _topic_list(self, snapshot: Snapshot, parameters: dict[str, str]) -> dict[str, Any]:
        q = parameters.get("q", "")[:249]
        found = [topic for topic in snapshot.topics if q.lower() in topic.name.lower()]
        found.sort(key=lambda topic: (topic.is_internal, topic.name))
        pages = max(1, -(-len(found) // TOPICS_PER_PAGE))
        text = parameters.get("page", "1")
        number = min(pages, max(1, int(text) if _is_number(text) else 1))
        shown = found[(number - 1) * TOPICS_PER_PAGE : number * TOPICS_PER_PAGE]
        if any(topic.end_sum is None for topic in shown):
            shown = self.cluster.with_offsets(shown)
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
            near = hint(name, (topic.name for topic in self.cluster.overview().topics))
            return 404, "error.html", {"title": "Topic not found", "reason": visible(name + near)}
        values["topic"] = topic
        if path.endswith("/tail") and path.count("/") == 3:  # a topic may be named `tail` too
            newest = self._find(topic, Question()).messages
            unread = max(0, len(topic.partitions) - MAX_TAIL_PARTITIONS)
            records = [show_record(each, self.values) for each in newest]
            return 200, "tail.html", values | {"records": records, "unread": unread}
        [values["topic"]] = self.cluster.with_offsets([topic])
        snapshot: Snapshot = values["snapshot"]
        values["groups"] = [
            (group, rows) for group in snapshot.groups if (rows := [row for row in group.rows if row.topic == name])
        ]
        try:
            values["configs"], values["configs_error"] = self.cluster.topic_configs(name), None
        except ClusterError as error:
            values["configs"], values["configs_error"] = [], str(error)
        return 200, "topic.html", values

    # -- records of a topic

    async def records(self, request: Request) -> Response:
        """The search form and its results: `?from=offset&at=120&key=paris`."""
        status, name = 502, "error.html"
        values: dict[str, Any] = {"title": "The cluster does not answer"}
        try:
            topic, question, found = await run_in_threadpool(self._browse, request)
        except MoldauError as error:
            values["reason"] = str(error)
        else:
            if topic is None or found is None:
                status, name = 404, "error.html"
                values = {"title": "Topic not found", "reason": visible(request.path_params["topic"])}
            else:
                status, name = 200, "records.html"
                shown = _found_values(dict(request.query_params), found, self.values)
                values = {**shown, "topic": topic, "question": question}
        frame = {"here": request.url.path, "live": request.url.path, **self._frame(request)}
        return HTMLResponse(await run_in_threadpool(self._render, name, frame | values), status)

    async def download(self, request: Request) -> Response:
        """The records of the page as JSON lines, which `moldau produce --json` reads."""
        try:
            topic, _, found = await run_in_threadpool(self._browse, request)
        except MoldauError as error:
            return PlainTextResponse(str(error), 502)
        if topic is None or found is None:
            return PlainTextResponse("no such topic", 404)
        lines = "".join(f"{json.dumps(record_as_json(each), ensure_ascii=False)}\n" for each in found.messages)
        # A topic name contains only letters, digits and ._-, so it is safe in a header.
        headers = {"content-disposition": f'attachment; filename="{topic.name}.jsonl"'}
        return Response(lines.encode("utf-8", "surrogateescape"), media_type="application/x-ndjson", headers=headers)

    def _browse(self, request: Request) -> tuple[TopicFacts | None, Question, Found | None]:
        question = read_question(request.query_params)
        topic = self.find_topic(request.path_params["topic"])
        if topic is None:
            return None, question, None
        if question.partition not in (None, *(each.index for each in topic.partitions)):
            last = max((each.index for each in topic.partitions), default=0)
            trouble = f"the topic has no partition {question.partition}: its last one is {last}"
            question = msgspec.structs.replace(question, trouble=trouble)
        return topic, question, self._find(topic, question)

    def _find(self, topic: TopicFacts, question: Question) -> Found:
        asked = [each for each in topic.partitions if question.partition in (None, each.index)]
        [read] = self.cluster.with_offsets([TopicFacts(topic.name, tuple(asked[:MAX_PARTITIONS]))])
        browser = Browser(self.cluster.access, read)
        try:
            found = browser.find(question)
        finally:
            browser.close()
        unread = len(asked) - sum(each.end is not None for each in read.partitions)
        return msgspec.structs.replace(found, unread=unread)

    def find_topic(self, name: str) -> TopicFacts | None:
        """The topic of this name, without its offsets and sizes; None if it does not exist."""
        return next((topic for topic in self.cluster.overview().topics if topic.name == name), None)

    def _group(self, group_id: str, snapshot: Snapshot, values: dict[str, Any]) -> tuple[int, str, dict[str, Any]]:
        try:
            group = self.cluster.group(group_id)
        except SilentError as error:
            silent = silent_brokers(snapshot.overview, self.cluster.silent()) or (str(error),)
            reason = f"Not answering: {', '.join(silent)}. Nobody else knows the members and offsets of this group."
            return 503, "error.html", {"title": "The coordinator of the group does not answer", "reason": reason}
        if group.state == "Dead" and not group.rows:
            return 404, "error.html", {"title": "Group not found", "reason": visible(group_id)}
        return 200, "group.html", values | {"group": group, "idle": _idle(group), "is_pipeline": is_pipeline(group)}

    def _pipeline(self, group_id: str, snapshot: Snapshot, values: dict[str, Any]) -> tuple[int, str, dict[str, Any]]:
        found = [group for group in snapshot.groups if group.group_id == group_id]
        pipelines = pipelines_of(found, snapshot.topics)
        if not pipelines:
            return 404, "error.html", {"title": "Pipeline not found", "reason": visible(group_id)}
        [pipeline] = pipelines
        dead_letters: list[DeadLetter] = []
        error: str | None = None
        try:
            dead_letters = self.dead_letters.newest(pipeline.dead_letter_topics)
        except ClusterError as failure:
            error = str(failure)
        rates = {each.topic: self._rate(topic_series(group_id, each.topic)) for each in pipeline.topics}
        dead_letter_rates = {topic.name: self._rate(f"in:{topic.name}") for topic in pipeline.dead_letter_topics}
        drawn = draw_plan(*picture_of(pipeline, rates, dead_letter_rates))
        mine = {"pipeline": pipeline, "dead_letters": dead_letters, "dead_letters_error": error, "plan": drawn}
        return 200, "pipeline.html", values | mine

    def _broker(self, number: str, snapshot: Snapshot, values: dict[str, Any]) -> tuple[int, str, dict[str, Any]]:
        seen = self.watch.at(snapshot)
        state = seen.state
        if state is None:
            raise ClusterError(seen.error or "the cluster does not answer")
        row = state.broker(int(number)) if _is_number(number) else None
        if row is None:
            return 404, "error.html", {"title": "Broker not found", "reason": visible(number)}
        configs: list[ConfigFacts] = []
        error: str | None = "it does not serve now"
        if not row.is_fenced:  # a fenced broker does not answer, and the page would wait for the time-out
            try:
                configs, error = self.cluster.broker_configs(row.broker_id), None
            except ClusterError as failure:
                error = str(failure)
        days = None if row.is_fenced else self.certificates.days_left(row.address)
        values |= {"certificate_days": days, "warn_days": WARN_DAYS}
        return 200, "broker.html", values | {"state": state, "row": row, "configs": configs, "configs_error": error}

    # -- charts

    def _spark(self, name: str) -> Any:
        return draw(self.sampler.series(name).rates()[-60:], width=120, height=28, slots=30)

    def _chart(self, name: str, *, is_rate: bool = True) -> Any:
        series = self.sampler.series(name)
        values = series.rates() if is_rate else series.values()
        return draw(values, width=600, height=120, slots=30, span_s=series.span_s)

    def _standing(self, pipeline: PipelineFacts) -> Standing:
        return standing(pipeline, self.sampler.series(f"out:{pipeline.group.group_id}"))

    def _rate(self, name: str) -> float | None:
        return self.sampler.series(name).rate()

    # -- streams

    async def live(self, request: Request) -> Response:
        """Streams the main part of a page after each change: `?path=/topics`."""
        target = request.query_params.get("path", "/")
        path, _, query = target.partition("?")
        matched = _match(path)
        try:
            parameters = {key: value for key, value in _parse_query(query) if key in ("q", "page")}
        except ValueError:  # more fields than a page has
            matched = None
        if matched is None:
            return PlainTextResponse("no such page", 404)
        return self.service.stream(request, self._updates(request, path, matched, parameters))

    async def _updates(
        self, request: Request, path: str, path_parameters: dict[str, str], parameters: dict[str, str]
    ) -> AsyncGenerator[str]:
        version, shown = -1, ""
        while not (self.service.is_closed or self.is_closed):
            newer = await run_in_threadpool(self.sampler.newer_than, version, HEARTBEAT_S)
            self.service.seen()
            if newer == version:
                yield ": still here\n\n"
                continue
            version = newer
            try:
                _, name, values = await run_in_threadpool(self.gather, path, path_parameters, parameters)
            except MoldauError as error:
                name, values = "error.html", {"title": "The cluster does not answer", "reason": str(error)}
            values = {"here": path, "live": path, **self._frame(request), **values}
            markup = await run_in_threadpool(render_main, self.templates, name, values)
            if markup != shown:
                shown = markup
                yield event("main", json.dumps(markup))

    async def stream(self, request: Request) -> Response:
        """Streams the records of a topic as they arrive."""
        try:
            topic = await run_in_threadpool(self.find_topic, request.path_params["topic"])
        except MoldauError as error:
            return PlainTextResponse(str(error), 502)
        if topic is None:
            return PlainTextResponse("no such topic", 404)
        return self.service.stream(request, self._records(topic))

    async def _records(self, topic: TopicFacts) -> AsyncGenerator[str]:
        tail = await run_in_threadpool(Tail, self.cluster.access, topic, self.values)
        last_s = 0.0
        try:
            records = tail.follow()
            pull: Callable[[], tuple[list[ShownRecord], int]] = partial(next, records)
            while not (self.service.is_closed or self.is_closed):
                shown, left_out = await run_in_threadpool(pull)
                self.service.seen()
                if shown or left_out:
                    body = {"records": msgspec.to_builtins(shown), "left_out": left_out}
                    yield event("records", json.dumps(body))
                elif time.monotonic() - last_s > HEARTBEAT_S:
                    yield event("waiting", "{}")
                else:
                    continue
                last_s = time.monotonic()
        except ClusterError as error:
            yield event("trouble", json.dumps({"reason": str(error)}))
        finally:
            # closing a consumer waits for its threads, and this code may run while the request is being cancelled
            asyncio.get_running_loop().run_in_executor(None, tail.close)


def _found_values(parameters: dict[str, str], found: Found, decoder: RegisteredValues | None) -> dict[str, Any]:
    """The template's values for `found`. `asked` and `next` are the query strings of this page and of the next one."""
    asked = {name: parameters[name] for name in ASKED if parameters.get(name)}
    rest = {name: value for name, value in asked.items() if name != "next"}
    return {
        "records": [show_record(each, decoder) for each in found.messages],
        "asked": urlencode(asked),
        "next": urlencode({**rest, "next": write_next(found.next_offsets)}) if found.next_offsets else "",
        "scanned": found.scanned,
        "is_complete": found.is_complete,
        "unread": found.unread,
        "counts": COUNTS,
    }


def _match(path: str) -> dict[str, str] | None:
    """The parameters of a page's path; None for a page without updates."""
    from urllib.parse import unquote

    if path in ("/", "/topics", "/groups", "/pipelines", "/sql", "/connectors", "/brokers"):
        return {}
    kind, _, name = path.removeprefix("/").partition("/")
    if kind == "topics" and name and "/" not in name:
        return {"topic": unquote(name)}
    if kind == "groups" and name:
        return {"group": unquote(name)}
    if kind == "pipelines" and name:
        return {"pipeline": unquote(name)}
    if kind == "connectors" and name:
        return {"connector": unquote(name)}
    if kind == "brokers" and _is_number(name):
        return {"broker": name}
    return None


def _is_number(text: str) -> bool:
    """Whether `text` is a short whole number: of a page or a broker."""
    return text.isascii() and text.isdigit() and len(text) <= 10


def _parse_query(query: str) -> list[tuple[str, str]]:
    from urllib.parse import parse_qsl

    return parse_qsl(query, max_num_fields=10)


def _idle(group: GroupFacts) -> int:
    return sum(not member.assignment for member in group.members)


def quote_path(text: str) -> str:
    """Quotes one part of a path; a group id may contain any character."""
    from urllib.parse import quote

    return quote(text, safe="")


def show_time(timestamp_ms: int) -> str:
    """The time in UTC, to the millisecond; empty for no time or an invalid date."""
    if timestamp_ms < 0:
        return ""
    try:
        moment = time.gmtime(timestamp_ms / 1000)
    except (OverflowError, OSError, ValueError):
        return str(timestamp_ms)
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', moment)}.{timestamp_ms % 1000:03d}"
