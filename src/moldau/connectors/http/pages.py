"""A page of JSON: its records, the cursor of the next page, or the link to it.

A place is {"cursor": text or null, "records": n}: the page of this cursor, and how many of its records have been read.
With links the cursor is the target (path and query) of the page. As long as a page has no next one, new records are
those at its end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urljoin

from moldau.connectors.http.requests import HttpError, parse_url, shown
from moldau.transport.https_request import Answer, HttpAddress

Place = dict[str, Any]
Pointer = tuple[str, ...]

HEADER: Final = "header"
PAGE, RECORD = "page", "record"
_LINK: Final = re.compile(r"<([^<>]*)>((?:\s*;\s*[\w*-]+\s*=\s*(?:\"[^\"]*\"|[^\s\",;]+))*)")
_NEXT: Final = re.compile(r";\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s\",;]+))", re.IGNORECASE)
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Paging:
    """`cursor`: where the next cursor is, in the page or in its last record (`cursor_of`). `next_page`: HEADER, the
    place of a link in the page, or None."""

    address: HttpAddress
    records: Pointer
    cursor_param: str = ""
    cursor: Pointer | None = None
    cursor_of: str = PAGE
    next_page: Pointer | str | None = None

    def address_of(self, cursor: str | None) -> HttpAddress:
        if cursor is None:
            return self.address
        if self.next_page is not None:
            return self.address._replace(target=cursor)
        target = self.address.target
        sign = "&" if "?" in target else "?"
        return self.address._replace(target=f"{target}{sign}{quote(self.cursor_param)}={quote(cursor, safe='')}")

    def read(self, answer: Answer, cursor: str | None) -> Page:
        """Raises HttpError."""
        where = str(self.address)
        try:
            body = json.loads(answer.body, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise HttpError(f"{where} answered with a body that is not JSON: {shown(answer.body)}") from None
        records = find(body, self.records)
        if not isinstance(records, list):
            what = "nothing" if records is _ABSENT else f"{type(records).__name__}, not a list,"
            raise HttpError(f"{where} answered with {what} at records.pointer: {shown(answer.body)}")
        return Page(records, self._following(answer, body, records, cursor), len(answer.body))

    def cursor_in(self, value: object) -> str | None:
        """The text of the cursor in a page or a record. Raises HttpError."""
        found = _ABSENT if self.cursor is None else find(value, self.cursor)
        if found is _ABSENT or found is None or found == "":
            return None
        if isinstance(found, bool | list | dict):
            raise HttpError(f"{self.address}: the value at cursor.pointer is {json.dumps(found)[:100]}, not a cursor")
        return found if isinstance(found, str) else json.dumps(found)

    def _following(self, answer: Answer, body: object, records: Sequence[object], cursor: str | None) -> str | None:
        if self.next_page == HEADER:
            return self._target(next_link(answer.header("link")), cursor)
        if isinstance(self.next_page, tuple):
            link = find(body, self.next_page)
            return self._target(link if isinstance(link, str) else "", cursor)
        if self.cursor_of == RECORD:
            return self.cursor_in(records[-1]) if records else None
        return self.cursor_in(body)

    def _target(self, link: str, cursor: str | None) -> str | None:
        """The target of a link, which may be relative. Credentials stay with their server."""
        if not link:
            return None
        own = self.address_of(cursor)
        host = f"[{own.host}]" if ":" in own.host else own.host
        try:
            found = parse_url(urljoin(f"{own.scheme}://{host}:{own.port}{own.target}", link.partition("#")[0]))
        except ValueError as error:
            raise HttpError(f"{self.address}: the link to the next page {shown(link.encode())!r} {error}") from None
        if found[:3] != own[:3]:
            raise HttpError(f"{self.address}: the next page is at another server, {found}")
        return found.target


@dataclass(frozen=True, slots=True)
class Page:
    """`following`: the cursor of the next page; None: there is none yet. `size`: bytes."""

    records: list[Any]
    following: str | None
    size: int


def parse_pointer(text: str) -> Pointer:
    """A JSON pointer (RFC 6901). Raises ValueError."""
    if not text:
        return ()
    if not text.startswith("/"):
        raise ValueError("a JSON pointer begins with /")
    if re.search("~(?![01])", text):
        raise ValueError("~ is written ~0 in a JSON pointer, and / is ~1")
    return tuple(one.replace("~1", "/").replace("~0", "~") for one in text[1:].split("/"))


def find(value: Any, pointer: Pointer) -> Any:
    for part in pointer:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and re.fullmatch("0|[1-9][0-9]{0,8}", part) and int(part) < len(value):
            value = value[int(part)]
        else:
            return _ABSENT
    return value


def next_link(header: str) -> str:
    """The address of the relation `next` in a header `Link` (RFC 8288); empty without one."""
    for link in _LINK.finditer(header):
        rel = _NEXT.search(link[2])
        if rel is not None and "next" in (rel[1] or rel[2] or "").lower().split():
            return link[1]
    return ""


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
