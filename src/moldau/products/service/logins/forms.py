"""Reads posted forms within a bound, and makes safe redirects."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request

MAX_BYTES = 16 << 10
MAX_FIELDS = 50
FORM = "application/x-www-form-urlencoded"
_KEY = "moldau.form"


async def read_form(request: Request) -> Mapping[str, str] | None:
    """The fields of a form; keeps them for the endpoint, because a body can be read only once. None if the body is not
    a form or too large."""
    known: Mapping[str, str] | None = request.scope.get(_KEY)
    if known is not None:
        return known
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        return None
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BYTES:
            return None
    try:
        text = body.decode("ascii")
        fields = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"))
    except ValueError:
        return None
    finally:
        body[:] = bytes(len(body))
    request.scope[_KEY] = fields
    return fields


def local_path(text: str) -> str:
    """The target after the login: a path of this service, or else its first page."""
    is_path = text.startswith("/") and text[1:2] not in ("/", "\\") and text.isprintable() and "\\" not in text
    if not is_path or len(text) > 2_000:
        return "/"
    parts = urlsplit(text)
    return "/" if parts.scheme or parts.netloc or parts.path.startswith("/log") else text


def is_same_origin(request: Request) -> bool:
    """Whether the Origin header, if present, names this service. A browser sends it with every POST."""
    origin = request.headers.get("origin")
    if origin is None:
        return True
    parts = urlsplit(origin)
    return parts.scheme == request.url.scheme and parts.netloc.lower() == request.headers.get("host", "").lower()
