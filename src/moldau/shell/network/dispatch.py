"""From a whole frame to a handler and back: header, key and version, context, metric, encoding of the answer.

A handler is one coroutine function, `act(broker, context, request) -> response`. Its first step runs at once (see
first_step.py). If it waits, a task continues it, and its connection begins no other request until it is answered. It
lets others run where it pauses (see pauses.py), as do the decoding of a long frame and the encoding of a long answer.

Produce and Fetch are raw: fast paths that get the frame itself, keep no view of it, and return bytes or one pending
response.

A request whose client is gone is dropped at its next pause, unless it has changed something or asked for a decision:
then it runs to its end (`RequestContext.wait`). A request that waits for others, or that changes nothing, is dropped at
once (`HandlerSpec.ends_with_connection`).

Errors: ProtocolError closes the connection. An unexpected exception is logged once with its trace and closes the
connection. An InvariantError stops the node.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from itertools import islice
from struct import Struct, pack
from struct import error as StructError  # noqa: N812
from typing import Any, cast

import msgspec

from moldau.errors import ERROR_CODES, InvariantError, KafkaError, MoldauError, ProtocolError
from moldau.shell.network.background import BackgroundTasks
from moldau.shell.network.bounds import LongRequests, LongRoom, RequestMemory
from moldau.shell.network.context import Authorizer, Handler, Quotas, RequestContext, Work
from moldau.shell.network.event_log import escape
from moldau.shell.network.first_step import FirstSteps
from moldau.shell.network.freeing import free, long_arrays
from moldau.shell.network.long_frame import kept
from moldau.shell.network.node_parts import NodeParts
from moldau.shell.network.pending_response import Answer, PendingResponse
from moldau.shell.network.reply import Reply
from moldau.shell.network.request_stats import SAMPLE_ALL, SAMPLE_MASK, RequestStats
from moldau.shell.network.rights import Right
from moldau.types import Buffer, Pausing
from moldau.wire.protocol.api_keys import ApiKey, ApiVersionRange, declared_api
from moldau.wire.protocol.codec import UNENCODABLE, decode_message, decode_pausing, encode_message, encode_pausing
from moldau.wire.protocol.error_codes import each_error_code
from moldau.wire.protocol.runtime import ELEMENTS_BETWEEN_PAUSES, decode_text, skip_tagged_fields

API_VERSIONS_KEY = int(ApiKey.API_VERSIONS)
FETCH_KEY = int(ApiKey.FETCH)
WRITE_TXN_MARKERS_KEY = int(ApiKey.WRITE_TXN_MARKERS)
UNSUPPORTED_VERSION = ERROR_CODES["UNSUPPORTED_VERSION"]
LONG_FRAME_BYTES = 16 << 10
"""A longer request may name too many things to decode in a millisecond."""
JOINED_PARTS = 1_000
"""Parts of a long answer that are joined at once, in 20 us."""
CODES_BETWEEN_PAUSES = 50

_read_header = Struct(">hhih").unpack_from
_pack_int = Struct(">i").pack

RawAct = Callable[[RequestContext, memoryview, int], "Answer | PendingResponse | None"]


class ResponseError(MoldauError):
    """A handler made a response that its version cannot carry: a bug of ours, not of the peer."""


class HandlerSpec(msgspec.Struct, frozen=True):
    """The location of one API's handler, imported on its first request (for a fast start)."""

    api_key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int
    module: str
    function: str
    declaration: ApiVersionRange
    """Declares how to decode the request."""
    function_for_many: str = ""
    """For a raw handler, which gets frames: the function for long requests, which gets them decoded."""
    ends_with_connection: bool = False
    """The handler waits for others or changes nothing: it is cancelled at once when its client is gone."""
    rights: tuple[Right, ...] = ()
    """The handler checks these rights of the principal, or those that concern the resources in the request."""


def handler_spec(
    key: ApiKey, module: str, rights: tuple[Right, ...], *, is_raw: bool = False, ends_with_connection: bool = False
) -> HandlerSpec:
    """The spec of a function with the API's name, `act_list_offsets`; a raw one has a second function for long
    requests."""
    versions, function = declared_api(key), f"act_{key.name.lower()}"
    return HandlerSpec(
        api_key=int(key),
        name=key.name,
        min_version=versions.min_version,
        max_version=versions.max_version,
        flexible_from=versions.flexible_from,
        module=module,
        function=function,
        declaration=versions,
        function_for_many=f"{function}_many" if is_raw else "",
        ends_with_connection=ends_with_connection,
        rights=rights,
    )


class _Entry:
    __slots__ = (
        "act",
        "act_many",
        "api_key",
        "flexible_from",
        "max_version",
        "min_version",
        "name",
        "owner",
        "spec",
        "stats",
    )

    def __init__(self, spec: HandlerSpec, owner: object) -> None:
        self.spec = spec
        self.owner = owner
        self.api_key = spec.api_key
        self.name = spec.name
        self.min_version = spec.min_version
        self.max_version = spec.max_version
        self.flexible_from = spec.flexible_from
        self.act: RawAct | None = None
        self.act_many: Handler | None = None
        self.stats = RequestStats(spec.max_version)


class Dispatcher:
    """The handler table of one listener. `owner`, the broker, is the first argument of every handler function."""

    def __init__(
        self,
        owner: object,
        specs: Mapping[int, HandlerSpec],
        node: NodeParts,
        request_memory: RequestMemory,
        *,
        authorizer: Authorizer | None = None,
        timer: Callable[[], float] | None = None,
        quota_timer_ns: Callable[[], int] | None = None,
        on_invariant_broken: Callable[[InvariantError], None],
    ) -> None:
        self.loop = loop = node.loop
        self.telemetry = node.telemetry
        self.log = log = node.log
        self.audit = log.audit
        self.authorizer = authorizer
        self.quotas: Quotas | None = None
        self.quota_timer_ns = quota_timer_ns
        """Measures the time of requests for their quotas; None: not measured."""
        self.timer = timer
        """Returns seconds, for the times in the metrics; None: not measured."""
        self.pauses = node.pauses
        self.request_memory = request_memory
        self._long_requests = LongRequests(loop)
        self._first_steps = FirstSteps()
        self._entries = {key: _Entry(spec, owner) for key, spec in specs.items()}
        fetch_versions = declared_api(ApiKey.FETCH).max_version
        self._fetches_of_consumers = RequestStats(fetch_versions)
        """The times of consumers' fetches; a fetch not counted as a replica's is a consumer's."""
        self._fetches_of_replicas = RequestStats(fetch_versions)
        self._tasks = BackgroundTasks(loop, log, on_invariant_broken)
        self._on_invariant_broken = on_invariant_broken

    def serve(self, owner: object, specs: Mapping[int, HandlerSpec]) -> None:
        """Adds handlers with another `owner` as first argument."""
        self._entries |= {key: _Entry(spec, owner) for key, spec in specs.items()}

    def quotas_changed(self, quotas: Quotas) -> None:
        """From here on, requests are subject to these quotas."""
        self.quotas = quotas if quotas.in_force else None

    # -- the way in

    def handle(self, connection: Reply, frame: memoryview) -> Answer | PendingResponse | None:
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
                connection.client_id = decode_text(client_id_bytes)
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
        context = RequestContext(self, connection, connection.session, api_key, version, correlation_id, client_id)
        try:
            if self.quotas is not None and self.quota_timer_ns is not None:
                act = partial(self._charged, self.quota_timer_ns, act)
            if self.timer is not None and (stats.count <= SAMPLE_ALL or not stats.count & SAMPLE_MASK):
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
        if isinstance(answer, PendingResponse) and not answer.is_complete:
            stats.parked(started_s, ended_s, size)
            answer.on_complete = lambda: self._completed(stats, context, started_s, ended_s, timer(), size)
            return answer
        stats.handled(started_s, ended_s, size)
        if (part := self._part_of(context)) is not None:
            part.handled(started_s, ended_s, size)
        return answer

    def _completed(
        self, stats: RequestStats, context: RequestContext, started_s: float, parked_s: float, ended_s: float, size: int
    ) -> None:
        """The answer of a timed request is complete."""
        stats.completed(started_s, parked_s, ended_s)
        if (part := self._part_of(context)) is not None:
            part.parked(started_s, parked_s, size)
            part.completed(started_s, parked_s, ended_s)

    def _part_of(self, context: RequestContext) -> RequestStats | None:
        """The further statistics that count a fetch; the sender of a long one is known only after it was parked."""
        if context.api_key != FETCH_KEY:
            return None
        return self._fetches_of_replicas if context.is_of_replica else self._fetches_of_consumers

    def fetched_by_replica(self, context: RequestContext) -> None:
        """Counts a fetch as a follower's, not a consumer's."""
        self._fetches_of_replicas.count += 1
        self._fetches_of_replicas.by_version[context.api_version] += 1

    def _charged(
        self, timer_ns: Callable[[], int], act: RawAct, context: RequestContext, frame: memoryview, position: int
    ) -> Answer | PendingResponse | None:
        """Charges the time of the act, during which nobody else is served, to the client's quota (KIP-124). As in
        Kafka, followers and coordinators are not charged: their work would use up the quota that they share with
        clients."""
        started_ns = timer_ns()
        answer = act(context, frame, position)
        is_exempt = context.is_of_replica or context.api_key == WRITE_TXN_MARKERS_KEY
        if self.quotas is not None and not is_exempt:
            self.quotas.handled(context.session.principal, context.client_id, timer_ns() - started_ns)
        return answer

    def _refuse(self, api_key: int, version: int, correlation_id: int) -> Answer:
        if api_key == API_VERSIONS_KEY and API_VERSIONS_KEY in self._entries:
            # KIP-511: the body of version 0, with the one row that the client needs to retry
            entry = self._entries[API_VERSIONS_KEY]
            row = pack(">hhh", API_VERSIONS_KEY, entry.min_version, entry.max_version)
            return pack(">iihi", 16, correlation_id, UNSUPPORTED_VERSION, 1) + row
        self.telemetry.count("kafka.server:type=RequestRefused", str(api_key))
        raise ProtocolError(f"request key {api_key}, version {version} is not served")

    def handler_of(self, api_key: int) -> Handler:
        """The handler of an API on this listener; it gets decoded requests. Raises KeyError."""
        entry = self._entries[api_key]
        module = importlib.import_module(entry.spec.module)
        return partial(getattr(module, entry.spec.function_for_many or entry.spec.function), entry.owner)

    def _resolve(self, entry: _Entry) -> RawAct:
        spec = entry.spec
        handler = self.handler_of(spec.api_key)
        act: RawAct
        if spec.function_for_many:
            act = partial(getattr(importlib.import_module(spec.module), spec.function), entry.owner)
            entry.act_many = handler
        else:
            act = self._decoding(spec, spec.declaration.request, handler)
        entry.act = act
        return act

    def serve_long(self, context: RequestContext, frame: memoryview, position: int) -> PendingResponse:
        """The place of the answer to a frame that is too long for its raw handler to decode: `function_for_many`
        handles it."""
        entry = self._entries[context.api_key]
        spec = entry.spec
        handler = cast(Handler, entry.act_many)
        work = partial(self._serve_long, spec.declaration.request, handler, context, kept(frame), position)
        return self.answer_later(context, work, ends_with_connection=spec.ends_with_connection)

    def _decoding(self, spec: HandlerSpec, request_type: type[msgspec.Struct], handler: Handler) -> RawAct:
        begin = self._first_steps.begin

        def act(context: RequestContext, frame: memoryview, position: int) -> Answer | PendingResponse | None:
            answer: Answer | None = None
            work: Work | None
            if len(frame) > LONG_FRAME_BYTES:
                answer, waiting = begin(self._serve_long(request_type, handler, context, kept(frame), position))
                work = None if waiting is None else partial(_itself, waiting)
            else:
                request, _ = decode_message(request_type, context.api_version, frame, position)
                response, waiting = begin(handler(context, request))
                if waiting is None:
                    if self.audit is not None:
                        for _ in self._changed(context, request, response):
                            pass  # a short request names few things
                    answer, work = self._encoded(context, response)
                else:
                    work = partial(self._serve, context, request, waiting)
            if work is None:
                return answer
            return self.answer_later(context, work, ends_with_connection=spec.ends_with_connection)

        return act

    async def _serve(
        self, context: RequestContext, request: msgspec.Struct, handling: Awaitable[msgspec.Struct | None]
    ) -> Answer | None:
        response = await handling
        if self.audit is not None:
            await self.pauses.finish(self._changed(context, request, response))
        answer, rest = self._encoded(context, response)
        return answer if rest is None else await rest()

    def _changed(
        self, context: RequestContext, request: msgspec.Struct, response: msgspec.Struct | None
    ) -> Pausing[None]:
        """Writes to the audit log the changes of the request, unless another node does."""
        if self.audit is not None and response is not None and not context.is_handed_on:
            yield from self.audit.changed(context.origin(), context.api_key, request, response, context.about)

    async def _serve_long(
        self,
        request_type: type[msgspec.Struct],
        handler: Handler,
        context: RequestContext,
        frame: memoryview,
        position: int,
    ) -> Answer | None:
        """As `_serve`, for a frame that may name too many things to decode, or free, in a millisecond."""
        room = LongRoom(self.request_memory, self._long_requests, len(frame))
        request = response = None
        made = context.keep_all(room)
        try:
            await room.enter()
            decoding = decode_pausing(request_type, context.api_version, frame, position)
            request = await self.pauses.finish(decoding, ELEMENTS_BETWEEN_PAUSES)
            response = await handler(context, request)
            if self.audit is not None:
                await self.pauses.finish(self._changed(context, request, response))
            answer, rest = self._encoded(context, response)
            return answer if rest is None else await rest()
        finally:
            arrays = long_arrays(request, response, made)
            if arrays:
                self.spawn(self._free(arrays, room))
            else:
                room.leave()

    async def _free(self, arrays: list[list[Any]], room: LongRoom) -> None:
        try:
            await free(arrays, self.pauses)
        finally:
            room.leave()

    def answer_later(
        self,
        context: RequestContext,
        work: Work,
        *,
        ends_with_connection: bool = False,
        may_produce_begin: bool = False,
    ) -> PendingResponse:
        """Reserves the place of the answer from `work`."""
        response = context.reply.reserve(may_produce_begin=may_produce_begin)
        task = self._tasks.spawn(self._complete(context, response, work))
        response.on_abandoned = task.cancel if ends_with_connection else partial(_abandon, context, task)
        return response

    async def _complete(self, context: RequestContext, response: PendingResponse, work: Work) -> None:
        try:
            response.complete(await work())
        except Exception as error:
            self._unforeseen(context.reply, self._entries[context.api_key].name, error)

    # -- the ways out

    def encode(self, context: RequestContext, response: Any) -> bytes | None:
        """The whole framed response; None if `response` is None."""
        if response is None:
            return None
        try:
            body = encode_message(response, context.api_version)
        except ProtocolError as error:
            raise ResponseError(str(error)) from error
        self._count_errors(context, response)
        return self._head(context, len(body)) + body

    def _count_errors(self, context: RequestContext, response: msgspec.Struct) -> None:
        if self.timer is not None:
            self._entries[context.api_key].stats.count_errors(response)

    def _head(self, context: RequestContext, body_bytes: int) -> bytes:
        # ApiVersions keeps response header 0 in every version, because any client must be able to read it (KIP-511)
        if context.api_version >= self._entries[context.api_key].flexible_from and context.api_key != API_VERSIONS_KEY:
            return b"%b%b\x00" % (_pack_int(5 + body_bytes), _pack_int(context.correlation_id))
        return b"%b%b" % (_pack_int(4 + body_bytes), _pack_int(context.correlation_id))

    def _encoded(self, context: RequestContext, response: msgspec.Struct | None) -> tuple[Answer | None, Work | None]:
        """The framed response, or the work that makes a long one; neither if there is no response."""
        if response is None:
            return None, None
        parts: list[bytes] = []
        encoding = encode_pausing(response, context.api_version, parts)
        try:
            for _ in encoding:
                if len(parts) > JOINED_PARTS:
                    return None, partial(self._encoded_long, context, response, encoding, parts)
        except (ProtocolError, *UNENCODABLE) as error:
            raise _response_error(response, context, error) from error
        self._count_errors(context, response)
        if context.has_denials:
            context.tell_denials(each_error_code(response))
        body = b"".join(parts)
        return self._head(context, len(body)) + body, None

    async def _encoded_long(
        self, context: RequestContext, response: msgspec.Struct, encoding: Pausing[None], parts: list[bytes]
    ) -> Answer | None:
        """None if the client is gone."""
        pieces: list[Buffer] = []
        try:
            for _ in encoding:
                if len(parts) > JOINED_PARTS:
                    if context.reply.is_closed:
                        return None
                    pieces.append(b"".join(parts))
                    parts.clear()
                await context.pause(ELEMENTS_BETWEEN_PAUSES)
        except (ProtocolError, *UNENCODABLE) as error:
            raise _response_error(response, context, error) from error
        pieces.append(b"".join(parts))
        if self.timer is not None or context.has_denials:
            codes, told = each_error_code(response), dict[int, None]()
            while some := list(islice(codes, CODES_BETWEEN_PAUSES)):
                if self.timer is not None:
                    self._entries[context.api_key].stats.count_codes(some)
                told |= dict.fromkeys(some)
                await context.pause()
            context.tell_denials(told)
        return [self._head(context, sum(map(len, pieces))), *pieces]

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs `work` concurrently with the connections; `close` cancels it."""
        self._tasks.spawn(work)

    def close(self) -> None:
        """Cancels the waiting handlers; their requests get no answer."""
        self._tasks.cancel()

    def _unforeseen(self, connection: Reply, name: str, error: Exception) -> None:
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
        """Requests by API name since the start, for the metric of every handler."""
        return {entry.name: entry.stats.count for entry in self._entries.values()}

    def request_stats(self) -> dict[int, RequestStats]:
        """The statistics of each served API, by API key."""
        return {key: entry.stats for key, entry in self._entries.items()}

    def fetch_stats(self) -> tuple[RequestStats, RequestStats]:
        """The fetches of consumers and those of followers; errors are counted for all together."""
        entry = self._entries.get(FETCH_KEY)
        consumers, replicas = self._fetches_of_consumers, self._fetches_of_replicas
        if entry is not None:
            consumers.count_rest(entry.stats, replicas)
        return consumers, replicas


def _itself(work: Awaitable[Answer | None]) -> Awaitable[Answer | None]:
    return work


def _response_error(response: msgspec.Struct, context: RequestContext, error: Exception) -> ResponseError:
    return ResponseError(f"{type(response).__name__} v{context.api_version}: {error}")


def _abandon(context: RequestContext, task: asyncio.Task[None]) -> None:
    if not context.runs_to_end:
        task.cancel()
