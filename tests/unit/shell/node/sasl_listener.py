"""A node whose listener requires a login, and its clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from moldau.client.protocol.sasl import authenticating, go_on
from moldau.simulation.loop import VirtualLoop
from moldau.wire.protocol.api_keys import ApiKey, api_key_of
from moldau.wire.protocol.jaas import PLAIN_MODULE
from moldau.wire.protocol.messages.scram import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from moldau.wire.protocol.sasl_tokens import Credentials, salted_password
from tests.unit.shell.conftest import Client, NodeUnderTest, StartNode

InVirtualTime = Callable[[Callable[[StartNode], Awaitable[None]]], None]
SETTINGS = {
    "listeners": "SASL://10.0.0.1:9092",
    "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
    "inter.broker.listener.name": "SASL",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="secret" user_bob="other";',
}
ALICE = Credentials("PLAIN", "alice", "secret")
CAROL = Credentials("SCRAM-SHA-512", "carol", "pencil")


async def set_password(node: NodeUnderTest, credentials: Credentials) -> None:
    salt = b"a salt of twenty byt"
    salted = salted_password(credentials.mechanism, credentials.password, salt, 4_096)
    upsertion = ScramCredentialUpsertion(credentials.username, 2, 4_096, salt, salted)
    response = await node.node.broker.submit(AlterUserScramCredentialsRequest(upsertions=(upsertion,)))
    assert [result.error_code for result in response.results] == [0]


async def log_in(client: Client, credentials: Credentials) -> int:
    """Raises KafkaError."""
    exchange = authenticating(credentials, b"n" * 24, "node")
    step = go_on(exchange)
    while not isinstance(step, int):
        key = api_key_of(step)
        client.send(key, 1 if key is ApiKey.SASL_HANDSHAKE else 2, step)
        step = go_on(exchange, await answer(client))
    return step


async def answer(client: Client) -> Any:
    """Waits for the next response, also for time to pass."""
    assert isinstance(asyncio.get_running_loop(), VirtualLoop)
    async with asyncio.timeout(60):
        while not (found := client.answers()):  # noqa: ASYNC110 - the time is virtual
            await asyncio.sleep(0.01)
    assert len(found) == 1
    return found[0]


def story(in_virtual_time: InVirtualTime, tell: Callable[[NodeUnderTest], Awaitable[None]], **settings: str) -> None:
    async def run(start_node: StartNode) -> None:
        await tell(await start_node(SETTINGS | {name.replace("_", "."): text for name, text in settings.items()}))

    in_virtual_time(run)
