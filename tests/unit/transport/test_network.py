"""A port on which another program listens is reported by its name, even if both were bound before either listened."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import uvloop

from moldau.transport.network import PortTakenError, TcpNetwork


@pytest.fixture
def other() -> Iterator[socket.socket]:
    """The socket of another program: bound, not yet listening."""
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", 0))
        yield bound


@pytest.mark.parametrize("loop_class", [asyncio.SelectorEventLoop, uvloop.Loop])
def test_another_program_that_listens_between_the_bind_and_the_listen_has_the_port(
    other: socket.socket, loop_class: Any
) -> None:
    class Racing(loop_class):  # type: ignore[misc]
        async def create_server(self, *arguments: Any, **settings: Any) -> asyncio.Server:
            server = await super().create_server(*arguments, **settings)
            try:
                other.listen()
            except OSError:
                pytest.fail("the server listens before the other program can")
            return server  # type: ignore[no-any-return]

    port = other.getsockname()[1]
    with (
        asyncio.Runner(loop_factory=Racing) as runner,
        pytest.raises(PortTakenError, match=f"port {port} on 127.0.0.1 is taken"),
    ):
        runner.run(TcpNetwork().listen("127.0.0.1", port, asyncio.Protocol))


@pytest.mark.parametrize("host", ["", "::"])
@pytest.mark.parametrize("loop_class", [asyncio.SelectorEventLoop, uvloop.Loop])
def test_a_listener_of_every_interface_has_one_port_for_ipv4_and_ipv6(loop_class: Any, host: str) -> None:
    async def listen_and_connect() -> None:
        network = TcpNetwork()
        listener = await network.listen(host, 0, asyncio.Protocol)
        for address in ("127.0.0.1", "::1") if socket.has_ipv6 else ("127.0.0.1",):
            transport = await network.connect(address, listener.port, asyncio.Protocol())
            transport.close()
        listener.close()

    with asyncio.Runner(loop_factory=loop_class) as runner:
        runner.run(listen_and_connect())


@pytest.mark.parametrize("loop_class", [asyncio.SelectorEventLoop, uvloop.Loop])
def test_a_free_port_is_listened_on(loop_class: Any) -> None:
    async def listen_and_connect() -> None:
        network = TcpNetwork()
        listener = await network.listen("127.0.0.1", 0, asyncio.Protocol)
        transport = await network.connect("127.0.0.1", listener.port, asyncio.Protocol())
        transport.close()
        listener.close()

    with asyncio.Runner(loop_factory=loop_class) as runner:
        runner.run(listen_and_connect())


@pytest.mark.parametrize("loop_class", [asyncio.SelectorEventLoop, uvloop.Loop])
def test_who_gives_up_before_the_port_is_listened_on_leaves_the_port_free(
    other: socket.socket, loop_class: Any
) -> None:
    port = other.getsockname()[1]

    async def give_up_after(turns: int) -> None:
        listening = asyncio.ensure_future(TcpNetwork().listen("127.0.0.1", port, asyncio.Protocol))
        for _ in range(turns):
            await asyncio.sleep(0)
        listening.cancel()
        (listener,) = await asyncio.gather(listening, return_exceptions=True)
        if not isinstance(listener, asyncio.CancelledError):
            listener.close()

    async def give_up_again_and_again() -> None:
        for turns in range(20):
            await give_up_after(turns)

    with asyncio.Runner(loop_factory=loop_class) as runner:
        runner.run(give_up_again_and_again())
        other.listen()
