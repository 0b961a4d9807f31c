"""Where a password is after a login at the web console: nowhere, also not in the memory of its process."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest

from moldau.testing.cluster import Cluster
from tests.support.secret_hunt import Hunt, forms
from tests.support.talking_process import TalkingProcess
from tests.support.web_console import WebBrowser

pytestmark = pytest.mark.slow
WAIT_S = 120
PIECE = 1 << 24
PASSWORD, WRONG = "PLANTED-alice-8c1f5e", "PLANTED-wrong-27ab90"
USERS = {"alice": PASSWORD, "console": "console-secret"}


def memory_of(pid: int) -> list[bytes]:
    """All that the process has written to its memory, in pieces that overlap a little."""
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


def test_a_password_is_gone_after_the_login(tmp_path: Path) -> None:
    people, client = tmp_path / "people.toml", tmp_path / "console.properties"
    people.write_text('[roles]\nviewer = ["*"]\n')
    settings = {"delegation.token.secret.key": "the key of all tokens", "connection.failed.authentication.delay.ms": 0}
    hunt = Hunt({"the password": PASSWORD, "a wrong password": WRONG})
    with Cluster(security="sasl_plaintext", users=USERS, settings=settings) as cluster:
        client.write_text("".join(f"{name}={value}\n" for name, value in cluster.client_properties("console").items()))
        for path in (people, client):
            path.chmod(0o600)
        words = ["page", "--port", "0", "--login", str(people), "--command-config", str(client)]
        process = TalkingProcess([sys.executable, "-m", "moldau.cli.main", *words])
        try:
            line = process.next_line(time.monotonic() + WAIT_S)
            assert line is not None, process.output
            browser = WebBrowser(line.split()[1].rstrip("/"))
            assert browser.log_in("alice", WRONG)[0] == 403
            status, page = browser.log_in("alice", PASSWORD)
            assert status == 200
            for path in ("/me", "/topics", "/login"):
                page += browser.get(path)[1]
            hunt.look_at("page", "pages", page.encode())
            hunt.look_at("cookie", "cookies", str(list(browser.cookies)).encode())
            pieces = memory_of(process.pid)
            assert any(b"console-secret" in piece for piece in pieces)  # that of the service stays: this is its memory
            for piece in pieces:
                hunt.look_at("memory", "the process", piece)
        finally:
            process.kill()
        hunt.look_at("log", "output", "".join(process.output).encode())
    for path in (people, client):
        hunt.look_at("file", path.name, path.read_bytes())
    assert forms(PASSWORD)[0] == PASSWORD.encode()
    assert hunt.found == set()
