"""A node whose listener has TLS: principals, the handshake time limit, new certificates while it runs."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from pathlib import Path
from typing import Any

import pytest

from moldau.shell.io.simulated.workers import InlineWorkers
from moldau.shell.network.connection_state import ConnectionState
from moldau.shell.node.tls import CERTIFICATE_END
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.protocol.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from moldau.wire.protocol.messages.delegation_tokens import CreateDelegationTokenRequest
from tests.support.certificates import LOCAL, Authority, authority
from tests.support.tls_settings import settings_in
from tests.unit.shell.conftest import Client

BROKER, SET, DELETE = 4, 0, 1
LOCATION = "listener.name.ssl.ssl.keystore.location"


def chain_of(context: ssl.SSLContext) -> bytes | None:
    """The listener's certificate with this context, in a handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname, asking.verify_mode = False, ssl.CERT_NONE
    client = asking.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return client.getpeercert(binary_form=True)


async def alter(client: Client, *changes: tuple[str, str | None]) -> Any:
    configs = tuple(IncrementalAlterableConfig(name, DELETE if text is None else SET, text) for name, text in changes)
    request = IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(BROKER, "1", configs),))
    return (await client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)).responses[0]


async def ask_versions(client: Client) -> Any:
    return await client.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())


@pytest.mark.asyncio
async def test_the_certificate_of_a_client_names_its_principal(start_node: Any, tmp_path: Path) -> None:
    rules = "RULE:CN=(\\w+),.*/$1/L,RULE:CN=nobody/nobody/"
    node = await start_node(settings_in(tmp_path, principal_mapping_rules=rules))
    alice, nameless, refused = node.connect(), node.connect(), node.connect()
    assert alice.connection.state is ConnectionState.HANDSHAKING
    alice.connection.secured(authority().issue("CN=Alice,OU=x").der)
    assert alice.connection.session.principal == "User:alice"
    assert (await ask_versions(alice)).error_code == 0
    nameless.connection.secured(None)
    assert nameless.connection.session.principal == "User:ANONYMOUS"
    refused.connection.secured(authority().issue("CN=mallory").der)
    assert refused.wire.is_closed


@pytest.mark.asyncio
async def test_a_token_is_given_to_a_client_with_a_certificate_alone(start_node: Any, tmp_path: Path) -> None:
    """Without a certificate the other end of TLS is unknown (KIP-48)."""
    node = await start_node({**settings_in(tmp_path), "delegation.token.secret.key": "k"})
    known, nameless = node.connect(), node.connect()
    known.connection.secured(authority().issue("CN=Alice").der)
    nameless.connection.secured(None)
    request = CreateDelegationTokenRequest()
    answers = [await client.ask(ApiKey.CREATE_DELEGATION_TOKEN, 2, request) for client in (known, nameless)]
    assert [(answer.error_code, answer.principal_name) for answer in answers] == [(0, "CN=Alice"), (64, "ANONYMOUS")]


@pytest.mark.asyncio
async def test_a_handshake_that_is_not_done_in_time_ends_its_connection(
    start_node: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    node = await start_node({**settings_in(tmp_path), "moldau.handshake.timeout.ms": "5000"})
    silent, done = node.connect(), node.connect()
    done.connection.secured(None)
    now_ms = int(asyncio.get_running_loop().time() * 1_000)
    for client in (silent, done):
        client.connection.sweep(now_ms + 4_000)
    assert not silent.wire.is_closed
    for client in (silent, done):
        client.connection.sweep(now_ms + 6_000)
    assert silent.wire.is_closed
    assert not done.wire.is_closed
    assert "was not let in on SSL: the TLS handshake was not done in 5000 ms" in caplog.text


@pytest.mark.asyncio
async def test_a_file_that_changes_is_used_for_new_connections(start_node: Any, tmp_path: Path) -> None:
    node = await start_node(settings_in(tmp_path))
    tls = node.node._tls
    server = tls.server("SSL")
    old = chain_of(server.context)
    await tls.look("SSL", InlineWorkers())
    assert chain_of(server.context) == old
    (tmp_path / "server.pem").write_text("half a ")
    await tls.look("SSL", InlineWorkers())
    assert chain_of(server.context) == old
    new = authority().issue("CN=server")
    new.write(tmp_path, "server")
    await tls.look("SSL", InlineWorkers())
    assert chain_of(server.context) == new.der
    os.remove(tmp_path / "server.pem")
    await tls.look("SSL", InlineWorkers())
    assert chain_of(server.context) == new.der


@pytest.mark.asyncio
async def test_a_setting_that_changes_is_in_use_when_it_is_answered(start_node: Any, tmp_path: Path) -> None:
    node = await start_node(settings_in(tmp_path, allow_dn_changes="true"))
    client = node.connect()
    client.connection.secured(None)
    server = node.node._tls.server("SSL")
    old, new = chain_of(server.context), authority().issue("CN=other")
    other = str(new.write(tmp_path, "other"))
    assert (await alter(client, (LOCATION, other))).error_code == 0
    assert chain_of(server.context) == new.der
    assert (await alter(client, (LOCATION, None))).error_code == 0
    assert chain_of(server.context) == old
    assert (await ask_versions(client)).error_code == 0


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("absent", None, "cannot read {path}: No such file or directory"),
        ("damaged", "-----BEGIN", "{path}: holds no private key in PEM"),
        ("foreign", "key of another", "{path}: the private key is not that of the first certificate"),
    ],
)
async def test_a_store_that_does_not_load_is_refused_and_changes_nothing(
    start_node: Any, tmp_path: Path, name: str, content: str | None, told: str
) -> None:
    node = await start_node(settings_in(tmp_path))
    client = node.connect()
    client.connection.secured(None)
    server = node.node._tls.server("SSL")
    old, path = chain_of(server.context), tmp_path / name
    if content == "key of another":
        content = authority().issue("CN=a").key_pem + authority().issue("CN=b").chain_pem
    if content is not None:
        path.write_text(content)
    answer = await alter(client, (LOCATION, str(path)))
    assert (answer.error_code, answer.error_message) == (42, told.format(path=path))
    assert chain_of(server.context) == old
    answer = await alter(client, ("listener.name.ssl.ssl.keystore.password", "x"))
    assert answer.error_code == 42
    assert answer.error_message.startswith("SSL key store password cannot be specified with PEM format")


@pytest.mark.asyncio
async def test_a_certificate_that_ends_soon_is_told_at_the_start(
    start_node: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_in(tmp_path)
    node = await start_node(settings)
    days = (node.node.telemetry.value(CERTIFICATE_END, "SSL") - node.clock.now_ms()) // 86_400_000
    authority().issue("CN=server", days=90 - days + 20).write(tmp_path, "server")
    await node.node._tls.look("SSL", InlineWorkers())
    assert "the certificate of listener SSL expires in" in caplog.text


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("subject", "hosts", "allowed", "told"),
    [
        ("CN=server", LOCAL, "", ""),
        ("CN=server", (*LOCAL, "more"), "", ""),
        (
            "CN=other",
            LOCAL,
            "",
            "Keystore DistinguishedName does not match: existing={DN=CN=server}, new={DN=CN=other}",
        ),
        ("CN=server", LOCAL[:1], "", "Keystore SubjectAltNames do not match: existing={SAN=["),
        ("CN=other", LOCAL, "allow_dn_changes", ""),
        ("CN=server", LOCAL[:1], "allow_san_changes", ""),
    ],
)
async def test_a_running_node_keeps_its_names_unless_a_setting_allows_others(
    start_node: Any,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    subject: str,
    hosts: tuple[str, ...],
    allowed: str,
    told: str,
) -> None:
    node = await start_node(settings_in(tmp_path, **({allowed: "true"} if allowed else {})))
    client = node.connect()
    client.connection.secured(None)
    server = node.node._tls.server("SSL")
    old, new = chain_of(server.context), authority().issue(subject, hosts)
    answer = await alter(client, (LOCATION, str(new.write(tmp_path, "next"))))
    assert (answer.error_code, (answer.error_message or "").startswith(told)) == (42 if told else 0, True)
    assert chain_of(server.context) == (old if told else new.der)
    new.write(tmp_path, "server")
    await node.node._tls.look("SSL", InlineWorkers())
    assert chain_of(server.context) == (old if told else new.der)
    assert told in caplog.text


@pytest.mark.asyncio
async def test_a_client_context_trusts_the_authority_of_the_settings(start_node: Any, tmp_path: Path) -> None:
    node = await start_node(settings_in(tmp_path))
    tls = node.node._network.client_tls("SSL")
    assert tls is not None
    assert tls.context.verify_mode is ssl.CERT_REQUIRED
    assert tls.context.check_hostname
    assert node.node._network.client_tls("PLAINTEXT") is None
    Authority("CN=Next").write(tmp_path)
    await node.node._tls.look("SSL", InlineWorkers())
    (trusted,) = tls.context.get_ca_certs()
    assert trusted["subject"] == ((("commonName", "Next"),),)
