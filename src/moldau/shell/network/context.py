"""What a handler knows of the request besides its body: who asks, from where, on which listener, in which version."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, overload

import msgspec

from moldau.core.auditing.lines import Origin
from moldau.errors import kafka_error
from moldau.shell.network.first_step import SHORT_WORK_THINGS
from moldau.shell.network.rights import CLUSTER_NAME, DESCRIBE, Right
from moldau.types import Pausing
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.error_codes import each_error_code

if TYPE_CHECKING:
    from moldau.core.quotas.usage import MutationQuota
    from moldau.shell.network.audit import Audit
    from moldau.shell.network.bounds import LongRoom
    from moldau.shell.network.pauses import Pauses
    from moldau.shell.network.pending_response import Answer, PendingResponse
    from moldau.shell.network.reply import Reply
    from moldau.shell.network.session import Session
    from moldau.wire.protocol.headers import RequestHeader


class Authorizer(Protocol):
    """Decides whether `principal` at `host` may do `operation` to a resource. A cluster without ACLs has none."""

    def authorize(self, principal: str, host: str, operation: int, resource_type: int, name: str | bytes) -> bool:
        """Whether the principal may do this operation to this resource. Numbers are those of the protocol (KIP-11)."""

    def authorize_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether the principal may do this operation to any resource of this kind (KIP-679)."""


class Quotas(Protocol):
    """Decides how long a client has to wait for what it used. A dispatcher has it while any client has a quota."""

    @property
    def in_force(self) -> bool:
        """Whether any client has a quota."""

    def throttle_ms(self, principal: str, client_id: str, api_key: int, size: int) -> int:
        """Charges a request of `size` bytes; how long its client should wait before the next one, in ms."""

    def handled(self, principal: str, client_id: str, elapsed_ns: int) -> None:
        """Charges the time that the loop spent on a request (`request_percentage`)."""

    def max_fetch_bytes(self, principal: str, client_id: str) -> int | None:
        """How many bytes a fetch may give now; None: no quota."""

    def mutation_quota(self, principal: str, client_id: str, *, is_strict: bool) -> MutationQuota | None:
        """Where creations and deletions of partitions are charged (KIP-599); None: no quota."""


class ForAllRequests(Protocol):
    """What all requests of a node share: the dispatcher has it."""

    audit: Audit | None
    authorizer: Authorizer | None
    quotas: Quotas | None
    pauses: Pauses

    def handler_of(self, api_key: int) -> Handler:
        """The handler of an API that this listener serves; it gets decoded requests. Raises KeyError."""

    def serve_long(self, context: RequestContext, frame: memoryview, position: int) -> PendingResponse:
        """Decodes, handles and encodes a request that is long to decode, with pauses."""

    def fetched_by_replica(self, context: RequestContext) -> None:
        """Counts a fetch that a follower has sent, not a consumer."""

    def answer_later(self, context: RequestContext, work: Work, *, may_produce_begin: bool = False) -> PendingResponse:
        """Goes on with work that has waited for the first time; the answer comes when it is done."""


MAX_DENIALS = 100
"""Of one request that are told."""
_RAW = (int(ApiKey.PRODUCE), int(ApiKey.FETCH))

Work = Callable[[], "Awaitable[Answer | None]"]
Handler = Callable[["RequestContext", Any], Coroutine[Any, Any, Any]]
Response = TypeVar("Response", bound=msgspec.Struct)
Result = TypeVar("Result")


def throttled(response: Response, throttle_time_ms: int) -> Response:
    """`response`, made by code that knows nothing of quotas, with its `throttle_time_ms` set."""
    if not throttle_time_ms:
        return response
    return msgspec.structs.replace(response, throttle_time_ms=throttle_time_ms)


async def _in_time(condition: asyncio.Future[Result], deadline_s: float) -> Result:
    timer = asyncio.get_running_loop().call_at(deadline_s, _time_out, condition)
    try:
        return await condition
    finally:
        timer.cancel()


def _time_out(condition: asyncio.Future[Any]) -> None:
    if not condition.done():
        condition.set_exception(kafka_error("REQUEST_TIMED_OUT"))


class RequestContext(msgspec.Struct, eq=False):
    """One request's surroundings. Lives as long as its handler; holds no view of the receive buffer. A Struct, because
    one is made for each request: that takes a third of the time of another class."""

    _node: ForAllRequests
    reply: Reply
    session: Session
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    runs_to_end: bool = False
    """The request has changed something, or asked for a decision: it goes on although its client is gone."""
    is_of_replica: bool = False
    """A fetch that a follower has sent: known once the request is decoded."""
    request_bytes: int = 0
    """Of the frame, where it came through `serve_long`."""
    _room: LongRoom | None = None
    _things: int = 0
    _made: list[Any] | None = None
    _denials: list[tuple[Right, str | bytes]] | None = None
    """What the principal was denied, where there is an audit log: told if the answer refuses for it."""
    is_handed_on: bool = False
    """The controller of another node answers, and writes its audit log."""
    about: str = ""
    """The name, for the audit log, of what the request names by a secret."""

    @property
    def local_address(self) -> tuple[str, int] | None:
        """Our end of the connection: an address under which this client reaches us."""
        return self.reply.local_address

    def pause(self, things: int = 1) -> Awaitable[None]:
        """To be awaited behind `things` that the request names and that are done (a few microseconds each): a request
        that names many lets others run. Not within what nobody else may see half done."""
        self._things += things
        pauses = self._node.pauses
        return pauses.pause(things) if self._things > SHORT_WORK_THINGS else pauses.nothing

    @overload
    def wait(self, condition: Awaitable[Result]) -> Awaitable[Result]: ...

    @overload
    def wait(self, condition: asyncio.Future[Result], deadline_s: float) -> Awaitable[Result]: ...

    def wait(self, condition: Any, deadline_s: float | None = None) -> Awaitable[Any]:
        """The other wait of a handler, to be awaited: for what the broker does or decides for it. From then on the
        request runs to its end, also when its client is gone.

        With a deadline (of the loop's time) `condition` is a future that nobody else awaits: REQUEST_TIMED_OUT is
        raised in time.
        """
        self.runs_to_end = True
        return cast("Awaitable[Any]", condition) if deadline_s is None else _in_time(condition, deadline_s)

    def run_to_end(self) -> None:
        """To be called before a handler that pauses changes the first thing."""
        self.runs_to_end = True

    def fetched_by_replica(self) -> None:
        """A follower has sent this fetch: the metrics show those of followers and of consumers apart."""
        self.is_of_replica = True
        self._node.fetched_by_replica(self)

    def finish(self, work: Pausing[Result]) -> Awaitable[Result]:
        """To be awaited: does all of `work`, with pauses, and keeps what a long one gives."""
        return self._node.pauses.finish(work, made=self._made)

    def keep_all(self, room: LongRoom) -> list[Any]:
        """From now on what `finish` gives is kept in this list, with what is put into `keep`: the request may be long,
        and the code that frees the request, bit by bit, frees these as well. `room`: what the request takes in
        memory."""
        self._room = room
        self._made = []
        return self._made

    def keep(self, value: Result) -> Result:
        """Gives `value`, which somebody else made for this request alone, and which may be long."""
        if self._made is not None:
            self._made.append(value)
        return value

    def holds_values(self, byte_count: int) -> None:
        """To be called before the request waits for others: so many bytes of it are values that are kept as they came,
        which leaves room for other long requests."""
        if self._room is not None:
            self._room.holds_values(byte_count)

    def serve_long(self, frame: memoryview, position: int) -> PendingResponse:
        """The place of the answer that the `function_for_many` of a raw handler gives."""
        self.request_bytes = len(frame)
        return self._node.serve_long(self, frame, position)

    def answer_later(self, work: Work, *, may_produce_begin: bool = False) -> PendingResponse:
        """The place of the answer that `work` of a raw handler gives. `may_produce_begin`: see PendingResponse."""
        return self._node.answer_later(self, work, may_produce_begin=may_produce_begin)

    def authorize(self, right: Right, name: str | bytes = CLUSTER_NAME) -> bool:
        """Whether the principal has the right to the resource `name` (may be utf-8 bytes on hot paths)."""
        if self._node.authorizer is None:
            return True
        who = self.session
        is_allowed = self._node.authorizer.authorize(
            who.principal, who.client_address, right.operation, right.resource_type, name
        )
        if not is_allowed and self._node.audit is not None:
            self._deny(right, name)
        return is_allowed

    def authorize_any(self, right: Right) -> bool:
        """Whether the principal has the right to any resource of its kind; the resource need not exist."""
        if self._node.authorizer is None:
            return True
        who = self.session
        is_allowed = self._node.authorizer.authorize_any(
            who.principal, who.client_address, right.operation, right.resource_type
        )
        if not is_allowed and self._node.audit is not None:
            self._deny(right, "*")
        return is_allowed

    def _deny(self, right: Right, name: str | bytes) -> None:
        """Produce and Fetch refuse whatever they are denied; of other requests the answer tells whether it mattered."""
        if self.api_key in _RAW and self._node.audit is not None:
            self._node.audit.denied(self.origin(), self.api_key, right, name)
            return
        if self._denials is None:
            self._denials = []
        if len(self._denials) < MAX_DENIALS:
            self._denials.append((right, name))

    @property
    def has_denials(self) -> bool:
        """Whether `tell_denials` is to be called with the error codes of the answer."""
        return self._denials is not None

    def tell_denials(self, codes: Iterable[int]) -> None:
        """Writes to the audit log what was denied, as far as the answer refuses for it. `codes`: of the answer."""
        denials, self._denials = self._denials, None
        audit = self._node.audit
        if denials is None or audit is None:
            return
        told = dict.fromkeys(codes)
        for right, name in denials:
            if right.refusal in told:
                audit.denied(self.origin(), self.api_key, right, name)

    def origin(self) -> Origin:
        """Who asks, for the audit log."""
        who = self.session
        return Origin(who.principal, who.client_address, who.listener_name, self.client_id)

    def hand_on(self) -> None:
        """The controller of another node answers."""
        self.is_handed_on = True

    def concerns(self, name: str) -> None:
        """The request names a thing by a secret: `name` is what the audit log calls it."""
        self.about = name

    def check(self, right: Right) -> None:
        """Raises CLUSTER_AUTHORIZATION_FAILED for a principal without this right to the cluster."""
        if not self.authorize(right):
            raise kafka_error("CLUSTER_AUTHORIZATION_FAILED", "Cluster authorization failed.")

    def authorized_operations(self, rights: Sequence[Right], name: str = CLUSTER_NAME) -> int:
        """The rights that the principal has to `name`, as bits by the code of their operation (KIP-430). As in Kafka
        none is told to a client that may not describe it."""
        if not any(self.authorize(right, name) for right in rights if right.operation == DESCRIBE):
            return 0
        return sum(1 << right.operation for right in rights if self.authorize(right, name))

    def throttle(self, size: int = 0, mutation_ms: int = 0) -> int:
        """The milliseconds that the client has to wait after this request: the answer tells them and goes at once, the
        next request is not begun before. To be asked once. `size`: bytes of a produce request, of a fetch's answer;
        `mutation_ms`: what the controller wants it to wait for the partitions that it created or deleted."""
        if self._node.quotas is None:
            return 0
        throttle_ms = self._node.quotas.throttle_ms(self.session.principal, self.client_id, self.api_key, size)
        throttle_ms = max(throttle_ms, mutation_ms)
        if throttle_ms:
            self.reply.mute(throttle_ms)
        return throttle_ms

    def max_fetch_bytes(self) -> int | None:
        """The most that an answer to a fetch may hold by the client's quota; None without one."""
        if self._node.quotas is None:
            return None
        return self._node.quotas.max_fetch_bytes(self.session.principal, self.client_id)

    def mutation_quota(self, strict_from: int) -> MutationQuota | None:
        """What a request that creates or deletes partitions is held to; refused over it from version `strict_from` on,
        only throttled before (KIP-599)."""
        if self._node.quotas is None:
            return None
        is_strict = self.api_version >= strict_from
        return self._node.quotas.mutation_quota(self.session.principal, self.client_id, is_strict=is_strict)

    def forwarded(self, header: RequestHeader, session: Session, quota: MutationQuota | None) -> ForwardedContext:
        """Of the request that this one, an Envelope, holds (KIP-590)."""
        return ForwardedContext(
            self._node,
            self.reply,
            session,
            header.api_key,
            header.api_version,
            header.correlation_id,
            header.client_id or "",
            _room=self._room,
            _made=self._made,
            _quota=quota,
        )


class ForwardedContext(RequestContext, eq=False):
    """The surroundings of a request that a broker forwards. That broker throttles its client."""

    _quota: MutationQuota | None = None

    def handle(self, request: msgspec.Struct) -> Awaitable[msgspec.Struct]:
        """To be awaited: the answer of the handler that serves this API on the listener."""
        return self._node.handler_of(self.api_key)(self, request)

    def origin(self) -> Origin:
        """As the client's, with the broker that hands its request on."""
        return msgspec.structs.replace(super().origin(), forwarded_by=self.reply.session.client_address)

    def audited(self, request: msgspec.Struct, response: msgspec.Struct) -> Pausing[None]:
        """Writes to the audit log what the request changed, and what was denied."""
        if self._node.audit is None:
            return
        if self.has_denials:
            self.tell_denials(each_error_code(response))
        yield from self._node.audit.changed(self.origin(), self.api_key, request, response, self.about)

    def throttle(self, size: int = 0, mutation_ms: int = 0) -> int:
        """What the answer tells: how long the controller wants the client to wait."""
        return mutation_ms

    def max_fetch_bytes(self) -> int | None:
        """None: fetches are not forwarded."""
        return None

    def mutation_quota(self, strict_from: int) -> MutationQuota | None:
        """What the client is held to by the controller."""
        return self._quota
