"""The section of docs/operate/security.md about logins runs as written, on a port of the test."""

from __future__ import annotations

import os
import re
import signal
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest

from moldau.testing.cluster import Cluster
from tests.cluster.guides import ROOT
from tests.support.talking_process import TalkingProcess
from tests.support.web_console import WebBrowser

pytestmark = pytest.mark.slow
WAIT_S = 120
USERS = {"admin": "admin-secret", "console": "console-secret"}


def test_the_section_of_logins_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    page = (ROOT / "docs" / "operate" / "security.md").read_text(encoding="utf-8")
    _, _, section = page.partition("## Logins for the web console")
    blocks = dict(re.findall(r"^```(\w+)\n(.*?)^```$", section.partition("\n## ")[0], re.DOTALL | re.MULTILINE))
    settings = {"delegation.token.secret.key": "the key of all tokens"}
    with Cluster(security="sasl_plaintext", users=USERS, settings=settings) as cluster:
        cluster.create_topic("orders")
        lines = (f"{name}={value}\n" for name, value in cluster.client_properties("console").items())
        for name, text in (("people.toml", blocks["toml"]), ("console.properties", "".join(lines))):
            Path(name).write_text(text)
            Path(name).chmod(0o600)
        subprocess.run(["moldau", "certs", "init"], check=True, timeout=WAIT_S)
        first, second = blocks["sh"].splitlines()
        subprocess.run(first.split(), check=True, timeout=WAIT_S)
        process = TalkingProcess(second.replace("127.0.0.1:9080", "127.0.0.1:0").split())
        try:
            line = process.next_line(time.monotonic() + WAIT_S)
            assert line is not None, process.output
            address = line.split()[1].rstrip("/")
            assert address.startswith("https://127.0.0.1:")
            browser = WebBrowser(address, ssl.create_default_context(cafile="moldau-certs/authority.pem"))
            status, shown = browser.log_in("admin", "admin-secret", "/topics")
            assert status == 200
            assert "orders" in shown
            assert "User:admin</a> <small>admin</small>" in shown
            assert all(cookie.secure and cookie.name.startswith("__Host-") for cookie in browser.cookies)
            os.kill(process.pid, signal.SIGINT)
            assert process.live_on(WAIT_S) == 0
        finally:
            process.kill()


def test_a_service_that_would_be_open_to_all_does_not_start(tmp_path: Path) -> None:
    for command in (["console"], ["registry"]):
        words = [sys.executable, "-m", "moldau.cli.main", *command, "--listen", "0.0.0.0:0"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert done.returncode == 1
        assert "--listen 0.0.0.0 is open to other machines, and has no logins and TLS." in done.stderr
        assert len(done.stderr.strip().splitlines()) == 3
