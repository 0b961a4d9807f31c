"""The network between the brokers of a cluster: a slow link stays slow after any other link is healed."""

from __future__ import annotations

import asyncio

import pytest

from moldau.testing.links import Links


class Ends(asyncio.Protocol):
    """The arrived data, and a way to wait for it."""

    def __init__(self) -> None:
        self.came = b""
        self._changed = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.came += data
        self._changed.set()

    async def until(self, count: int) -> None:
        while len(self.came) < count:
            self._changed.clear()
            async with asyncio.timeout(30):
                await self._changed.wait()


def test_the_timer_of_a_healed_message_hurries_no_later_one():
    async def go() -> None:
        loop = asyncio.get_running_loop()
        far = Ends()
        server = await loop.create_server(lambda: far, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        links = Links()
        links.name_port(port, 2)
        links.lives(1, loop.call_soon)
        link = await links.network_of(1, 10)().connect("127.0.0.1", port, Ends())
        links.slow(2, 100)
        link.write(b"a")
        links.heal()
        await far.until(1)
        links.slow(2, 60_000)
        link.write(b"b")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(far.until(2), 0.3)  # the timer of "a" is over by then
        links.heal()
        await far.until(2)
        assert far.came == b"ab"
        link.abort()
        server.close()

    asyncio.run(go())
