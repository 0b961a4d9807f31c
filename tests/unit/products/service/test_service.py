"""Parts that every product's service gets: admission, headers, metrics, a bound on streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message

from moldau.products.service.admission import Refusal, refuse_other_sites, this_machine
from moldau.products.service.people import NOBODY, How, Person, Role, person_of
from moldau.products.service.routes import ServedRoute
from moldau.products.service.service import MAX_STREAMS, Service, event

LOCAL = ((b"host", b"127.0.0.1:80"),)


async def hello(request: Request) -> Response:
    return PlainTextResponse(f"hello {person_of(request).role.word}")


async def nothing_there(request: Request, _: Exception) -> Response:
    return PlainTextResponse(f"no {request.url.path}", 404)


def ask(app: ASGIApp, path: str, headers: Sequence[tuple[bytes, bytes]] = LOCAL) -> tuple[int, dict[bytes, bytes], str]:
    """Status, headers and body of a GET."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope: dict[str, object] = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": headers,
        "root_path": "",
    }
    scope["asgi"] = {"version": "3.0", "spec_version": "2.4"}  # a stream need not check whether its peer is connected
    asyncio.run(app(scope, receive, send))  # type: ignore[arg-type]
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], dict(sent[0]["headers"]), body.decode()


async def by_token(request: Request, needs: Role) -> Person | Refusal:
    """The token is the name of a role."""
    _, _, token = request.headers.get("authorization", "").partition(" ")
    if not token:
        return NOBODY if needs is Role.NOBODY else Refusal(401, "log in", (("www-authenticate", "Bearer"),))
    subjects = (("orders-", Role.EDITOR),)
    return Person(f"User:{token}", Role[token.upper()], How.BEARER, subjects=subjects)


def token(role: str) -> tuple[tuple[bytes, bytes], ...]:
    return ((b"authorization", b"Bearer " + role.encode()),)


def test_a_route_answers_whoever_has_its_role() -> None:
    routes = [ServedRoute(f"/{role.word}", hello, needs=role) for role in Role]
    app = Service("registry", by_token).app(routes, nothing_there)
    for role in Role:
        for asked in Role:
            headers = token(asked.word) if asked is not Role.NOBODY else ()
            status, told, body = ask(app, f"/{role.word}", headers)
            if asked >= role:
                assert (status, body) == (200, f"hello {asked.word}")
            elif asked is Role.NOBODY:
                assert (status, told[b"www-authenticate"]) == (401, b"Bearer")
            else:
                assert (status, body) == (403, f"User:{asked.word} is no {role.word} here")
    assert ask(app, "/metrics")[0] == ask(app, "/else")[0] == 401
    assert ask(app, "/else", token("viewer"))[0] == 404


def test_a_role_on_a_prefix_counts_for_the_subjects_that_begin_with_it() -> None:
    route = ServedRoute("/subjects/{subject:path}", hello, needs=Role.EDITOR, subject="subject")
    app = Service("registry", by_token).app([route], nothing_there)
    assert ask(app, "/subjects/orders-value", token("viewer"))[0] == 200
    assert ask(app, "/subjects/order", token("viewer"))[0] == 403


def test_a_route_that_names_no_role_cannot_be_made() -> None:
    with pytest.raises(TypeError):
        ServedRoute("/", hello)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="names no role"):
        Service("registry", by_token).app([Route("/", hello)], nothing_there)  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("method", "site", "mode", "is_admitted"),
    [
        ("GET", b"cross-site", b"navigate", True),
        ("HEAD", b"cross-site", b"navigate", True),
        ("GET", b"cross-site", b"no-cors", False),
        ("POST", b"cross-site", b"navigate", False),
        ("PUT", b"same-site", b"cors", False),
        ("DELETE", b"cross-site", b"cors", False),
        ("POST", b"same-origin", b"cors", True),
        ("POST", b"none", b"navigate", True),
    ],
)
def test_a_form_of_another_site_changes_nothing(method: str, site: bytes, mode: bytes, is_admitted: bool) -> None:
    headers = (*LOCAL, (b"sec-fetch-site", site), (b"sec-fetch-mode", mode))
    assert (refuse_other_sites(method, headers) is None) is is_admitted
    assert refuse_other_sites(method, LOCAL) is None


def test_every_answer_is_counted_and_carries_the_headers_that_keep_foreign_pages_out() -> None:
    app = Service("registry", this_machine).app([ServedRoute("/", hello, needs=Role.VIEWER)], nothing_there)
    for path in ("/", "/", "/else"):
        assert ask(app, path)[1][b"x-frame-options"] == b"DENY"
    assert ask(app, "/", ())[0] == 403
    numbers = ask(app, "/metrics")[2]
    assert 'moldau_service_responses_total{service="registry",status="200"} 2\n' in numbers
    assert 'moldau_service_responses_total{service="registry",status="404"} 1\n' in numbers
    assert 'moldau_service_responses_total{service="registry",status="403"} 1\n' in numbers


def test_a_service_with_an_open_stream_is_not_idle_and_counts_it_until_its_end() -> None:
    service = Service("registry", this_machine)

    async def events() -> AsyncGenerator[str]:
        yield event("open", str(service.is_idle(0)).lower())

    async def watch(request: Request) -> Response:
        return service.stream(request, events())

    app = service.app([ServedRoute("/watch", watch, needs=Role.VIEWER)], nothing_there)
    assert "event: open\ndata: false\n" in ask(app, "/watch")[2]
    assert service.is_idle(0)
    assert 'moldau_service_streams{service="registry"} 0\n' in ask(app, "/metrics")[2]


def test_one_stream_too_many_is_refused() -> None:
    service = Service("registry", this_machine)
    refused: list[int] = []

    async def nested(request: Request, depth: int) -> AsyncGenerator[str]:
        response = service.stream(request, nested(request, depth + 1))
        refused.append(response.status_code)
        if response.status_code == 200:
            async for each in response.body_iterator:  # type: ignore[attr-defined]
                yield each

    async def watch(request: Request) -> Response:
        return service.stream(request, nested(request, 1))

    assert ask(service.app([ServedRoute("/watch", watch, needs=Role.VIEWER)], nothing_there), "/watch")[0] == 200
    assert refused == [200] * (MAX_STREAMS - 1) + [503]
