"""The network port, and its real implementation: TCP on the running loop.

The simulated implementation (`moldau.simulation.network`) feeds the same protocol class byte by byte.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from moldau.core.config.listeners import is_wildcard
from moldau.transport.held_port import hold_port

if TYPE_CHECKING:
    from moldau.client.protocol.sasl import Login as ClientLogin
    from moldau.ports import Random, Workers
    from moldau.transport.tls import ClientTls, ServerTls
    from moldau.transport.tls_transport import HandshakeTurns

ANY_PORT_TRIES = 20
"""If many connections are opened, one may take a port between the system's choice of it and the listen call."""
SILENCE_S = 2.0
"""An outgoing connection ends after this long without a sign of the other machine. A busy or stopped process counts as
alive, because its system answers. Without this bound TCP would resend for 15 minutes, with pauses that double, and
would wait for an answer forever."""
_PROBES = (
    ("TCP_KEEPIDLE", 1),
    ("TCP_KEEPALIVE", 1),  # macOS' name for it
    ("TCP_KEEPINTVL", 1),
    ("TCP_KEEPCNT", int(SILENCE_S)),
    ("TCP_USER_TIMEOUT", int(SILENCE_S * 1_000)),
)
"""TCP options, set where the system has them; times in s, the last one in ms."""


class Listener(Protocol):
    """An open port. `port`: the actual port if 0 was requested."""

    host: str
    port: int

    def close(self) -> None:
        """Stops accepting; open connections stay."""
        ...


class Login(NamedTuple):
    """How this node logs in at another one, with the parts that a SASL exchange needs."""

    credentials: ClientLogin
    random: Random
    workers: Workers


class Network(Protocol):
    """Opens listeners and connections."""

    async def listen(
        self,
        host: str,
        port: int,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        tls: ServerTls | None = None,
    ) -> Listener:
        """Opens a port; `host` "" and "::" mean every address, including IPv4. With `tls` the protocols must be
        SecuredProtocols. Raises OSError if the port cannot be opened: on a real network PortTakenError if another
        socket has it. Raises MoldauError if the network has no TLS."""
        ...

    def client_tls(self, listener_name: str) -> ClientTls | None:
        """The TLS to pass to `connect` for such a listener of another node; None: it has no TLS."""
        ...

    def login_at(self, listener_name: str) -> Login | None:
        """The login that this node uses, once connected, at such a listener of another node; None: the listener needs
        no login."""
        ...

    async def connect(
        self, host: str, port: int, protocol: asyncio.BaseProtocol, tls: ClientTls | None = None
    ) -> asyncio.Transport:
        """Opens a connection. `protocol` is connected when this returns; with `tls` after the handshake. The connection
        is lost with an error if nothing arrives from the other machine for SILENCE_S, or if that machine no longer
        knows the connection. Raises OSError (HandshakeError if TLS fails), UnicodeError or ValueError for an invalid
        host name, MoldauError as `listen`."""
        ...


class NetworkInFront:
    """A Network that forwards every call to another one. Subclasses override calls."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def listen(
        self,
        host: str,
        port: int,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        tls: ServerTls | None = None,
    ) -> Listener:
        """See Network."""
        return await self._network.listen(host, port, protocol_factory, tls)

    def client_tls(self, listener_name: str) -> ClientTls | None:
        """See Network."""
        return self._network.client_tls(listener_name)

    def login_at(self, listener_name: str) -> Login | None:
        """See Network."""
        return self._network.login_at(listener_name)

    async def connect(
        self, host: str, port: int, protocol: asyncio.BaseProtocol, tls: ClientTls | None = None
    ) -> asyncio.Transport:
        """See Network."""
        return await self._network.connect(host, port, protocol, tls)


class TcpListener:
    """See Listener."""

    def __init__(self, host: str, server: asyncio.Server) -> None:
        self.host = host
        self._server = server
        self.port = int(server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Stops accepting connections; open ones continue."""
        self._server.close()

    def close_in_child(self) -> None:
        """After a fork, in the child: closes its duplicates of the sockets without using the loop."""
        for server_socket in self._server.sockets:
            with_fileno = server_socket.fileno()
            if with_fileno >= 0:
                os.close(with_fileno)


class TcpNetwork:
    """Real sockets on the running loop."""

    def __init__(self, backlog: int = 128) -> None:
        self._backlog = backlog
        self._tls_buffer: bytearray | None = None
        self._handshakes: HandshakeTurns | None = None

    async def listen(
        self,
        host: str,
        port: int,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        tls: ServerTls | None = None,
    ) -> TcpListener:
        loop = asyncio.get_running_loop()
        if tls is not None:
            protocol_factory = self._secured(protocol_factory, tls, loop)
        is_everywhere = is_wildcard(host) and host != "0.0.0.0"  # one socket for IPv6, one for IPv4
        for _ in range(ANY_PORT_TRIES if port == 0 else 1):
            try:
                with hold_port("") if is_everywhere and port == 0 else nullcontext() as held:
                    server = await loop.create_server(
                        protocol_factory,
                        None if is_everywhere else host,
                        port if held is None else held.getsockname()[1],  # the same port for both
                        backlog=self._backlog,
                        start_serving=False,
                    )
                    await _start_serving(server)
                return TcpListener(host, server)
            except socket.gaierror as error:
                raise socket.gaierror(error.errno, f"there is no host {host!r} to listen on") from error
            except OSError as error:
                if error.errno is None:
                    raise
                if error.errno != errno.EADDRINUSE:
                    # the loop's own message shows a Python tuple
                    raise OSError(error.errno, os.strerror(error.errno), f"{host}:{port}") from error
                taken = PortTakenError(error.errno, _why_taken(host, port))
        raise taken

    def client_tls(self, listener_name: str) -> None:
        """None: this network knows no listeners."""

    def login_at(self, listener_name: str) -> None:
        """None, as `client_tls`."""

    async def connect(
        self, host: str, port: int, protocol: asyncio.BaseProtocol, tls: ClientTls | None = None
    ) -> asyncio.Transport:
        if tls is None:
            transport, _ = await asyncio.get_running_loop().create_connection(lambda: protocol, host, port)
            _watch(transport.get_extra_info("socket"))
            return transport
        return await self.connect_secured(host, protocol, tls, lambda below: self.connect(host, port, below))

    async def connect_secured(
        self,
        host: str,
        protocol: asyncio.BaseProtocol,
        tls: ClientTls,
        connect: Callable[[asyncio.BaseProtocol], Awaitable[object]],
    ) -> asyncio.Transport:
        """As `connect` with `tls`; the given `connect` opens the connection below the TLS."""
        from moldau.transport.tls_transport import TlsTransport

        secured = TlsTransport(protocol, tls.context, self._buffer(), host=host)
        await connect(secured)
        try:
            await secured.handshake_done()
        except BaseException:  # also if the caller is cancelled
            secured.abort()
            raise
        return secured

    def _secured(
        self, factory: Callable[[], asyncio.BaseProtocol], tls: ServerTls, loop: asyncio.AbstractEventLoop
    ) -> Callable[[], asyncio.BaseProtocol]:
        from moldau.transport.tls_transport import HandshakeTurns, TlsTransport

        turns = self._handshakes = self._handshakes or HandshakeTurns(loop)
        buffer = self._buffer()
        return lambda: TlsTransport(factory(), tls.context, buffer, turns=turns)

    def _buffer(self) -> bytearray:
        from moldau.transport.tls_transport import BUFFER_BYTES

        if self._tls_buffer is None:
            self._tls_buffer = bytearray(BUFFER_BYTES)
        return self._tls_buffer


def _watch(connected: socket.socket) -> None:
    """Makes the system end the connection after SILENCE_S."""
    with suppress(OSError):  # it has already ended, or the system has no such option
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _PROBES:
            option: int | None = getattr(socket, name, None)
            if option is not None:
                connected.setsockopt(socket.IPPROTO_TCP, option, value)


async def _start_serving(server: asyncio.Server) -> None:
    """Raises OSError if the port was bound but cannot be listened on. Two programs may bind one port (SO_REUSEADDR),
    and the second to listen gets the error. uvloop only logs it and closes its socket."""
    try:
        await server.start_serving()
    except BaseException:  # also if the caller is cancelled: only this function knows the socket
        server.close()
        raise
    if None in server.sockets:
        server.close()
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


class PortTakenError(OSError):
    """Another socket has the port; `strerror` is a sentence that names it."""


def _why_taken(host: str, port: int) -> str:
    where = f"[{host}]" if ":" in host else host or "every address"
    if port == 0:
        return f"the system has no free port left on {where}: too many connections are open, or were closed just now"
    return f"port {port} on {where} is taken: another program listens there already"
