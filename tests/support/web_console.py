"""Our web console with logins, in this process, and a browser without scripts that uses it over HTTP."""

from __future__ import annotations

import http.cookiejar
import re
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlencode

from moldau.client.protocol.access import ClusterAccess
from moldau.products.console.service import Console
from moldau.products.service.logins.opened import read_opening
from moldau.products.service.serving import served_in_thread

ROLES = '[roles]\nadmin = ["alice"]\neditor = ["bob"]\nviewer = ["carol"]\n'
ACTS_AS_SERVICE = '[login]\nwithout_tokens = "service"\nmechanism = "SCRAM-SHA-512"\n'


@contextmanager
def console_of(access: ClusterAccess, tmp_path: Path, text: str = ACTS_AS_SERVICE + ROLES) -> Iterator[str]:
    """Its address, without the trailing slash. `text`: of the file of users."""
    path = tmp_path / "people.toml"
    path.write_text(text)
    path.chmod(0o600)
    opening = read_opening("127.0.0.1", path)
    console = Console(access, opening)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        with served_in_thread(console.service, console.app(), listening, opening.tls):
            yield f"{opening.scheme}://127.0.0.1:{listening.getsockname()[1]}"
    console.desks.close()


class WebBrowser:
    """Keeps cookies and follows redirects. `address`: from `console_of`."""

    def __init__(self, address: str, tls: ssl.SSLContext | None = None) -> None:
        self.address = address
        self.cookies = http.cookiejar.CookieJar()
        handlers = [urllib.request.HTTPSHandler(context=tls)] if tls is not None else []
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies), *handlers)
        self.url = ""
        self.headers: Mapping[str, str] = {}

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        return self._ask(path, None, {"accept": "text/html", **headers})

    def post(self, path: str, fields: Mapping[str, str], **headers: str) -> tuple[int, str]:
        return self._ask(path, urlencode(fields).encode(), {"accept": "text/html", **headers})

    def log_in(self, name: str, password: str, then: str = "/") -> tuple[int, str]:
        _, page = self.get(f"/login?{urlencode({'next': then})}")
        fields = {"csrf": token_in(page), "name": name, "password": password, "next": then}
        return self.post("/login", fields)

    def stream(self, path: str) -> BinaryIO:
        """An open stream of events; the caller closes it."""
        answer: BinaryIO = self._opener.open(self.address + path, timeout=60)
        return answer

    def _ask(self, path: str, data: bytes | None, headers: Mapping[str, str]) -> tuple[int, str]:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.address + path, data, names)
        try:
            with self._opener.open(request, timeout=60) as answer:
                self.url, self.headers = answer.url, answer.headers
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            self.url, self.headers = refused.url, refused.headers
            return refused.code, refused.read().decode()


def token_in(page: str) -> str:
    """Of the first form of a page."""
    found = re.search('name="csrf" value="([^"]+)"', page)
    assert found is not None, page
    return found[1]


def sentence_in(page: str) -> str:
    found = re.search('role="alert">([^<]*)<', page)
    return "" if found is None else found[1]
