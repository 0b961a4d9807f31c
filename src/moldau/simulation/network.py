"""The network between the hosts: the same protocol classes as on real sockets, called with bytes cut anywhere.

A server is known by its host and port, a client by the host that it runs on. Between two hosts there are two links,
one for each direction. A link may be slow, or cut. TCP repeats bytes that were sent into a cut link after pauses that
double, and they arrive after the link is repaired and the next pause is over. They may arrive on a connection that its
sender has closed, before its end. A host that watches a connection, as a node does (see Network of the shell), detects
a cut link: nothing arrives from the other side, not even from its kernel.

Each connection has two ends. What an end writes waits in its own buffer (as in a transport), moves into the wire as
far as the window allows (as in the kernel: sender's and receiver's socket buffers together), arrives after a delay in
order, and is given to the receiving protocol in pieces cut at any byte. A buffer that was handed to `write` is copied
only when it moves into the wire, so that a caller who writes to it too early is found out.

A reset drops what is under way, at whatever byte that is. It may come to one end alone: the other one is told when it
sends something, or watches the connection. The connections of a process that died end, or its host falls silent.

Delays and cuts of bytes come from a stream for each client's host: another client changes no draw of this one.
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
"""Between two probes of a connection that is watched: the kernel of a host whose end was reset answers them."""


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
        """close() or abort() was called, or the connection went away."""
        self.is_lost = False
        """connection_lost has been called, or never will be."""
        self.is_vanished = False
        """The machine of this end lost power, or its process ended behind a cut link: nothing from it arrives any more,
        not even what was under way."""
        self.is_torn = False
        """This host knows nothing of the connection any more, and the other end was not told: a reset answers what it
        sends."""
        self.stalled: list[Callable[[], object]] = []
        """What was sent since the link was cut, until TCP sends it again."""
        self.stalled_s = 0.0
        """When the first of it was sent."""

    def begin(self) -> None:
        """The protocol learns of the connection, and is given what arrives from now on. As uvloop does and asyncio does
        not: a pause of reading inside of `connection_made` has no effect, for reading has not begun yet."""
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
        """Sends what is buffered, then ends the stream."""
        self._check_alive()
        if self.is_closed:
            return
        self.is_closed = True
        if not self.outgoing:
            self._finish_close()

    def abort(self) -> None:
        """Drops what is buffered; the peer sees a reset."""
        self._check_alive()
        if self.is_lost:
            return
        self.network.lose(self, None, after=0.0)
        if not self.connection.is_silent:
            # behind what is under way: a request may be carried out although its client has given up
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
            return  # as TCP does: no crumbs through a window that has just opened
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
        """Calls `arrive` of the peer after all that was sent earlier (timers of one instant fire in any order)."""
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
        """Gives the protocol one piece of what has arrived, cut at any byte, as one readable event of a socket."""
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
        """The client learns that nothing comes of the other side any more."""
        self.number = number
        self.port = port
        self.random = random
        self.is_silent = False
        """The wire is cut: nothing arrives, and neither end gets an error."""
        self.client: End
        self.server: End


class SimulatedListener:
    """What `listen` gives: its address, and the way to stop."""

    def __init__(self, network: SimulatedNetwork, host: str, port: int, factory: Callable[[], Any]) -> None:
        self.network = network
        self.host = host
        self.port = port
        self.factory = factory
        self.context = copy_context()
        self.process = self.context.get(CURRENT_PROCESS)

    def close(self) -> None:
        """Takes no new connection; those that are there stay."""
        if self.network.listeners.get((self.host, self.port)) is self:
            del self.network.listeners[self.host, self.port]


class SimulatedNetwork:
    """The network of all hosts, and the hands of the scenario on the wire."""

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
        """Called once a server has taken in what arrived."""

    # -- the port

    async def listen(
        self, host: str, port: int, protocol_factory: Callable[[], asyncio.BaseProtocol]
    ) -> SimulatedListener:
        """Takes connections on `port` of `host` (0 picks one). Raises OSError if it is taken."""
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
        """Opens a connection from the host `name`. Raises ConnectionRefusedError if nobody listens, TimeoutError while
        nothing passes. `is_watched`: see Connection."""
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
        """Returns once something passes. Raises TimeoutError."""
        began_s = self.loop.time()
        while link.is_cut:
            passed = self.loop.create_future()
            pass_on = partial(_pass_on, passed)
            link.hold(pass_on, FIRST_CONNECT_RETRY_S, began_s)
            async with asyncio.timeout(CONNECT_PATIENCE_S):
                await passed

    # -- delivery

    def give(self, protocol: asyncio.BaseProtocol, data: bytearray, length: int) -> int:
        """Hands up to `length` bytes to the protocol as a socket's event does; gives how many it took."""
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
        """Overwrites the receive buffer where the protocol keeps nothing in it: code that still looks at a request
        there reads rubbish, as it would once the next bytes came in."""
        owner = view.obj
        if isinstance(owner, bytearray) and not is_kept(protocol, owner):
            end = len(owner) - len(view) + length
            owner[:end] = RUBBISH * end

    def delay(self, random: Random) -> float:
        """Seconds from one end to the other, for what is sent now."""
        weather = self.weather
        delay = random.uniform(weather.delay_min, weather.delay_max)
        if random.random() < weather.spike_share:
            delay += random.uniform(0, weather.spike_max)
        return delay

    # -- links

    def link(self, source: str, target: str) -> Link:
        """The way from the host `source` to the host `target`."""
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link(self.loop)
        return link

    def cut(self, source: str, target: str, length_s: float) -> None:
        """From now on nothing passes from `source` to `target`; what is on its way still arrives."""
        self.link(source, target).trouble(length_s)
        if length_s > SILENCE_S:
            self.loop.call_later(SILENCE_S, self._notice_cut, source, target)

    def _notice_cut(self, source: str, target: str) -> None:
        """The ends of connections that are watched learn of it. What they have sent in vain is not sent again."""
        link = self.link(source, target)
        if not link.is_cut or self.loop.time() < link.cut_s + SILENCE_S - CLOCK_RESOLUTION:
            return
        for connection in [*self.connections.values()]:
            client = connection.client
            if connection.is_watched and (client.name, client.peer_name) in ((source, target), (target, source)):
                self._notice(client)

    def _notice(self, end: End) -> None:
        """Nothing has come of the other side for too long."""
        end.stalled.clear()
        end.is_torn = True
        self.lose(end, TimeoutError("nothing comes of the other side"), after=0.0)

    def slow(self, source: str, target: str, length_s: float, delay_s: float) -> None:
        """From now on what passes from `source` to `target` takes so much longer."""
        self.link(source, target).trouble(length_s, delay_s=delay_s)

    def mend(self) -> None:
        """No link is cut or slow any more."""
        for link in [*self._links.values()]:
            link.mend()

    def clients_of(self, host: str) -> list[str]:
        """The hosts that are connected with `host`, in order."""
        connections = self.connections.values()
        return list(dict.fromkeys(one.client.name for one in connections if one.server.name == host))

    # -- faults

    def lose(self, end: End, error: Exception | None, *, after: float) -> None:
        """Ends the connection for one end: connection_lost(error) once, after a delay in seconds."""
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
        """Both ends lose the connection; what is under way is gone."""
        self.lose(connection.client, ConnectionResetError("reset by the network"), after=0.0)
        self.lose(connection.server, ConnectionResetError("reset by the network"), after=0.0)

    def tear(self, end: End) -> None:
        """A reset comes to this end alone. The other one goes on waiting, until it sends something or, where it watches
        the connection, probes it."""
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
        """One end of none, of all, or of any number of connections."""
        connections = list(self.connections.values())
        for connection in random.sample(connections, random.randint(0, len(connections))):
            self.tear(random.choice((connection.client, connection.server)))

    def reset_some(self, random: Random) -> None:
        """None, all, or any number of them."""
        connections = list(self.connections.values())
        for connection in random.sample(connections, random.randint(0, len(connections))):
            self.reset(connection)

    def silence(self, connection: Connection) -> None:
        """Cuts the wire so that nobody is told: bytes no longer arrive, no reset does."""
        connection.is_silent = True
        if connection.is_watched:
            self.loop.call_later(SILENCE_S, self._notice, connection.client)

    def drop_process(self, process: SimulatedProcess, *, is_silent: bool = False) -> None:
        """What the network does when a process is gone: listeners close, peers see the end, or nothing at all."""
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
