"""A password is nowhere after a login at a service, not even in the memory of its process."""

from __future__ import annotations

import base64
import http.client
import re
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from moldau.testing.cluster import Cluster
from tests.support.certificates import authority
from tests.support.secret_hunt import Hunt, forms
from tests.support.talking_process import TalkingProcess
from tests.support.web_console import WebBrowser, token_in

pytestmark = pytest.mark.slow
WAIT_S = 120
PIECE = 1 << 24
LATER = 20
"""The number of request pairs, a short one and one of the same form, after the last one with a hunted password. Python
does not overwrite small objects when it frees them, but with the next ones of their size."""
PASSWORD, WRONG = "PLANTED-alice-8c1f5e", "PLANTED-wrong-27ab90"
OTHER, OWN = "another-bobby-6e02d9", "console-secret"
USERS = {"alice": PASSWORD, "bobby": OTHER, "console": OWN}
SETTINGS = {"delegation.token.secret.key": "the key of all tokens", "connection.failed.authentication.delay.ms": 0}
TLS = '[tls]\nssl.keystore.type = "PEM"\nssl.keystore.location = "server.pem"\n'
FORM = "content-type: application/x-www-form-urlencoded"


def memory_of(pid: int) -> list[bytes]:
    """All memory that the process has written, in pieces that overlap a little."""
    found: list[bytes] = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            span = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
            if span is None:
                continue
            position, end = int(span[1], 16), int(span[2], 16)
            while position < end:
                try:
                    memory.seek(position)
                    found.append(memory.read(min(PIECE + 4_096, end - position)))
                except OSError:
                    break  # a mapping of a device
                position += PIECE
    return found


class Hunted:
    """A service in a process, and the places where passwords were found. `address`: without the trailing slash."""

    def __init__(self, process: TalkingProcess, address: str) -> None:
        self.process = process
        self.address = address
        self.hunt = Hunt({"the password": PASSWORD, "a wrong password": WRONG})

    def post_at_once(self, browser: WebBrowser, password: str) -> bytes:
        """Sends the login form as a browser does: with its body in the same piece, after more than a kilobyte of
        headers. Gives the whole response."""
        _, page = browser.get("/login")
        place = urlsplit(self.address)
        body = urlencode({"csrf": token_in(page), "name": "alice", "password": password, "next": "/me"})
        cookies = "; ".join(f"{each.name}={each.value}" for each in browser.cookies)
        told = f"user-agent: {1_200 * 'm'}\r\nconnection: close\r\ncookie: {cookies}\r\ncontent-length: {len(body)}"
        with socket.create_connection((place.hostname, place.port or 0), WAIT_S) as connection:
            connection.sendall(
                f"POST /login HTTP/1.1\r\nhost: {place.netloc}\r\n{FORM}\r\n{told}\r\n\r\n{body}".encode()
            )
            return connection.makefile("rb").read()

    def get(self, path: str, password: str | None = None, name: str = "alice") -> tuple[int, bytes]:
        """With Basic, or without a login."""
        login = base64.b64encode(f"{name}:{password}".encode()).decode()
        connection = self._connection()
        connection.request("GET", path, headers={} if password is None else {"authorization": f"Basic {login}"})
        answer = connection.getresponse()
        told = answer.read() + str(answer.headers).encode()
        connection.close()
        return answer.status, told

    def _connection(self) -> http.client.HTTPConnection:
        place = urlsplit(self.address)
        if place.scheme == "http":
            return http.client.HTTPConnection(place.netloc, timeout=WAIT_S)
        context = ssl.create_default_context(cadata=authority().pem)
        return http.client.HTTPSConnection(place.netloc, timeout=WAIT_S, context=context)

    def log_in_by_form(self, *paths: str) -> None:
        """As users do, with the right password and a wrong one; then requests pages."""
        browser = WebBrowser(self.address)
        assert b" 403 " in self.post_at_once(browser, WRONG).partition(b"\r\n")[0]
        answer = self.post_at_once(browser, PASSWORD)
        assert b" 303 " in answer.partition(b"\r\n")[0]
        assert browser.log_in("alice", WRONG)[0] == 403
        status, page = browser.log_in("alice", PASSWORD)
        assert status == 200
        assert WebBrowser(self.address).log_in("alice", WRONG)[0] == 403
        for path in paths:
            page += browser.get(path)[1]
        self.hunt.look_at("page", "pages", page.encode() + answer)
        self.hunt.look_at("cookie", "cookies", str(list(browser.cookies)).encode())

    def look_at_memory(self) -> None:
        for _ in range(LATER):
            self.get("/")
            self.get("/subjects", OTHER, "bobby")
        pieces = memory_of(self.process.pid)
        assert any(OWN.encode() in piece for piece in pieces)  # the service's own password stays: this is its memory
        for piece in pieces:
            self.hunt.look_at("memory", "the process", piece)


@contextmanager
def hunted(tmp_path: Path, *words: str, tls: bool = False) -> Iterator[Hunted]:
    """`words`: of the command line, before `--login`. Searches the files and the output at the end."""
    people = tmp_path / "people.toml"
    people.write_text('[roles]\nviewer = ["*"]\n' + (TLS if tls else ""))
    authority().issue("CN=service").write(tmp_path, "server")
    people.chmod(0o600)
    command = [sys.executable, "-m", "moldau.cli.main", *words, "--port", "0", "--login", str(people)]
    process = TalkingProcess(command, {"SERVICE_PASSWORD": OWN})
    try:
        line = process.next_line(time.monotonic() + WAIT_S)
        assert line is not None, process.output
        found = Hunted(process, line.split()[1].rstrip("/"))
        yield found
        process.terminate()
        assert process.live_on(WAIT_S) == 0, process.output
    finally:
        process.kill()
    found.hunt.look_at("log", "output", "".join(process.output).encode())
    found.hunt.files("file", tmp_path)
    assert len(PASSWORD) == len(WRONG) == len(OTHER)
    assert forms(PASSWORD)[0] == PASSWORD.encode()
    assert found.hunt.found == set()


def client_file(tmp_path: Path, cluster: Cluster) -> str:
    path = tmp_path / "console.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in cluster.client_properties("console").items()))
    path.chmod(0o600)
    return str(path)


def test_a_password_is_gone_after_the_login(tmp_path: Path) -> None:
    with (
        Cluster(security="sasl_plaintext", users=USERS, settings=SETTINGS) as cluster,
        hunted(tmp_path, "console", "--command-config", client_file(tmp_path, cluster)) as console,
    ):
        console.log_in_by_form("/me", "/topics", "/login")
        console.look_at_memory()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
def test_a_registry_keeps_no_password_of_its_requests(tmp_path: Path, tls: bool) -> None:
    with (
        Cluster(security="sasl_plaintext", users=USERS, settings=SETTINGS) as cluster,
        hunted(tmp_path, "registry", "--command-config", client_file(tmp_path, cluster), tls=tls) as registry,
    ):
        for password, expected in ((WRONG, 401), (PASSWORD, 200), (PASSWORD, 200), (WRONG, 401)):
            status, told = registry.get("/subjects", password)
            assert status == expected
            registry.hunt.look_at("answer", "an answer", told)
        registry.look_at_memory()


def test_the_board_of_a_run_keeps_no_password(tmp_path: Path) -> None:
    """The board exists before Spark has started."""
    with Cluster(security="sasl_plaintext", users=USERS, settings=SETTINGS) as cluster:
        properties = cluster.client_properties("console")
        properties["sasl.jaas.config"] = properties["sasl.jaas.config"].replace(OWN, "${SERVICE_PASSWORD}")
        lines = "".join(f"  {name}: '{text}'\n" for name, text in properties.items())
        page = f"name: shop\ncluster:\n{lines}source: {{topic: {cluster.topic()}, format: string}}\n"
        (tmp_path / "shop.yaml").write_text(f"{page}sql: select value from source\nsink: {{path: out}}\n")
        with hunted(tmp_path, "pipeline", "run", str(tmp_path / "shop.yaml")) as board:
            board.log_in_by_form("/me", "/", "/status.json", "/login")
            board.look_at_memory()
