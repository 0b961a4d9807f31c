"""A service's end at SIGTERM, while clients keep their connections."""

from __future__ import annotations

import http.client
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from moldau.testing.cluster import Cluster
from tests.support.certificates import authority
from tests.support.talking_process import TalkingProcess

WAIT_S = 120
PEOPLE = """
[roles]
viewer = ["*"]
[tls]
ssl.keystore.type = "PEM"
ssl.keystore.location = "server.pem"
"""


@contextmanager
def service_over_tls(command: str, tmp_path: Path) -> Iterator[tuple[TalkingProcess, str]]:
    """Its process, and HOST:PORT."""
    authority().issue("CN=service").write(tmp_path, "server")
    people, client = tmp_path / "people.toml", tmp_path / "client.properties"
    people.write_text(PEOPLE)
    with Cluster(security="sasl_plaintext", users={"service": "service-secret"}) as cluster:
        client.write_text("".join(f"{name}={value}\n" for name, value in cluster.client_properties("service").items()))
        for path in (people, client):
            path.chmod(0o600)
        words = [command, "--port", "0", "--login", str(people), "--command-config", str(client)]
        process = TalkingProcess([sys.executable, "-m", "moldau.cli.main", *words])
        try:
            line = process.next_line(time.monotonic() + WAIT_S)
            assert line is not None, process.output
            yield process, urlsplit(line.split()[1]).netloc
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["console", "registry"])
def test_a_service_over_tls_ends_in_order_while_clients_keep_their_connections(command: str, tmp_path: Path) -> None:
    with service_over_tls(command, tmp_path) as (process, place):
        context = ssl.create_default_context(cadata=authority().pem)
        kept = http.client.HTTPSConnection(place, context=context, timeout=WAIT_S)
        host, _, port = place.rpartition(":")
        silent = context.wrap_socket(socket.create_connection((host, int(port)), WAIT_S), server_hostname=host)
        with closing(kept), closing(silent):
            kept.request("GET", "/metrics")
            assert kept.getresponse().read()
            process.terminate()
            assert process.live_on(WAIT_S) == 0
    assert len(process.output) == 1, process.output
