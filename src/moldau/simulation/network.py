"""The network between the hosts. It calls the same protocol classes as real sockets do, with bytes split anywhere.

A server is known by its host and port, a client by its host. Two hosts have two links, one for each direction. A link
may be slow, or cut. TCP repeats bytes that were sent into a cut link after pauses that double, and they arrive after
the link is repaired and the next pause is over. They may arrive on a connection that its sender has closed, before its
end. A host that watches a connection, as a node does (see Network of the shell), detects a cut link: nothing arrives
from the other side, not even from its kernel.

Each connection has two ends. Written data waits in the end's own buffer (as in a transport), moves into the wire as far
as the window allows (as in the kernel: sender's and receiver's socket buffers together), arrives in order after a
delay, and is passed to the receiving protocol in pieces split at any byte. A buffer passed to `write` is copied only
when it moves into the wire. This reveals a caller that changes the buffer too early.

A reset drops the data in flight at any byte. It may reach one end alone; the other end learns of it when it sends data,
or if it watches the connection. When a process dies, its connections end, or its host becomes silent.

Delays and splits of bytes come from a random stream for each client's host, so another client changes no draw of this
one.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from random import Random
from typing import Any, cast

from moldau.simulation.kinds import random_of
from moldau.simulation.links import FIRST_CONNECT_RETRY_S, FIRST_RETRY_S, Link, NetworkWeather
from moldau.simulation.loop import CLOCK_RESOLUTION, CURRENT_PROCESS, SimulatedProcess, VirtualLoop
from moldau.simulation.receive_buffers import is_kept
from moldau.simulation.trace import Trace
from moldau.transport.network import SILENCE_S
from moldau.types import Buffer

FIRST_EPHEMERAL_PORT = 30_000
RUBBISH = b"\xa5"
CONNECT_PATIENCE_S = 10.0
PROBE_S = 1.0
"""The time between two probes of a watched connection. The kernel of a host whose end was reset answers them."""


class End(asyncio.Transport):
    """One end of a connection: the transport that its protocol sees."""

    def __init__(self, network: SimulatedNetwork, connection: Connection, name: str, peer_name: str) -> None:
        super().__init__()
        self.network = network
        self.connection = connection
        self.random = connection.random
        self.name = name
        self.peer_name = peer_name
        self.link = network.link(name, peer_name)
        self.context = copy_context()
        self.process = self.context.get(CURRENT_PROCESS)
        self.peer: End = self
        self.protocol: asyncio.BaseProtocol | None = None
        self.outgoing: deque[Buffer] = deque()
        self.outgoing_bytes = 0
        self.in_flight_bytes = 0
        self.arrived = bytearray()
        self.is_end_of_stream_near = False
        self.last_arrival = 0.0
        self.high_water = 64 * 1024
        self.low_water = 16 * 1024
        self.is_write_paused = False
        self.is_read_paused = False
        self.is_read_scheduled = False
        self.is_closed = False
        """close() or abort() was called, or the connection was lost."""
        self.is_lost = False
        """connection_lost has been called, or never will be."""
        self.is_vanished = False
        """The machine of this end lost power, or its process ended while the link was cut. Nothing more arrives from
        it, not even data in flight."""
        self.is_torn = False
        """This host has no state of the connection any more, and the other end does not know: a reset answers its next
        data."""
        self.stalled: list[Callable[[], object]] = []
        """Data sent since the link was cut, until TCP sends it again."""
        self.stalled_s = 0.0
        """The time when the first of it was sent."""

    def begin(self) -> None:
        """Tells the protocol of the connection, and delivers arriving data from now on. As in uvloop, and unlike
        asyncio, pausing inside `connection_made` has no effect, because reading has not begun yet."""
        if not self.is_lost:
            cast(asyncio.BaseProtocol, self.protocol).connection_made(self)
            self.is_read_paused = False

    # -- what the protocol calls

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peername":
            return (self.peer_name, self.connection.number)
        if name == "sockname":
            return (self.name, self.connection.port)
        return default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast(asyncio.BaseProtocol, self.protocol)

    def is_closing(self) -> bool:
        return self.is_closed

    def is_reading(self) -> bool:
        return not self.is_read_paused and not self.is_closed

    def pause_reading(self) -> None:
        self.is_read_paused = True

    def resume_reading(self) -> None:
        if self.is_read_paused and not self.is_closed:
            self.is_read_paused = False
            self._read_soon()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = 64 * 1024 if low is None else 4 * low
        self.high_water = high
        self.low_water = high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return (self.low_water, self.high_water)

    def get_write_buffer_size(self) -> int:
        return self.outgoing_bytes

    def write(self, data: Buffer) -> None:
        self._check_alive()
        if self.is_closed or not len(data):
            return
        self.outgoing.append(data)
        self.outgoing_bytes += len(data)
        network = self.network
        if len(self.outgoing) == 1 and self.random.random() >= network.weather.late_write_share:
            self._pump()
        elif len(self.outgoing) == 1:
            network.loop.call_soon(self._pump, context=self.context)
        if self.outgoing_bytes > self.high_water and not self.is_write_paused:
            self.is_write_paused = True
            cast(asyncio.BaseProtocol, self.protocol).pause_writing()

    def write_eof(self) -> None:
        raise RuntimeError("the simulator has no half-closed connections: Kafka's protocol does not either")

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        """Sends the buffered data, then ends the stream."""
        self._check_alive()
        if self.is_closed:
            return
        self.is_closed = True
        if not self.outgoing:
            self._finish_close()

    def abort(self) -> None:
        """Drops the buffered data; the peer gets a reset."""
        self._check_alive()
        if self.is_lost:
            return
        self.network.lose(self, None, after=0.0)
        if not self.connection.is_silent:
            # after data in flight: a request may be executed although its client has given up
            self._send(self.peer._reset_by_peer)

    # -- the wire

    def _check_alive(self) -> None:
        if self.process is not None:
            self.process.check_alive()

    def _pump(self) -> None:
        """Moves bytes from the transport's buffer into the wire, as far as the window allows."""
        if self.is_lost or self.connection.is_silent:
            return
        peer = self.peer
        window = self.network.weather.window_bytes
        room = window - self.in_flight_bytes - len(peer.arrived)
        if room < min(self.outgoing_bytes, window // 4):
            return  # as TCP does: no tiny segments through a window that has just opened
        pieces: list[bytes] = []
        while self.outgoing and room > 0:
            data = self.outgoing.popleft()
            if len(data) > room:
                view = memoryview(data)
                self.outgoing.appendleft(view[room:])
                data = view[:room]
            pieces.append(bytes(data))
            room -= len(data)
        if pieces:
            piece = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            self.outgoing_bytes -= len(piece)
            self.in_flight_bytes += len(piece)
            self._send(peer._arrive, piece)
        if self.is_write_paused and self.outgoing_bytes <= self.low_water:
            self.is_write_paused = False
            self.network.loop.call_soon(self._resume_writing, context=self.context)
        if self.is_closed and not self.outgoing:
            self._finish_close()

    def _resume_writing(self) -> None:
        if not self.is_lost and not self.is_write_paused:
            cast(asyncio.BaseProtocol, self.protocol).resume_writing()

    def _send(self, arrive: Callable[..., object], *pieces: bytes) -> None:
        """Calls `arrive` of the peer after all data sent earlier (simultaneous timers fire in any order)."""
        link = self.link
        if link.is_cut or self.stalled:
            if not self.stalled:
                self.stalled_s = self.network.loop.time()
                link.hold(self._send_again, FIRST_RETRY_S)
            self.stalled.append(partial(self._send, arrive, *pieces))
            return
        network = self.network
        delay_s = network.delay(self.random) + link.delay_s
        self.last_arrival = max(self.last_arrival + 1e-7, network.loop.time() + delay_s)
        network.loop.call_at(self.last_arrival, arrive, *pieces, context=self.peer.context)

    def _send_again(self) -> None:
        if self.link.is_cut:
            self.link.hold(self._send_again, FIRST_RETRY_S, self.stalled_s)
            return
        stalled, self.stalled = self.stalled, []
        for send in stalled:
            send()

    def _finish_close(self) -> None:
        if self.is_lost:
            return
        peer = self.peer
        if not peer.is_lost and not self.connection.is_silent:
            self._send(peer._end_of_stream)
        self.network.lose(self, None, after=0.0)

    # -- the receiving side

    def _reset_by_peer(self) -> None:
        self.network.lose(self, ConnectionResetError("reset by peer"), after=0.0)

    def _arrive(self, piece: bytes) -> None:
        self.peer.in_flight_bytes -= len(piece)
        if self.is_torn and not self.peer.is_vanished:
            self._send(self.peer._reset_by_peer)
        if self.is_lost or self.peer.is_vanished:
            return
        network = self.network
        is_reset = network.weather.reset_share > 0 and self.random.random() < network.weather.reset_share
        if is_reset:
            piece = piece[: self.random.randrange(len(piece) + 1)]
        self.arrived += piece
        network.trace.note("arrive", self.connection.number, self.name, len(piece), zlib.crc32(piece))
        self._read()
        if self is self.connection.server:
            network.after_request()
        if is_reset:
            network.reset(self.connection)

    def _read_soon(self) -> None:
        if not self.is_read_scheduled:
            self.is_read_scheduled = True
            self.network.loop.call_soon(self._read_later, context=self.context)

    def _read_later(self) -> None:
        self.is_read_scheduled = False
        self._read()

    def _read(self) -> None:
        """Passes one piece of the arrived data to the protocol, split at any byte, like one readable event of a
        socket."""
        if self.is_lost or self.is_closed or self.is_read_paused:
            return
        available = len(self.arrived)
        if available:
            network = self.network
            if available > 1 and self.random.random() < network.weather.cut_share:
                available = self.random.randrange(1, available)
            given = network.give(cast(asyncio.BaseProtocol, self.protocol), self.arrived, available)
            del self.arrived[:given]
            if self.peer.outgoing:
                network.loop.call_soon(self.peer._pump, context=self.peer.context)
        if self.arrived:
            self._read_soon()
        elif self.is_end_of_stream_near:
            self._give_end_of_stream()

    def _end_of_stream(self) -> None:
        self.is_end_of_stream_near = True
        if not self.arrived:
            self._give_end_of_stream()

    def _give_end_of_stream(self) -> None:
        if self.is_lost or self.is_closed or self.is_read_paused:
            return
        self.is_end_of_stream_near = False
        protocol = cast(asyncio.Protocol, self.protocol)
        if not protocol.eof_received():
            self.close()


def _pass_on(passed: asyncio.Future[None]) -> None:
    if not passed.done():
        passed.set_result(None)


class Connection:
    """Two ends. `client` opened it, `server` accepted it."""

    __slots__ = ("client", "is_silent", "is_watched", "number", "port", "random", "server")

    def __init__(self, number: int, port: int, random: Random, *, is_watched: bool) -> None:
        self.is_watched = is_watched
        """The client detects that nothing arrives from the other side any more."""
        self.number = number
        self.port = port
        self.random = random
        self.is_silent = False
        """The wire is cut: nothing arrives, and neither end gets an error."""
        self.client: End
        self.server: End


class SimulatedListener:
    """The result of `listen`: its address, and a method to stop."""

    def __init__(self, network: SimulatedNetwork, host: str, port: int, factory: Callable[[], Any]) -> None:
        self.network = network
        self.host = host
        self.port = port
        self.factory = factory
        self.context = copy_context()
        self.process = self.context.get(CURRENT_PROCESS)

    def close(self) -> None:
        """Accepts no new connections. Existing ones continue."""
        if self.network.listeners.get((self.host, self.port)) is self:
            del self.network.listeners[self.host, self.port]


class SimulatedNetwork:
    """The network of all hosts, and the scenario's control of the wire."""

    def __init__(self, loop: VirtualLoop, seed: int, trace: Trace) -> None:
        self.loop = loop
        self.trace = trace
        self.weather = NetworkWeather()
        self.listeners: dict[tuple[str, int], SimulatedListener] = {}
        self.connections: dict[int, Connection] = {}
        self._seed = seed
        self._links: dict[tuple[str, str], Link] = {}
        self._randoms: dict[str, Random] = {}
        self.next_number = 1
        self.next_port = FIRST_EPHEMERAL_PORT
        self.after_request: Callable[[], None] = lambda: None
        """Called after a server has handled arriving data."""

    # -- the port

    async def listen(
        self, host: str, port: int, protocol_factory: Callable[[], asyncio.BaseProtocol]
    ) -> SimulatedListener:
        """Accepts connections on `port` of `host` (0 picks a port). Raises OSError if the port is taken."""
        if port == 0:
            port = self.next_port
            self.next_port += 1
        if (host, port) in self.listeners:
            raise OSError(98, "address already in use")
        listener = SimulatedListener(self, host, port, protocol_factory)
        self.listeners[host, port] = listener
        return listener

    async def connect(
        self, name: str, host: str, port: int, protocol: asyncio.BaseProtocol, *, is_watched: bool = False
    ) -> End:
        """Opens a connection from the host `name`. Raises ConnectionRefusedError if no server listens, TimeoutError
        while the link is cut. `is_watched`: see Connection."""
        random = self._randoms.get(name)
        if random is None:
            random = self._randoms[name] = random_of(self._seed, f"network/{name}")
        await asyncio.sleep(self.delay(random) + self.link(name, host).delay_s)
        await self._passed(self.link(name, host))
        await self._passed(self.link(host, name))
        listener = self.listeners.get((host, port))
        if listener is None or (listener.process is not None and listener.process.is_dead):
            raise ConnectionRefusedError(f"nobody listens on {host}:{port}")
        connection = Connection(self.next_number, port, random, is_watched=is_watched)
        self.next_number += 1
        client = End(self, connection, name, host)
        server = listener.context.copy().run(End, self, connection, host, name)
        client.peer, server.peer = server, client
        connection.client, connection.server = client, server
        self.connections[connection.number] = connection
        client.protocol = protocol
        server.protocol = listener.factory()
        self.trace.note("connect", connection.number, name)
        client.begin()
        self.loop.call_soon(server.begin, context=server.context)
        return client

    async def _passed(self, link: Link) -> None:
        """Returns once a packet passes the link. Raises TimeoutError."""
        began_s = self.loop.time()
        while link.is_cut:
            passed = self.loop.create_future()
            pass_on = partial(_pass_on, passed)
            link.hold(pass_on, FIRST_CONNECT_RETRY_S, began_s)
            async with asyncio.timeout(CONNECT_PATIENCE_S):
                await passed

    # -- delivery

    def give(self, protocol: asyncio.BaseProtocol, data: bytearray, length: int) -> int:
        """Passes up to `length` bytes to the protocol, as a socket's event does. Returns the number that it took."""
        if not isinstance(protocol, asyncio.BufferedProtocol):
            cast(asyncio.Protocol, protocol).data_received(bytes(data[:length]))
            return length
        view = memoryview(protocol.get_buffer(-1))
        length = min(length, len(view))
        if length == 0:
            raise RuntimeError("get_buffer() gave an empty buffer")
        view[:length] = data[:length]
        protocol.buffer_updated(length)
        self.scrub(protocol, view, length)
        return length

    def scrub(self, protocol: asyncio.BufferedProtocol, view: memoryview, length: int) -> None:
        """Overwrites the receive buffer if the protocol keeps nothing in it. Code that still reads a request there gets
        garbage, as it would when the next bytes arrive."""
        owner = view.obj
        if isinstance(owner, bytearray) and not is_kept(protocol, owner):
            end = len(owner) - len(view) + length
            owner[:end] = RUBBISH * end

    def delay(self, random: Random) -> float:
        """The delay in seconds from one end to the other for data sent now."""
        weather = self.weather
        delay = random.uniform(weather.delay_min, weather.delay_max)
        if random.random() < weather.spike_share:
            delay += random.uniform(0, weather.spike_max)
        return delay

    # -- links

    def link(self, source: str, target: str) -> Link:
        """The link from the host `source` to the host `target`."""
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link(self.loop)
        return link

    def cut(self, source: str, target: str, length_s: float) -> None:
        """Cuts the link from `source` to `target`. Data in flight still arrives."""
        self.link(source, target).trouble(length_s)
        if length_s > SILENCE_S:
            self.loop.call_later(SILENCE_S, self._notice_cut, source, target)

    def _notice_cut(self, source: str, target: str) -> None:
        """Notifies the ends of watched connections. Their held data is not sent again."""
        link = self.link(source, target)
        if not link.is_cut or self.loop.time() < link.cut_s + SILENCE_S - CLOCK_RESOLUTION:
            return
        for connection in [*self.connections.values()]:
            client = connection.client
            if connection.is_watched and (client.name, client.peer_name) in ((source, target), (target, source)):
                self._notice(client)

    def _notice(self, end: End) -> None:
        """Nothing has arrived from the other side for too long."""
        end.stalled.clear()
        end.is_torn = True
        self.lose(end, TimeoutError("nothing comes of the other side"), after=0.0)

    def slow(self, source: str, target: str, length_s: float, delay_s: float) -> None:
        """Adds a delay to the link from `source` to `target`."""
        self.link(source, target).trouble(length_s, delay_s=delay_s)

    def mend(self) -> None:
        """Ends cuts and delays of all links."""
        for link in [*self._links.values()]:
            link.mend()

    def clients_of(self, host: str) -> list[str]:
        """The hosts connected to `host`, in order."""
        connections = self.connections.values()
        return list(dict.fromkeys(one.client.name for one in connections if one.server.name == host))

    # -- faults

    def lose(self, end: End, error: Exception | None, *, after: float) -> None:
        """Ends the connection for one end: calls connection_lost(error) once, after a delay in seconds."""
        if end.is_lost:
            return
        end.is_closed = True
        if after:
            self.loop.call_later(after, self._lose_now, end, error, context=end.context)
        else:
            end.is_lost = True
            self.loop.call_soon(self._connection_lost, end, error, context=end.context)

    def _lose_now(self, end: End, error: Exception | None) -> None:
        if not end.is_lost:
            end.is_lost = True
            self._connection_lost(end, error)

    def _connection_lost(self, end: End, error: Exception | None) -> None:
        end.outgoing.clear()
        end.outgoing_bytes = 0
        self.trace.note("lost", end.connection.number, end.name, type(error).__name__)
        if end.peer.is_lost:
            self.connections.pop(end.connection.number, None)
        if end.protocol is not None:
            end.protocol.connection_lost(error)

    def reset(self, connection: Connection) -> None:
        """Both ends lose the connection, and the data in flight is lost."""
        self.lose(connection.client, ConnectionResetError("reset by the network"), after=0.0)
        self.lose(connection.server, ConnectionResetError("reset by the network"), after=0.0)

    def tear(self, end: End) -> None:
        """Resets this end alone. The other one waits until it sends data or, if it watches the connection, probes
        it."""
        end.is_torn = True
        self.lose(end, ConnectionResetError("reset by the network"), after=0.0)
        if end.connection.is_watched and end is end.connection.server:
            self.loop.call_later(PROBE_S, self._probe, end)

    def _probe(self, end: End) -> None:
        if end.link.is_cut:
            self.loop.call_later(PROBE_S, self._probe, end)
        else:
            self.lose(end.peer, ConnectionResetError("reset by peer"), after=0.0)

    def tear_some(self, random: Random) -> None:
        """Resets one end of a random number of connections, between none and all."""
        connections = list(self.connections.values())
        for connection in random.sample(connections, random.randint(0, len(connections))):
            self.tear(random.choice((connection.client, connection.server)))

    def reset_some(self, random: Random) -> None:
        """Resets a random number of connections, between none and all."""
        connections = list(self.connections.values())
        for connection in random.sample(connections, random.randint(0, len(connections))):
            self.reset(connection)

    def silence(self, connection: Connection) -> None:
        """Cuts the wire without a notice: neither bytes nor a reset arrive."""
        connection.is_silent = True
        if connection.is_watched:
            self.loop.call_later(SILENCE_S, self._notice, connection.client)

    def drop_process(self, process: SimulatedProcess, *, is_silent: bool = False) -> None:
        """Handles the end of a process: closes its listeners. Its peers see the end of their connections, or nothing at
        all."""
        for listener in [*self.listeners.values()]:
            if listener.process is process:
                listener.close()
        for connection in [*self.connections.values()]:
            for end in (connection.client, connection.server):
                if end.process is not process:
                    continue
                end.is_lost = end.is_closed = True
                if is_silent or end.link.is_cut:
                    end.is_vanished = True
                    end.peer.arrived.clear()
                if is_silent:
                    self.silence(connection)
                elif end.peer.is_lost:
                    self.connections.pop(connection.number, None)
                elif end.link.is_cut:
                    end.link.hold(partial(self._gone, end.peer), FIRST_RETRY_S)
                else:
                    self._gone(end.peer)

    def _gone(self, end: End) -> None:
        self.lose(end, None, after=self.delay(end.random))
