"""Access to /metrics of a node with logins: by Basic and Bearer, over TLS; `/live` and `/ready` stay open."""

from __future__ import annotations

import asyncio
import base64
import http.client
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.errors import KafkaError, MoldauError
from moldau.shell.io.clock import SystemClock
from moldau.shell.io.random import SystemRandom
from moldau.shell.io.simulated.clock import ManualClock
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.shell.io.workers import ThreadWorkers
from moldau.shell.network.event_log import EventLog
from moldau.shell.node.assemble import Node
from moldau.shell.node.open_listeners import warn_of_open_listeners
from moldau.shell.node.ports import NodePorts
from moldau.transport.http_authorization import new_secret
from moldau.transport.network import TcpNetwork
from tests.support.certificates import authority

WAIT_S = 30
SECRET, DIGEST = new_secret()


@asynccontextmanager
async def running(**settings: str) -> AsyncIterator[Node]:
    workers = ThreadWorkers()
    ports = NodePorts(
        clock=SystemClock(), random=SystemRandom(), disk=MemoryDisk(), workers=workers, network=TcpNetwork()
    )
    given = {"listeners": "PLAINTEXT://127.0.0.1:0", "moldau.http.listener": "127.0.0.1:0", "log.dirs": "data"}
    node = Node(parse_broker_settings(given | settings), ports)
    await node.start()
    try:
        yield node
    finally:
        await node.stop()
        workers.close()


async def ask(node: Node, path: str, *authorization: str, trusted: str | None = None) -> tuple[int, str | None]:
    """The status, and WWW-Authenticate."""

    def get() -> tuple[int, str | None]:
        assert node.operations is not None
        address = node.operations.address
        if trusted is None:
            connection = http.client.HTTPConnection(address, timeout=WAIT_S)
        else:
            context = ssl.create_default_context(cadata=trusted)
            connection = http.client.HTTPSConnection(address, timeout=WAIT_S, context=context)
        connection.putrequest("GET", path)
        for each in authorization:
            connection.putheader("Authorization", each)
        connection.endheaders()
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status, answer.getheader("WWW-Authenticate")

    return await asyncio.to_thread(get)


def basic(name: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


@pytest.mark.asyncio
async def test_metrics_are_for_those_who_are_named(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text(f"# who\nprometheus={DIGEST}\n")
    async with running(**{"moldau.http.users.file": str(users)}) as node:
        for good in (basic("prometheus", SECRET), f"Bearer {SECRET}", f"bearer  {SECRET}"):
            assert await ask(node, "/metrics", good) == (200, None)
        for bad in (
            (),
            (basic("prometheus", SECRET[:-1]),),
            (basic("other", SECRET),),
            (f"Bearer {DIGEST}",),
            (f"Bearer {SECRET}", f"Bearer {SECRET}"),
            ("Bearer",),
            ("Basic !!!",),
            (f"Digest {SECRET}",),
            (f"Bearer {'a' * 4_000}",),
        ):
            status, challenge = await ask(node, "/metrics", *bad)
            assert (status, challenge and challenge.partition(",")[0]) == (401, 'Basic realm="moldau"')
        assert await ask(node, "/nothing") == (401, 'Basic realm="moldau", charset="UTF-8"')
        for path in ("/live", "/ready", "/ready?verbose"):
            assert await ask(node, path) == (200, None)
        users.write_text(f"prometheus={new_secret()[1]}\n")
        assert (await ask(node, "/metrics", f"Bearer {SECRET}"))[0] == 401
        users.write_text("prometheus=nonsense and longer\n")  # cached ones stay
        assert (await ask(node, "/metrics", f"Bearer {SECRET}"))[0] == 401
        users.write_text(f"other=nothing\nprometheus={DIGEST}\nprometheus={new_secret()[1]}\n".partition("\n")[2])
        assert (await ask(node, "/metrics", f"Bearer {SECRET}"))[0] == 200


@pytest.mark.asyncio
async def test_metrics_over_tls(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text(f"prometheus={DIGEST}\n")
    settings = {
        "moldau.http.tls": "true",
        "moldau.http.users.file": str(users),
        "listener.name.http.ssl.keystore.type": "PEM",
        "listener.name.http.ssl.keystore.location": str(authority().issue("CN=node").write(tmp_path, "node")),
    }
    async with running(**settings) as node:
        trusted = authority().pem
        assert node.operations is not None
        assert node.operations.scheme == "https"
        assert await ask(node, "/metrics", f"Bearer {SECRET}", trusted=trusted) == (200, None)
        assert (await ask(node, "/metrics", trusted=trusted))[0] == 401
        assert (await ask(node, "/live", trusted=trusted))[0] == 200
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            await ask(node, "/live")  # plain HTTP on the port of HTTPS


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("prometheus=secret", "line 1 of .* is not NAME=SHA256"),
        ("# nobody\n", "names nobody"),
        (None, "cannot read"),
        (f"a={DIGEST}\n" * 1_001, "more than 1000 lines"),
    ],
)
async def test_users_that_cannot_be_read_refuse_the_start(tmp_path: Path, text: str | None, told: str) -> None:
    users = tmp_path / "users"
    if text is not None:
        users.write_text(text)
    with pytest.raises(MoldauError, match=told) as refused:
        async with running(**{"moldau.http.users.file": str(users)}):
            pass
    assert "secret" not in str(refused.value)


def test_tls_without_a_certificate_is_refused() -> None:
    with pytest.raises(KafkaError, match=r"moldau\.http\.tls needs a certificate"):
        parse_broker_settings({"moldau.http.tls": "true"})


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ({}, "moldau.http.users.file and moldau.http.tls"),
        ({"moldau.http.users.file": "f"}, "moldau.http.tls"),
        ({"moldau.http.users.file": "f", "moldau.http.tls": "true"}, None),
        ({"moldau.http.listener": "127.0.0.1:9644"}, None),
        ({"moldau.http.listener": "[::1]:9644"}, None),
        ({"moldau.http.listener": ":9644"}, "moldau.http.users.file and moldau.http.tls"),
    ],
)
def test_a_start_tells_of_metrics_that_are_open(
    caplog: pytest.LogCaptureFixture, settings: dict[str, str], missing: str | None
) -> None:
    keystore = {"ssl.keystore.type": "PEM", "ssl.keystore.location": "server.pem"}
    given = {"listeners": "PLAINTEXT://127.0.0.1:0", "moldau.http.listener": "0.0.0.0:9644"}
    warn_of_open_listeners(parse_broker_settings(given | keystore | settings), EventLog(ManualClock()))
    assert (f"set {missing}, or bind" in caplog.text) if missing else not caplog.records
