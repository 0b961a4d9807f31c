"""The network between the brokers of a cluster, which a test may cut and slow. Clients do not use it.

A cut link loses nothing. Sent bytes wait until the link is healed or one side gives up, as between two machines. New
connections wait too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from moldau.errors import MoldauError
from moldau.transport.network import Network, NetworkInFront, TcpNetwork

if TYPE_CHECKING:
    from moldau.transport.tls import ClientTls

Post = Callable[[Callable[[], object]], None]
"""Schedules a call on the loop of one broker, from any thread."""


class Links:
    """The links of one cluster. `cut`, `slow` and `heal` are thread-safe; the connections read the state that they
    set."""

    def __init__(self) -> None:
        self._node_of_port: dict[int, int] = {}
        self._sides: dict[int, int] = {}
        """The side of each node id. Nodes of different sides do not reach each other. Always replaced as a whole."""
        self._delays_s: dict[int, float] = {}
        self._posts: dict[int, Post] = {}
        self._held: dict[int, set[_Link]] = {}
        """The connections that each broker has opened. Each set is used on its broker's loop only."""

    def name_port(self, port: int, node_id: int) -> None:
        """Registers that broker `node_id` listens on `port`."""
        self._node_of_port[port] = node_id

    def lives(self, node_id: int, post: Post) -> None:
        """A new life of the broker has begun."""
        self._posts[node_id] = post

    def ends(self, node_id: int) -> None:
        """The life of the broker is about to end as by kill -9."""
        post, opened = self._posts.pop(node_id, None), self._held.get(node_id, set())
        if post is not None:

            def drop_all() -> None:
                for link in list(opened):
                    link.drop()

            post(drop_all)

    def network_of(self, node_id: int, backlog: int) -> Callable[[], Network]:
        """A function that makes the network port for each life of the broker."""

        def new_network() -> Network:
            opened = self._held[node_id] = set()
            return _MemberNetwork(self, node_id, backlog, opened)

        return new_network

    # -- what a test does

    def cut(self, sides: Iterable[Iterable[int]], known: Iterable[int]) -> None:
        """Cuts the links between brokers of different sides. Brokers that no side names form one more side.

        Raises MoldauError for a broker that is not in `known`, or is named twice.
        """
        placed: dict[int, int] = {}
        ids = set(known)
        for number, side in enumerate(sides, 1):
            for node_id in side:
                if node_id not in ids:
                    raise MoldauError(f"there is no broker {node_id!r}; the brokers are {sorted(ids)}")
                if node_id in placed:
                    raise MoldauError(f"broker {node_id} is named on two sides")
                placed[node_id] = number
        self._sides = placed
        self._changed()

    def slow(self, node_id: int, delay_ms: float) -> None:
        """Delays messages between the broker and the others by `delay_ms` in each direction."""
        if delay_ms < 0:
            raise ValueError(f"ms={delay_ms}: the least delay is 0 ms")
        self._delays_s = {**self._delays_s, node_id: delay_ms / 1000}

    def heal(self) -> None:
        """Restores every link without delay, and delivers the waiting data."""
        self._sides, self._delays_s = {}, {}
        self._changed()

    def _changed(self) -> None:
        for node_id, post in self._posts.items():
            post(partial(_look_again, self._held.get(node_id, set())))

    # -- what connections ask

    def node_at(self, port: int) -> int | None:
        """The id of the broker that listens on this port, or None."""
        return self._node_of_port.get(port)

    def are_apart(self, one: int, other: int) -> bool:
        """Whether the link between the two brokers is cut."""
        sides = self._sides
        return sides.get(one, 0) != sides.get(other, 0)

    def delay_s(self, one: int, other: int) -> float:
        """The extra seconds that a message takes between the two brokers, from the delay of either."""
        delays = self._delays_s
        return delays.get(one, 0.0) + delays.get(other, 0.0)


def _look_again(opened: set[_Link]) -> None:
    for link in list(opened):
        link.look()


class _MemberNetwork(NetworkInFront):
    """The network port of one life of one broker."""

    def __init__(self, links: Links, node_id: int, backlog: int, opened: set[_Link]) -> None:
        self._tcp = TcpNetwork(backlog)
        super().__init__(self._tcp)
        self._links = links
        self._node_id = node_id
        self._opened = opened

    async def connect(
        self, host: str, port: int, protocol: asyncio.BaseProtocol, tls: ClientTls | None = None
    ) -> asyncio.Transport:
        other = self._links.node_at(port)
        if other is None:
            return await self._network.connect(host, port, protocol, tls)
        if tls is not None:
            return await self._tcp.connect_secured(host, protocol, tls, lambda below: self.connect(host, port, below))
        link = _Link(self._links, (self._node_id, other), protocol, self._opened.discard)
        self._opened.add(link)
        try:
            await link.until_whole()
            await self._network.connect(host, port, link)
        except BaseException:
            self._opened.discard(link)
            raise
        return link


class _Message:
    """A message on a link: a piece of data, or the end of the connection."""

    __slots__ = ("act", "is_due")

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act
        self.is_due = False


class _Link(asyncio.Transport, asyncio.Protocol):
    """One connection between two brokers. It is the transport for its owner, and the protocol for the real transport.

    All messages, including the end, wait in one of two queues until they may be delivered.
    """

    def __init__(self, links: Links, between: tuple[int, int], owner: Any, ended: Callable[[_Link], None]) -> None:
        super().__init__()
        self._links = links
        self._between = between
        self._owner = owner
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._real: asyncio.Transport | None = None
        self._is_left = False
        """The owner has closed it. If the link is cut, the other side does not learn that yet."""
        self._whole: asyncio.Future[None] | None = None
        self._queues: tuple[deque[_Message], ...] = (deque(), deque())
        """The outgoing and the incoming queue."""

    async def until_whole(self) -> None:
        while self._links.are_apart(*self._between):
            self._whole = self._loop.create_future()
            await self._whole

    def look(self) -> None:
        """Reacts to a change of the links."""
        if self._links.are_apart(*self._between):
            return
        if self._whole is not None and not self._whole.done():
            self._whole.set_result(None)
        is_slow = self._links.delay_s(*self._between) > 0
        for queue in self._queues:
            for message in queue:
                message.is_due = message.is_due or not is_slow
            self._pass_on(queue)

    def _send(self, direction: int, act: Callable[[], object]) -> None:
        queue, message = self._queues[direction], _Message(act)
        queue.append(message)
        delay_s = self._links.delay_s(*self._between)
        if delay_s:
            self._loop.call_later(delay_s, self._arrive, queue, message)
        else:
            self._arrive(queue, message)

    def _arrive(self, queue: deque[_Message], message: _Message) -> None:
        """Delivers the message, whose delay is over, after those in front of it."""
        message.is_due = True
        self._pass_on(queue)

    def _pass_on(self, queue: deque[_Message]) -> None:
        while queue and queue[0].is_due and not self._links.are_apart(*self._between):
            queue.popleft().act()

    def drop(self) -> None:
        """The owner's process ends."""
        if self._real is not None:
            self._real.abort()

    # -- the owner's transport

    def write(self, data: Any) -> None:
        self._send(0, partial(self._write, data))

    def _write(self, data: Any) -> None:
        if self._real is not None:
            self._real.write(data)

    def is_closing(self) -> bool:
        return self._is_left or self._real is None or self._real.is_closing()

    def abort(self) -> None:
        if not self._is_left:
            self._is_left = True
            self._loop.call_soon(self._owner.connection_lost, None)
            self._send(0, self.drop)

    def close(self) -> None:
        self.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default if self._real is None else self._real.get_extra_info(name, default)

    # -- the real transport's protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._real = cast(asyncio.Transport, transport)
        self._owner.connection_made(self)

    def data_received(self, data: bytes) -> None:
        self._send(1, partial(self._hand_in, memoryview(data)))

    def _hand_in(self, data: memoryview) -> None:
        while data and not self._is_left:
            room = self._owner.get_buffer(len(data))
            piece, data = data[: len(room)], data[len(room) :]
            room[: len(piece)] = piece
            self._owner.buffer_updated(len(piece))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._send(1, lambda: self._lost(exc))

    def _lost(self, exc: Exception | None) -> None:
        self._ended(self)
        if not self._is_left:
            self._is_left = True
            self._owner.connection_lost(exc)
