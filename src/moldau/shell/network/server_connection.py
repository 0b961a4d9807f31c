"""One client's connection on the broker: bytes in, whole frames to the dispatcher, responses out in order.

Receiving. All connections of a loop share one receive buffer: the transport asks for it (`get_buffer`), fills it and
calls `buffer_updated` before it serves anyone else, so it is free again when that call returns. Whole frames are
handled in place. The remainder of an incomplete frame is carried over: a short one (< 16 KiB) is put back in front of
the shared buffer for the next read; a longer one moves to a private buffer that grows to at most four times the
received bytes, so announcing a size costs nothing. An unauthenticated client is read CARRY_BYTES at a time, and its
long frames share a small part of the memory with those of other unauthenticated clients.

Holding. A request begins only after the one before it is answered, so each sees the effects of all earlier ones. One
exception: while Produce requests wait for a flush, further Produce requests begin. No request begins while the node
starts, while the transport is above its high water, or while a quota mutes the client. After very many requests, other
connections are served first. Bytes that arrive meanwhile are held, see flow_control.py; how answers leave:
response_queue.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from struct import Struct
from typing import Protocol, cast

from moldau.core.auditing.lines import AUTHENTICATION, TLS, Origin
from moldau.errors import ProtocolError
from moldau.shell.network.bounds import RequestMemory
from moldau.shell.network.connection_state import ADMITTED, AUTHENTICATING, ENDED, HANDSHAKING, RESET, SERVING
from moldau.shell.network.event_log import escape
from moldau.shell.network.flow_control import HELD_BYTES, Hold, Shared
from moldau.shell.network.idle_watch import IdleWatch, Verdict
from moldau.shell.network.long_frame import LongFrame
from moldau.shell.network.pending_response import Answer, PendingResponse
from moldau.shell.network.reply import Authenticator, CertifiedPrincipal, FrameHandler
from moldau.shell.network.response_queue import JOIN_BYTES, ResponseQueue
from moldau.shell.network.session import ANONYMOUS, Session
from moldau.telemetry import BOUND_REACHED, Telemetry
from moldau.types import Buffer
from moldau.wire.protocol.framing import LENGTH_SIZE, stranger

CARRY_BYTES = 16 << 10
HEAD_SIZE = LENGTH_SIZE + 2
FRAMES_AT_ONCE = 200
"""Requests begun for one connection before others are served: one read brings up to 18,000, of about 10 us each."""
EXPIRED_CONNECTIONS = "kafka.network:type=SocketServer,name=ExpiredConnectionsKilledCount"
HIGH_WATER = "moldau.connection.high.water.bytes"
HANDSHAKE_TIMEOUT = "moldau.handshake.timeout.ms"
PENDING_RESPONSES = "moldau.connection.pending.responses"
CLOSE_TIMEOUT_MS = 10_000
"""How long a peer of a closed connection may take to read the earlier answers."""

PRODUCE = b"\0\0"
"""The first bytes of a Produce request's header: its API key."""

_read_length = Struct(">i").unpack_from


class Group(Shared, Protocol):
    """The shared state of a loop's connections, and their registry."""

    telemetry: Telemetry
    dispatcher: FrameHandler | None
    """Of new connections. None: the node does not serve yet, and almost nothing is read."""
    receive_buffer: bytearray
    spares: list[bytearray]
    unauthenticated_memory: RequestMemory
    """For long frames before their client is authenticated; separate from the memory of authenticated clients."""

    def add(self, connection: ServerConnection) -> int:
        """Registers a new connection and returns its number."""
        ...

    def admit(self, connection: ServerConnection) -> None:
        """The connection has its number and addresses: it may be held, or ended if there are too many."""
        ...

    def remove(self, connection: ServerConnection) -> None:
        """The connection has ended."""
        ...


class ServerConnection(ResponseQueue, asyncio.BufferedProtocol):
    """A Reply, see there and at the head of the module. All methods run on the node's loop."""

    group: Group
    __slots__ = (
        "_authenticator",
        "_carry",
        "_certified",
        "_frame",
        "_handler",
        "_since_s",
        "_watch",
        "_when_lost",
        "client_id",
        "client_id_bytes",
        "frames_received",
        "id",
        "listener_name",
        "local_address",
        "received_bytes",
        "session",
        "software",
    )

    def __init__(
        self,
        group: Group,
        listener_name: str,
        authenticator: Authenticator | None = None,
        certified: CertifiedPrincipal | None = None,
    ) -> None:
        super().__init__(group)
        self._certified = certified
        if certified is not None:
            self.state = HANDSHAKING
        self._since_s = group.loop.time()
        """When the connection was accepted, or when the node began to serve."""
        self.listener_name = listener_name
        self.session = Session(ANONYMOUS, "", listener_name)
        self.local_address: tuple[str, int] | None = None
        self.client_id_bytes = b""
        self.client_id = self.software = ""
        self.received_bytes = self.frames_received = self.id = 0
        self._carry: bytes | bytearray = b""
        self._frame: LongFrame | None = None
        self._authenticator = authenticator
        self._handler: FrameHandler | None = None
        """Gets the frames; None while the connection is ADMITTED."""
        self._when_lost: Callable[[bool], None] | None = None
        self._watch = IdleWatch(group.limits, int(group.loop.time() * 1000))

    # -- transport callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self.group.limits.write_high_water_bytes, low=0)
        # uvloop's own. asyncio's join a list before Python 3.12, and some later ones do not pause after it.
        self._writes_lists = not isinstance(transport, asyncio.WriteTransport)
        peer = transport.get_extra_info("peername")
        self.client_address = str(peer[0]) if peer else ""
        self.session = Session(ANONYMOUS, self.client_address, self.listener_name)
        local = transport.get_extra_info("sockname")
        self.local_address = (str(local[0]), int(local[1])) if local else None
        self.id = self.group.add(self)
        if self.group.dispatcher is not None:
            self.begin()
        self.group.admit(self)
        if self.state is HANDSHAKING and self._holds & (Hold.NO_ROOM | Hold.MUTED):
            self._pause_reading()  # a handshake costs more than a request
        # if the node does not serve yet, data is held (see `_receive`): uvloop ignores `pause_reading` in this callback

    def hand_frames_to(self, handler: FrameHandler) -> None:
        """From the next bytes that arrive, `handler` gets the frames instead of the dispatcher."""
        if self.state is SERVING:
            self._handler = handler

    def begin(self) -> None:
        """The node serves now, including data that arrived before."""
        if self.state is not ADMITTED:
            return
        self._since_s = self.group.loop.time()
        if self._authenticator is None:
            self.state, self._handler = SERVING, self.group.dispatcher
        else:
            self.state, self._handler = AUTHENTICATING, self._authenticator(self)
        self.release(Hold.NOT_SERVED)

    def secured(self, certificate: bytes | None) -> None:
        """See SecuredProtocol: the TLS handshake is complete."""
        if self.state is not HANDSHAKING or self._certified is None:
            return
        principal = self._certified(certificate)
        if principal is None:
            self._tell_failure("no rule of ssl.principal.mapping.rules gives a principal for its certificate")
            self.close()
            return
        self.session = Session(principal, self.client_address, self.listener_name)
        self.state = ADMITTED
        if self.group.dispatcher is not None:
            self.begin()

    def _tell_failure(self, why: str) -> None:
        address = escape(self.client_address)
        text = f"a client at {address} was not let in on {self.listener_name}: {why}"
        log = self.group.log
        log.info("client not let in", text, about=address)
        if log.audit is not None:
            origin = Origin("", self.client_address, self.listener_name, self.client_id)
            log.audit.refused(AUTHENTICATION if self.state is AUTHENTICATING else TLS, origin, why)

    def authenticated(self, session: Session) -> None:
        self.session = session
        if self.state is AUTHENTICATING:
            self.state, self._handler = SERVING, self.group.dispatcher

    def connection_lost(self, exc: Exception | None) -> None:
        if self.state is HANDSHAKING:
            self._tell_failure(str(exc or "it left before the TLS handshake was done"))
        self.state = ENDED if exc is None else RESET
        self.group.remove(self)
        self._drop_frame()
        self._set_held(None)
        self._end_mute()
        self._abandon()
        if self._when_lost is not None:
            self._when_lost(self.state is RESET)

    def eof_received(self) -> bool:
        # Requests before the end that only wait for the next turn of the loop are executed: with acks=0 nobody repeats
        # them. A quota delay does not apply: it slows down clients that continue, and this one does not.
        while self._is_resuming or (self._held is not None and self._holds == Hold.MUTED):
            self._end_mute()
            self._holds &= ~Hold.MUTED
            self._resume()
        return False

    def get_buffer(self, sizehint: int) -> bytearray | memoryview:
        frame = self._frame
        if frame is not None:
            return memoryview(frame.buffer)[frame.filled : frame.size]
        carry = self._carry
        if self._held is not None:
            return memoryview(self.group.receive_buffer)[: max(1, HELD_BYTES - len(self._held))]
        buffer = self.group.receive_buffer
        if carry:
            buffer[: len(carry)] = carry
        elif self.state is SERVING:
            return buffer
        # bytes once read are in memory regardless of the bounds: an unauthenticated client is read less
        end = len(buffer) if self.state is SERVING else len(carry) + CARRY_BYTES
        return memoryview(buffer)[len(carry) : end]

    def buffer_updated(self, nbytes: int) -> None:
        self.received_bytes += nbytes
        if self._frame is not None:
            self._frame.filled += nbytes
            self._continue_frame()
            return
        view = memoryview(self.group.receive_buffer)
        if self._held is not None:
            self._keep(self._held + view[:nbytes])
        else:
            carry_size = len(self._carry)
            if carry_size:
                self._carry = b""
                nbytes += carry_size
            self._receive(view, nbytes)
        view.release()

    # -- frames

    def _receive(self, view: memoryview, end: int) -> None:
        """Handles the whole frames of `view[:end]` and keeps the rest, an incomplete or held frame."""
        self._is_in_event = True
        try:
            position = self._handle_frames(view, end)
        except ProtocolError as error:
            self._flush_out()
            self.close_for(error)
            return
        finally:
            self._is_in_event = False
        if self._out:
            self._flush_out()
        if position == end or self.is_closed:
            return
        if self._holds & Hold.NOT_SERVED or self._is_to_be_handled(view, position, end):
            if self.is_write_paused or self._has_too_many_responses():
                self.group.telemetry.count(BOUND_REACHED, HIGH_WATER if self.is_write_paused else PENDING_RESPONSES)
            held = bytearray(view[position:end])
            self._keep(held)
            if not self._must_wait(held):
                self._resume_later()  # the reason went away meanwhile: nobody else would call
        else:
            self._begin_frame(view, position, end)

    def _handle_frames(self, view: memoryview, end: int) -> int:
        """Passes whole frames to the handler until a request must wait; returns the position of the first unhandled
        byte."""
        handler, state = self._handler, self.state
        if handler is None:
            return 0
        handle = handler.handle
        max_bytes = self._max_frame_bytes()
        position = 0
        left = FRAMES_AT_ONCE
        while end - position >= 4:
            length = _read_length(view, position)[0]
            if not 0 <= length <= max_bytes:
                sentence = stranger(view[position : position + LENGTH_SIZE])
                raise ProtocolError(sentence or f"frame length {length} is outside 0..{max_bytes}")
            frame_end = position + 4 + length
            if frame_end > end:
                break
            if (self._responses or self._holds) and self._must_wait(view[position : position + HEAD_SIZE]):
                break
            self.frames_received += 1
            answer = handle(self, view[position + 4 : frame_end])
            position = frame_end
            if answer is not None:
                if answer.__class__ is bytes and not self._responses:
                    self._out.append(answer)
                    self._out_bytes += len(answer)
                else:
                    self._answer(answer)
                if self._out_bytes > JOIN_BYTES:
                    self._flush_out()
            left -= 1
            if self.state is not state or not left:
                break
        return position

    def _max_frame_bytes(self) -> int:
        limits = self.group.limits
        return limits.max_request_bytes if self.state is SERVING else limits.max_unauthenticated_bytes

    def _is_to_be_handled(self, view: memoryview, position: int, end: int) -> bool:
        """Whether `view[position:end]` begins with a whole frame, or with a length that ends the connection."""
        available = end - position - LENGTH_SIZE
        if available < 0:
            return False
        length: int = _read_length(view, position)[0]
        return length <= available or length > self._max_frame_bytes()

    def _answer(self, answer: Answer | PendingResponse) -> None:
        """Takes the dispatcher's result for one frame: sent at the end of this read event, or after pending answers."""
        if answer.__class__ is PendingResponse:
            return
        if self._responses:
            # only Produce requests wait, and this is one: no other would have begun
            PendingResponse.complete(self.reserve(may_produce_begin=True), cast(Answer, answer))
        else:
            self._out += answer  # type: ignore[arg-type]
            self._out_bytes += sum(map(len, answer))  # type: ignore[arg-type]

    def _begin_frame(self, view: memoryview, position: int, end: int) -> None:
        """Keeps an incomplete frame: a short one as it is, a long one in a separate buffer."""
        available = end - position
        if available < CARRY_BYTES:
            self._carry = bytes(view[position:end])
            return
        group = self.group
        frame = self._frame = LongFrame(
            group.request_memory if self.state is SERVING else group.unauthenticated_memory,
            group.spares,
            view[position:end],
            _read_length(view, position)[0] + LENGTH_SIZE,
        )
        if frame.is_full:
            self._continue_frame()

    def _continue_frame(self) -> None:
        """After bytes arrived in the private buffer: handles the frame if it is whole, else makes room for more."""
        frame = self._frame
        if frame is None:
            return
        if not frame.is_whole:
            if frame.is_full and not frame.grow():
                self._pause_reading()
                frame.memory.wait(self.id, self._resume_later)
            return
        if not self._must_wait(frame.buffer):
            self._frame = None
            with memoryview(frame.buffer) as view:
                self._receive(view, frame.size)
            frame.release()
        elif frame.size < HELD_BYTES:
            self._frame = None
            self._keep(frame.buffer[: frame.size])
            frame.release()
        else:
            self._pause_reading()

    def _drop_frame(self) -> None:
        frame, self._frame = self._frame, None
        self._carry = b""
        if frame is not None:
            frame.drop()

    # -- holding and resuming

    def _must_wait(self, frame: Buffer) -> bool:
        """Whether the request whose frame begins with these bytes (with its length) may not begin now."""
        responses = self._responses
        if responses and not (responses[-1].may_produce_begin and frame[LENGTH_SIZE:HEAD_SIZE] == PRODUCE):
            return True
        return self._holds != 0 or self._has_too_many_responses()

    def _keep(self, held: bytearray) -> None:
        """Keeps bytes that may not be handled yet; reads on while there is room, to notice the client's end."""
        self._set_held(held)
        memory = self.group.request_memory
        # a connection that was never served may wait for a place: it costs only its socket
        if len(held) >= HELD_BYTES or memory.used_bytes > memory.limit_bytes or not self.frames_received:
            self._pause_reading()
        else:
            self._resume_reading()

    def _resume(self) -> None:
        """Continues after a hold: first with the kept bytes, then with the socket."""
        self._is_resuming = False
        held = self._held
        if self.is_closed or (held is not None and self._must_wait(held)):
            return
        if held is not None:
            self._set_held(None)
            with memoryview(held) as view:
                self._receive(view, len(held))
        elif self._frame is not None:
            self._continue_frame()
        frame = self._frame
        if self._held is None and (frame is None or not frame.is_full):
            self._resume_reading()

    # -- ending

    def when_lost(self, call: Callable[[bool], None]) -> None:
        if self.is_closed:
            call(self.state is RESET)
        else:
            self._when_lost = call

    def introduced(self, software: str) -> None:
        self.software = software

    def close_for(self, error: ProtocolError) -> None:
        self.group.log.warn(
            f"bad request {error.__class__.__name__}",
            f"closed the connection of {escape(self.client_address)} on {self.listener_name}: {escape(str(error))}",
            about=escape(self.client_address),
        )
        self.close()

    def _is_late(self, now_ms: int) -> bool:
        """Ends a client that has not authenticated in time, because open connections must not be free."""
        limit_ms = self.group.limits.handshake_timeout_ms
        if now_ms - self._since_s * 1_000 < limit_ms or self._holds & (Hold.NO_ROOM | Hold.MUTED):
            return False
        what = "the TLS handshake" if self.state is HANDSHAKING else "authentication"
        self._tell_failure(f"{what} was not done in {limit_ms} ms")
        self.group.telemetry.count(BOUND_REACHED, HANDSHAKE_TIMEOUT)
        self.abort()
        return True

    def sweep(self, now_ms: int) -> None:
        """Once a second: ends idle connections, and those that announced a frame and do not send it."""
        watch, frame = self._watch, self._frame
        if self.is_closed:
            if watch.silent_ms(now_ms) >= CLOSE_TIMEOUT_MS:
                self.abort()
            return
        if self.state < SERVING and self.state is not ADMITTED and self._is_late(now_ms):
            return
        # a streamed answer waits for the peer alone
        is_owed = bool(self._responses) and not self._holds & Hold.STREAMING
        is_held = self._held is not None or bool(self._holds & Hold.MUTED)
        verdict = watch.look(
            now_ms,
            self.received_bytes,
            self.frames_received,
            0 if self._transport is None else self._transport.get_write_buffer_size(),
            # a client that does not read its answers, or waits for a place, counts as silent, regardless of held
            # requests
            is_at_work=(is_owed or is_held) and not self._holds & (Hold.WRITES_PAUSED | Hold.NO_ROOM),
            is_incomplete=bool(self._carry) if frame is None else not frame.is_whole,
        )
        if verdict is Verdict.STUCK:
            address, timeout_ms = escape(self.client_address), self.group.limits.frame_timeout_ms
            text = f"closed the connection of {address}: a frame stayed incomplete for {timeout_ms} ms"
            self.group.log.info("incomplete frame", text, about=address)
            self.group.telemetry.count(BOUND_REACHED, "moldau.frame.timeout.ms")
            self.abort()
        elif verdict is Verdict.IDLE:
            self.group.telemetry.count(EXPIRED_CONNECTIONS)
            self.close()
        elif self._unsent_bytes:
            self.count_unsent()
