"""What people do with connectors in the console."""

from __future__ import annotations

from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from moldau.errors import MoldauError
from moldau.products.console.connect_server import ACTIONS
from moldau.products.console.routes import Pages
from moldau.products.service.logins.forms import read_form


async def connect_act(pages: Pages, request: Request) -> Response:
    """A form with `connector` and `action`, which is one of ACTIONS. Shows the connector's page again."""
    form = await read_form(request)
    name, action = ("", "") if form is None else (form.get("connector", ""), form.get("action", ""))
    if not name or action not in ACTIONS:
        return PlainTextResponse(f"connector and action are needed; the actions are {', '.join(ACTIONS)}", 400)
    if pages.connect is None:
        return PlainTextResponse("no worker of connectors is named: start the console with --connect URL", 404)
    try:
        await run_in_threadpool(pages.connect.act, name, action)
    except MoldauError as error:
        values = {"title": f"The worker did not {action} the connector", "reason": str(error)}
        return HTMLResponse(await run_in_threadpool(pages.whole, request, "error.html", values), 502)
    return RedirectResponse(f"/connectors/{quote(name, safe='')}", 303)
