"""The editor of SQL: runs statements, and sends what they answer as it comes."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Iterator
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from moldau.errors import MoldauError
from moldau.products.console.core.sql_answers import Shown, cell, shown_entity
from moldau.products.console.routes import Pages
from moldau.products.console.sql_server import Event, SqlServer
from moldau.products.service.logins.forms import read_form
from moldau.products.service.service import event
from moldau.types import counted

MAX_ROWS, MAX_WAIT_S = 100, 5.0
"""Of the page without scripts, which shows what has come by then."""
STREAM = "text/event-stream"


async def sql_editor(pages: Pages, request: Request) -> Response:
    return await _page(pages, request, {"text": request.query_params.get("sql", "")[:10_000], "shown": ()})


async def sql_run(pages: Pages, request: Request) -> Response:
    """With `Accept: text/event-stream`: events `shown`, `header`, `row`, `end` and `trouble`. Otherwise a page."""
    form = await read_form(request)
    if form is None:
        return PlainTextResponse("the statements are no form, or longer than 16 KiB", 400)
    if pages.sql is None:
        return PlainTextResponse("no SQL service is named: start the console with --sql URL", 404)
    text = form.get("sql", "")
    if STREAM in request.headers.get("accept", ""):
        return pages.service.stream(request, _events(pages, pages.sql, text))
    shown = await run_in_threadpool(_gathered, pages.sql, text)
    return await _page(pages, request, {"text": text, "shown": shown})


async def _page(pages: Pages, request: Request, values: dict[str, Any]) -> Response:
    return HTMLResponse(await run_in_threadpool(pages.whole, request, "sql_editor.html", values))


async def _events(pages: Pages, server: SqlServer, text: str) -> AsyncGenerator[str]:
    found = server.events(text)
    try:
        while not (pages.service.is_closed or pages.is_closed):
            try:
                name, value = await run_in_threadpool(next, found, ("", None))
            except MoldauError as error:
                yield event("trouble", json.dumps({"reason": str(error)}))
                return
            pages.service.seen()
            if not name:
                return
            yield _told(name, value)
    finally:
        await run_in_threadpool(_closed, found)


def _closed(found: Iterator[Event]) -> None:
    found.close()  # type: ignore[attr-defined]  # a generator, which ends the request


def _told(name: str, value: Any) -> str:
    match name:
        case "entity":
            shown = shown_entity(value)
            return event("shown", json.dumps({"text": shown.text, "columns": shown.columns, "rows": shown.rows}))
        case "header":
            return event("header", json.dumps({"columns": columns_of(value.get("schema", ""))}))
        case "row":
            cells = [cell(one) if one is not None else None for one in value.get("columns", ())]
            return event("row", json.dumps({"cells": cells, "is_deleted": bool(value.get("tombstone"))}))
        case "error":
            return event("trouble", json.dumps({"reason": str(value.get("message", ""))}))
        case "end":
            return event("end", json.dumps({"text": str(value.get("finalMessage", ""))}))
    return ": still here\n\n"


def _gathered(server: SqlServer, text: str) -> list[Shown]:
    """What comes within MAX_WAIT_S, and at most MAX_ROWS rows."""
    shown: list[Shown] = []
    columns: tuple[str, ...] = ()
    rows: list[tuple[str, ...]] = []
    last, deadline_s = "", time.monotonic() + MAX_WAIT_S
    found = server.events(text)
    try:
        for name, value in found:
            if name == "entity":
                shown.append(shown_entity(value))
            elif name == "header":
                columns = tuple(columns_of(value.get("schema", "")))
            elif name == "row":
                deleted = " (deleted)" if value.get("tombstone") else ""
                rows.append(tuple(cell(one) + deleted for one in value.get("columns", ())))
            elif name in ("error", "end"):
                last = str(value.get("message" if name == "error" else "finalMessage", ""))
            if len(rows) >= MAX_ROWS or time.monotonic() > deadline_s:
                last = f"the first {counted(len(rows), 'row')}: with JavaScript, more follow as they come"
                break
    except MoldauError as error:
        last = str(error)
    finally:
        _closed(found)
    if columns:
        shown.append(Shown(last, columns, tuple(rows)))
    elif last:
        shown.append(Shown(last))
    return shown


def columns_of(schema: str) -> list[str]:
    """The names in the schema of a header: "`ID` BIGINT, `NAME` STRING". Fields of structs are within brackets."""
    names: list[str] = []
    depth, at = 0, 0
    while at < len(schema):
        letter = schema[at]
        if letter == "`" and (end := schema.find("`", at + 1)) > 0:
            if depth == 0:
                names.append(schema[at + 1 : end])
            at = end
        depth += (letter in "<(") - (letter in ">)")
        at += 1
    return names
