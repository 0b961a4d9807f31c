"""From a whole frame to a handler and back: header, key and version, context, metric, encoding of the answer.

A handler has up to three parts (ARCHITECTURE.md, Contracts):

    prepare   optional: gives a coroutine that may wait before the decision, or None. It owns a copy of what it needs,
              and its result is the act to call.
    act       synchronous, in connection order. A raw act gets the frame itself (Produce, Fetch) and keeps no view of
              it; any other gets the decoded request.
    finish    what act gives back when the answer may have to wait: a coroutine, whose result is the response. Its
              first step is taken at once (see first_step.py).

Until a request is answered its connection begins no other (ServerConnection). A request in a long frame is decoded in
slices before it acts, and a long answer is encoded in slices: see turns.py.

Errors: ProtocolError closes the connection. Anything unforeseen is logged once with its trace and closes the
connection; an InvariantError stops the node.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from functools import partial
from itertools import islice
from struct import Struct, pack
from struct import error as StructError  # noqa: N812
from types import CoroutineType
from typing import Any, cast

import msgspec

from moldau.errors import ERROR_CODES, InvariantError, KafkaError, MoldauError, ProtocolError
from moldau.shell.network.background import BackgroundTasks
from moldau.shell.network.bounds import LongRequests
from moldau.shell.network.context import Authorizer, Quotas, RequestContext
from moldau.shell.network.event_log import EventLog, escape
from moldau.shell.network.first_step import Ended, begun
from moldau.shell.network.freeing import free_in_slices, long_arrays
from moldau.shell.network.long_frame import kept
from moldau.shell.network.pending_response import Answer, PendingResponse
from moldau.shell.network.request_stats import RequestStats, each_error_code
from moldau.shell.network.server_connection import ServerConnection
from moldau.shell.network.turns import CURRENT_TURNS, Turns
from moldau.telemetry import Telemetry
from moldau.types import Buffer
from moldau.wire.protocol.api_keys import ApiKey, ApiVersionRange
from moldau.wire.protocol.codec import decode_in_slices, decode_message, encode_in_slices, encode_message
from moldau.wire.protocol.runtime import SLICE_ELEMENTS, skip_tagged_fields

API_VERSIONS_KEY = int(ApiKey.API_VERSIONS)
UNSUPPORTED_VERSION = ERROR_CODES["UNSUPPORTED_VERSION"]
LONG_FRAME_BYTES = 16 << 10
"""A longer request may name more than can be decoded in a millisecond."""
WORKED_BYTES = 16
"""What a byte of a request that names thousands takes in memory while it is decoded and answered, about."""

_read_header = Struct(">hhih").unpack_from
_pack_int = Struct(">i").pack

RawAct = Callable[[RequestContext, memoryview, int], "Answer | PendingResponse | None"]


class ResponseError(MoldauError):
    """A handler made a response that its version cannot carry: our mistake, not the peer's."""


class HandlerSpec(msgspec.Struct, frozen=True):
    """Where the handler of one API is found: imported when its first request comes (a fast start)."""

    api_key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int
    module: str
    function: str
    declaration: ApiVersionRange | None = None
    """Declares the request to decode; None for a raw handler."""
    ends_with_connection: bool = False
    """It waits for what others do, and is given up when its client is gone; any other runs to its end."""


class _Entry:
    __slots__ = ("act", "api_key", "flexible_from", "max_version", "min_version", "name", "spec", "stats")

    def __init__(self, spec: HandlerSpec) -> None:
        self.spec = spec
        self.api_key = spec.api_key
        self.name = spec.name
        self.min_version = spec.min_version
        self.max_version = spec.max_version
        self.flexible_from = spec.flexible_from
        self.act: RawAct | None = None
        self.stats = RequestStats(spec.max_version)


class Dispatcher:
    """The table of handlers of one node. `owner` is what every handler function gets first: the broker."""

    def __init__(
        self,
        owner: object,
        loop: asyncio.AbstractEventLoop,
        specs: Mapping[int, HandlerSpec],
        telemetry: Telemetry,
        log: EventLog,
        *,
        authorizer: Authorizer | None = None,
        quotas: Quotas | None = None,
        on_invariant_broken: Callable[[InvariantError], None],
    ) -> None:
        self.owner = owner
        self.loop = loop
        self.telemetry = telemetry
        self.log = log
        self.authorizer = authorizer
        self.quotas = quotas
        self.quota_timer_ns: Callable[[], int] | None = None
        """What the time of requests is measured with for their quotas; None: it is not."""
        self.timer: Callable[[], float] | None = None
        """Seconds, for the times in the metrics; None: nothing is timed."""
        self._turns = Turns(loop)
        self._long_requests = LongRequests(loop)
        self._entries = {key: _Entry(spec) for key, spec in specs.items()}
        self._tasks = BackgroundTasks(loop, log, on_invariant_broken)
        self._on_invariant_broken = on_invariant_broken

    # -- the way in

    def handle(self, connection: ServerConnection, frame: memoryview) -> Answer | PendingResponse | None:
        """Handles one whole frame (without its length), in connection order. Raises ProtocolError."""
        try:
            api_key, version, correlation_id, id_length = _read_header(frame, 0)
        except StructError:
            if len(frame) >= 8:
                raise ProtocolError("the request header ends before the client id") from None
            raise ProtocolError(f"a frame of {len(frame)} bytes holds no request header") from None
        entry = self._entries.get(api_key)
        if entry is None or not entry.min_version <= version <= entry.max_version:
            return self._refuse(api_key, version, correlation_id)
        position = 10
        if id_length > 0:
            position += id_length
            if position > len(frame):
                raise ProtocolError("the client id is longer than the frame")
            client_id_bytes = frame[10:position]
            if client_id_bytes != connection.client_id_bytes:
                connection.client_id_bytes = bytes(client_id_bytes)
                connection.client_id = connection.client_id_bytes.decode("utf-8", "replace")
            client_id = connection.client_id
        else:
            client_id = ""
        if version >= entry.flexible_from:
            if position >= len(frame):
                raise ProtocolError("the request header ends before its tagged fields")
            count = frame[position]
            position += 1
            if count:
                try:
                    position = skip_tagged_fields(frame, position, count)
                except IndexError:
                    raise ProtocolError("the request header ends within its tagged fields") from None
        stats = entry.stats
        stats.count += 1
        stats.by_version[version] += 1
        act = entry.act or self._resolve(entry)
        context = RequestContext(connection, api_key, version, correlation_id, client_id, self.authorizer, self.quotas)
        try:
            if context.quotas is not None and self.quota_timer_ns is not None:
                act = partial(self._charged, self.quota_timer_ns, act)
            if self.timer is not None and stats.is_sampled():
                return self._timed(self.timer, stats, act, context, frame, position)
            return act(context, frame, position)
        except ProtocolError as error:
            raise ProtocolError(f"{entry.name} v{version}: {error}") from None
        except Exception as error:
            self._unforeseen(connection, entry.name, error)
            return None

    def _timed(
        self,
        timer: Callable[[], float],
        stats: RequestStats,
        act: RawAct,
        context: RequestContext,
        frame: memoryview,
        position: int,
    ) -> Answer | PendingResponse | None:
        started_s = timer()
        answer = act(context, frame, position)
        ended_s = timer()
        size = 4 + len(frame)
        if isinstance(answer, PendingResponse):
            if answer.is_complete:
                stats.handled(started_s, ended_s, size)
            else:
                stats.parked(started_s, ended_s, size)
                answer.on_complete = lambda: stats.completed(started_s, ended_s, timer())
        else:
            stats.handled(started_s, ended_s, size)
        return answer

    def _charged(
        self, timer_ns: Callable[[], int], act: RawAct, context: RequestContext, frame: memoryview, position: int
    ) -> Answer | PendingResponse | None:
        """Charges the time of the act, in which nobody else is served, to the client's quota (KIP-124)."""
        started_ns = timer_ns()
        answer = act(context, frame, position)
        if context.quotas is not None:
            context.quotas.handled(context.principal, context.client_id, timer_ns() - started_ns)
        return answer

    def _refuse(self, api_key: int, version: int, correlation_id: int) -> Answer:
        if api_key == API_VERSIONS_KEY and API_VERSIONS_KEY in self._entries:
            # KIP-511: the body of version 0, with the one row that lets the client try again
            entry = self._entries[API_VERSIONS_KEY]
            row = pack(">hhh", API_VERSIONS_KEY, entry.min_version, entry.max_version)
            return pack(">iihi", 16, correlation_id, UNSUPPORTED_VERSION, 1) + row
        self.telemetry.count("kafka.server:type=RequestRefused", str(api_key))
        raise ProtocolError(f"request key {api_key}, version {version} is not served")

    def _resolve(self, entry: _Entry) -> RawAct:
        spec = entry.spec
        module = importlib.import_module(spec.module)
        function = getattr(module, spec.function)
        owner = self.owner
        act: RawAct = partial(function, owner)
        if spec.declaration is not None:
            act = self._decoding(entry, spec.declaration.request, function)
        entry.act = act
        return act

    def _decoding(
        self,
        entry: _Entry,
        request_type: type[msgspec.Struct],
        function: Callable[..., Any],
    ) -> RawAct:
        owner = self.owner

        def act(context: RequestContext, frame: memoryview, position: int) -> Answer | PendingResponse | None:
            if len(frame) > LONG_FRAME_BYTES:
                return self._act_on_long(entry, request_type, function, context, frame, position)
            request, _ = decode_message(request_type, context.api_version, frame, position)
            return self._acted(entry, context, function(owner, context, request))

        return act

    def _acted(self, entry: _Entry, context: RequestContext, result: Any) -> Answer | PendingResponse | None:
        if isinstance(result, CoroutineType):
            CURRENT_TURNS.set(self._turns)
            step = begun(cast("Coroutine[Any, Any, object]", result))
            if not isinstance(step, Ended):
                response = context.connection.reserve()
                task = self._tasks.spawn(self._complete(entry, context, response, step))
                if entry.spec.ends_with_connection:
                    response.on_abandoned = task.cancel
                return response
            result = step.result
        if result is None:
            return None
        encoding = encode_in_slices(result, context.api_version)
        try:
            first = next(encoding)
        except StopIteration as end:
            self._count_errors(context, result)
            return self._framed(context, end.value)
        except ProtocolError as error:
            raise ResponseError(str(error)) from error
        response = context.connection.reserve()
        self.spawn(self._complete_encoding(entry, context, response, result, first, encoding))
        return response

    def _act_on_long(
        self,
        entry: _Entry,
        request_type: type[msgspec.Struct],
        function: Callable[..., Any],
        context: RequestContext,
        frame: memoryview,
        position: int,
    ) -> Answer | PendingResponse | None:
        """As for any request, if its first slice is all of it (a long frame may hold one long string)."""
        decoding = decode_in_slices(request_type, context.api_version, kept(frame), position)
        try:
            next(decoding)
        except StopIteration as end:
            return self._acted(entry, context, function(self.owner, context, end.value))
        response = context.connection.reserve()
        self.spawn(self._complete_long(entry, context, response, decoding, function, len(frame)))
        return response

    # -- the ways out

    def encode(self, context: RequestContext, response: Any) -> bytes | None:
        """The whole framed response, or None where `response` is None."""
        if response is None:
            return None
        try:
            body = encode_message(response, context.api_version)
        except ProtocolError as error:
            raise ResponseError(str(error)) from error
        self._count_errors(context, response)
        return self._framed(context, body)

    def _count_errors(self, context: RequestContext, response: msgspec.Struct) -> None:
        if self.timer is not None:
            self._entries[context.api_key].stats.count_errors(response)

    def _framed(self, context: RequestContext, body: bytes) -> bytes:
        return self._head(context, len(body)) + body

    def _head(self, context: RequestContext, body_bytes: int) -> bytes:
        # ApiVersions keeps response header 0 in every version, so that any client can read it (KIP-511)
        if context.api_version >= self._entries[context.api_key].flexible_from and context.api_key != API_VERSIONS_KEY:
            return b"%b%b\x00" % (_pack_int(5 + body_bytes), _pack_int(context.correlation_id))
        return b"%b%b" % (_pack_int(4 + body_bytes), _pack_int(context.correlation_id))

    async def _complete(
        self, entry: _Entry, context: RequestContext, response: PendingResponse, waiting: Awaitable[object]
    ) -> None:
        try:
            result = cast("msgspec.Struct | None", await waiting)
            response.complete(None if result is None else await self._encoded(context, result))
        except Exception as error:
            self._unforeseen(context.connection, entry.name, error)

    async def _complete_encoding(
        self,
        entry: _Entry,
        context: RequestContext,
        response: PendingResponse,
        result: msgspec.Struct,
        first: bytes,
        encoding: Generator[bytes, None, bytes],
    ) -> None:
        try:
            response.complete(await self._encoded(context, result, encoding, first))
        except Exception as error:
            self._unforeseen(context.connection, entry.name, error)

    async def _complete_long(
        self,
        entry: _Entry,
        context: RequestContext,
        response: PendingResponse,
        decoding: Generator[None, None, msgspec.Struct],
        function: Callable[..., Any],
        size: int,
    ) -> None:
        """The rest of a request that is long to decode, and its answer."""
        CURRENT_TURNS.set(self._turns)
        connection = context.connection
        memory = connection.group.request_memory
        memory.take(size)
        held_bytes, worked_bytes = size, size * WORKED_BYTES
        try:
            await self._long_requests.enter(worked_bytes)
            memory.take(worked_bytes)
            held_bytes += worked_bytes
            request = await self._decoded(connection, decoding)
            result = None if request is None else function(self.owner, context, request)
            if isinstance(result, CoroutineType):
                result = await result
            response.complete(None if result is None else await self._encoded(context, result))
            arrays = long_arrays(request, result)
            request = result = None
            await free_in_slices(arrays)
        except Exception as error:
            self._unforeseen(connection, entry.name, error)
        finally:
            memory.give_back(held_bytes)
            if held_bytes > size:
                self._long_requests.leave(worked_bytes)

    async def _decoded(
        self, connection: ServerConnection, decoding: Generator[None, None, msgspec.Struct]
    ) -> msgspec.Struct | None:
        """None where the peer left meanwhile."""
        while not connection.is_closed:
            await self._turns.next()
            try:
                next(decoding)
            except StopIteration as end:
                return cast(msgspec.Struct, end.value)
        return None

    async def _encoded(
        self,
        context: RequestContext,
        response: msgspec.Struct,
        encoding: Generator[bytes, None, bytes] | None = None,
        first: bytes = b"",
    ) -> Answer | None:
        """The framed response, whole or in parts; None where the peer left meanwhile. `first`: what `encoding`, if it
        has begun, gave already."""
        if encoding is None:
            encoding = encode_in_slices(response, context.api_version)
        parts: list[Buffer] = [b"", first] if first else [b""]
        while not context.connection.is_closed:
            try:
                parts.append(next(encoding))
            except ProtocolError as error:
                raise ResponseError(str(error)) from error
            except StopIteration as end:
                if len(parts) == 1:
                    self._count_errors(context, response)
                    return self._framed(context, end.value)
                parts.append(end.value)
                parts[0] = self._head(context, sum(map(len, parts)))
                break
            await self._turns.next()
        if context.connection.is_closed:
            return None
        if self.timer is not None:
            codes = each_error_code(response)
            while some := list(islice(codes, SLICE_ELEMENTS)):
                self._entries[context.api_key].stats.count_codes(some)
                await self._turns.next()
        return parts

    def prepare(
        self, context: RequestContext, waiting: Coroutine[Any, Any, Callable[[], Any]], held_bytes: int = 0
    ) -> PendingResponse:
        """For a raw act that must wait before it decides: `waiting` owns a copy of what it needs, of `held_bytes`, and
        gives the act."""
        name = self._entries[context.api_key].name
        connection = context.connection
        response = connection.reserve()
        memory = connection.group.request_memory

        async def run() -> None:
            CURRENT_TURNS.set(self._turns)
            memory.take(held_bytes)
            try:
                act = await waiting
                result = act()
                if isinstance(result, PendingResponse):
                    connection.response_replaced(response, result)
                else:
                    response.complete(result)
            except Exception as error:
                self._unforeseen(connection, name, error)
            finally:
                memory.give_back(held_bytes)

        self.spawn(run())
        return response

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs `work` beside the connections; `close` cancels what still runs."""
        self._tasks.spawn(work)

    def close(self) -> None:
        self._tasks.cancel()

    def _unforeseen(self, connection: ServerConnection, name: str, error: Exception) -> None:
        if isinstance(error, InvariantError):
            self._on_invariant_broken(error)
            return
        if isinstance(error, ProtocolError):
            connection.close_for(error)
            return
        kind = error.name if isinstance(error, KafkaError) else type(error).__name__
        self.telemetry.count("moldau.server:type=UnforeseenErrors", name)
        self.log.unforeseen(f"unforeseen {name} {kind}", f"{name} failed: {escape(repr(error))}", error)
        connection.close()

    def request_counts(self) -> dict[str, int]:
        """Requests by API name since the start: the metric of every handler."""
        return {entry.name: entry.stats.count for entry in self._entries.values()}

    def request_stats(self) -> dict[int, RequestStats]:
        """By API key, of all that are served."""
        return {key: entry.stats for key, entry in self._entries.items()}
