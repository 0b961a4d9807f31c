"""A command at an HTTP server says so, and the broker says that an HTTP client connected."""

from __future__ import annotations

import http.server
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from tests.support.running_broker import RunningBroker


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        """Silent: a web server's log does not matter here."""


@pytest.fixture
def web_server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join(timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("topics", "list"), "is an HTTP server, not a Kafka broker"),
        (("produce", "orders", "coffee"), "is an HTTP server, not a Kafka broker"),
        (("kafka-topics", "--list"), "this is an HTTP server, not Kafka's protocol"),
        (("doctor",), "is an HTTP server, not a Kafka broker"),
    ],
    ids=["topics", "produce", "kafka-topics", "doctor"],
)
def test_a_command_says_that_an_http_server_answers(words: tuple[str, ...], told: str, web_server: str) -> None:
    command = [sys.executable, "-m", "moldau.cli.main", *words, "--bootstrap-server", web_server]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"{web_server}" in done.stdout + done.stderr
    assert told in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_the_log_says_that_an_http_client_connected() -> None:
    broker = RunningBroker("--in-memory", "--listen", "127.0.0.1:0", "--no-console").wait_until_ready()
    host, _, port = broker.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(b"GET /topics HTTP/1.1\r\nHost: broker\r\n\r\n")
        assert connection.recv(1) == b""
    assert broker.stop() == 0
    assert "this is an HTTP client, not Kafka's protocol" in "".join(broker.output)
