"""Proxies for the links between the nodes of a cluster; they can cut each link.

Each listener for nodes has a proxy. The kernel (Linux) tells which node has opened a connection. A cut link loses
nothing and closes nothing: bytes, ends of connections and new connections wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterable
from pathlib import Path

from tests.support.held_port import held_port, port_of

Pair = tuple[int, int]
"""From and to: node ids; 0 is any other process."""

CHUNK_BYTES = 1 << 16
START_TIMEOUT_S = 10


class Proxies:
    """`listeners`: the number per node. Runs in its own thread until `close`."""

    def __init__(self, node_ids: Iterable[int], listeners: int) -> None:
        self._pids: dict[int, int] = {}
        self._held = {node_id: [held_port() for _ in range(listeners)] for node_id in node_ids}
        """Ports are held because voters and advertised addresses are written before a node listens."""
        self._cut: frozenset[Pair] = frozenset()
        self._changed = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._thread.start()

    def ports(self, node_id: int) -> tuple[int, ...]:
        """The ports of the node's listeners."""
        return tuple(map(port_of, self._held[node_id]))

    def host(self, node_id: int) -> str:
        return "127.0.0.1"

    def inside(self, node_id: int, command: list[str]) -> list[str]:
        """The command that runs `command` on the node's machine, which all share."""
        return command

    def started(self, node_id: int, pid: int) -> None:
        """The node's present process."""
        self._pids[node_id] = pid

    def between(self, target: int, port: int) -> tuple[str, int]:
        """Listens for the node `target`, which listens at `port`; gives the address for others."""

        async def listen() -> int:
            async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                with contextlib.suppress(OSError):
                    await self._carry(reader, writer, target, port)
                writer.close()

            server = await asyncio.start_server(accept, "127.0.0.1", 0)
            return int(server.sockets[0].getsockname()[1])

        return "127.0.0.1", asyncio.run_coroutine_threadsafe(listen(), self._loop).result(START_TIMEOUT_S)

    def cut(self, pairs: Iterable[Pair]) -> None:
        """Cuts exactly these links."""
        self._cut = frozenset(pairs)
        self._loop.call_soon_threadsafe(self._tell)

    def heal(self) -> None:
        self.cut(())

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_TIMEOUT_S)
        for held in self._held.values():
            for each in held:
                each.close()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _whole(self, pair: Pair) -> None:
        while pair in self._cut:
            await self._changed.wait()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int, port: int) -> None:
        source_port = writer.get_extra_info("peername")[1]
        pair = (await self._loop.run_in_executor(None, owner_of, source_port, dict(self._pids)), target)
        await self._whole(pair)
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", port)
        ways = [
            asyncio.create_task(self._pump(reader, to_writer, pair)),
            asyncio.create_task(self._pump(to_reader, writer, (pair[1], pair[0]))),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        to_writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pair: Pair) -> None:
        """Copies until one side ends, which the other learns when the link works."""
        while True:
            try:
                data = await reader.read(CHUNK_BYTES)
            except OSError:
                data = b""
            await self._whole(pair)
            if not data:
                return
            writer.write(data)
            await writer.drain()


def owner_of(port: int, pids: dict[int, int]) -> int:
    """The node whose process has the local TCP `port` of 127.0.0.1; 0: none of them."""
    inode = _inode_of(port)
    for node_id, pid in pids.items():
        with contextlib.suppress(OSError):
            for entry in os.scandir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    if os.readlink(entry.path) == f"socket:[{inode}]":
                        return node_id
    return 0


def _inode_of(port: int) -> str:
    wanted = f"0100007F:{port:04X}"
    for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]:
        fields = line.split()
        if fields[1] == wanted:
            return fields[9]
    return ""
