"""The context of a request for its handler: client, address, listener, version."""

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
    """Decides whether `principal` at `host` may do `operation` on a resource. A cluster without ACLs has no
    authorizer."""

    def authorize(self, principal: str, host: str, operation: int, resource_type: int, name: str | bytes) -> bool:
        """Whether the principal may do this operation to this resource. Numbers are those of the protocol (KIP-11)."""

    def authorize_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether the principal may do this operation to any resource of this kind (KIP-679)."""


class Quotas(Protocol):
    """Decides how long a client must wait for its usage. A dispatcher has it while any client has a quota."""

    @property
    def in_force(self) -> bool:
        """Whether any client has a quota."""

    def throttle_ms(self, principal: str, client_id: str, api_key: int, size: int) -> int:
        """Charges a request of `size` bytes; returns how long its client should wait before the next one, in ms."""

    def handled(self, principal: str, client_id: str, elapsed_ns: int) -> None:
        """Charges the time that the loop spent on a request (`request_percentage`)."""

    def max_fetch_bytes(self, principal: str, client_id: str) -> int | None:
        """The bytes that a fetch may return now; None: no quota."""

    def mutation_quota(self, principal: str, client_id: str, *, is_strict: bool) -> MutationQuota | None:
        """The quota for creating and deleting partitions (KIP-599); None: no quota."""


class ForAllRequests(Protocol):
    """Shared by all requests of a node; the dispatcher implements it."""

    audit: Audit | None
    authorizer: Authorizer | None
    quotas: Quotas | None
    pauses: Pauses

    def handler_of(self, api_key: int) -> Handler:
        """The handler of an API on this listener; it gets decoded requests. Raises KeyError."""

    def serve_long(self, context: RequestContext, frame: memoryview, position: int) -> PendingResponse:
        """Decodes, handles and encodes a long request, with pauses."""

    def fetched_by_replica(self, context: RequestContext) -> None:
        """Counts a fetch as a follower's, not a consumer's."""

    def answer_later(self, context: RequestContext, work: Work, *, may_produce_begin: bool = False) -> PendingResponse:
        """Continues work that has waited for the first time; the answer follows when it ends."""


MAX_DENIALS = 100
"""Maximum number of denials of one request that are logged."""
_RAW = (int(ApiKey.PRODUCE), int(ApiKey.FETCH))

Work = Callable[[], "Awaitable[Answer | None]"]
Handler = Callable[["RequestContext", Any], Coroutine[Any, Any, Any]]
Response = TypeVar("Response", bound=msgspec.Struct)
Result = TypeVar("Result")


def throttled(response: Response, throttle_time_ms: int) -> Response:
    """`response` with its `throttle_time_ms` set, for code without knowledge of quotas."""
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
    """The context of one request. Lives as long as its handler; holds no view of the receive buffer. A Struct, because
    one is made for each request, in a third of the time of another class."""

    _node: ForAllRequests
    reply: Reply
    session: Session
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    runs_to_end: bool = False
    """The request has changed something or asked for a decision: it continues even if its client is gone."""
    is_of_replica: bool = False
    """A follower's fetch: known once the request is decoded."""
    request_bytes: int = 0
    """Of the frame, if it came through `serve_long`."""
    _room: LongRoom | None = None
    _things: int = 0
    _made: list[Any] | None = None
    _denials: list[tuple[Right, str | bytes]] | None = None
    """The denied rights, if an audit log exists: logged if the answer reports the denial."""
    is_handed_on: bool = False
    """The controller of another node answers and writes its audit log."""
    about: str = ""
    """The name for the audit log of a thing that the request names by a secret."""

    @property
    def local_address(self) -> tuple[str, int] | None:
        """Our end of the connection: an address at which this client reaches us."""
        return self.reply.local_address

    def pause(self, things: int = 1) -> Awaitable[None]:
        """Await it after handling `things` of a request (a few microseconds each), so a request that names many lets
        others run. Do not call it in the middle of a change that others must not see half done."""
        self._things += things
        pauses = self._node.pauses
        return pauses.pause(things) if self._things > SHORT_WORK_THINGS else pauses.nothing

    @overload
    def wait(self, condition: Awaitable[Result]) -> Awaitable[Result]: ...

    @overload
    def wait(self, condition: asyncio.Future[Result], deadline_s: float) -> Awaitable[Result]: ...

    def wait(self, condition: Any, deadline_s: float | None = None) -> Awaitable[Any]:
        """Await it to wait for the broker's work or decision. From then on the request runs to its end, even if its
        client is gone.

        With a deadline (in the loop's time) `condition` must be a future that nobody else awaits: REQUEST_TIMED_OUT is
        raised in time.
        """
        self.runs_to_end = True
        return cast("Awaitable[Any]", condition) if deadline_s is None else _in_time(condition, deadline_s)

    def run_to_end(self) -> None:
        """Call it before the first change in a handler that pauses."""
        self.runs_to_end = True

    def fetched_by_replica(self) -> None:
        """A follower has sent this fetch: the metrics separate followers and consumers."""
        self.is_of_replica = True
        self._node.fetched_by_replica(self)

    def finish(self, work: Pausing[Result]) -> Awaitable[Result]:
        """Await it: does all of `work`, with pauses, and keeps a long result."""
        return self._node.pauses.finish(work, made=self._made)

    def keep_all(self, room: LongRoom) -> list[Any]:
        """From now on the results of `finish` and the values of `keep` are kept in this list, because the request may
        be long; the code that frees the request bit by bit frees them too. `room`: the memory of the request."""
        self._room = room
        self._made = []
        return self._made

    def keep(self, value: Result) -> Result:
        """Returns `value`, which another module made for this request only and which may be long."""
        if self._made is not None:
            self._made.append(value)
        return value

    def holds_values(self, byte_count: int) -> None:
        """Call it before the request waits for others: `byte_count` bytes are values kept as received, whose share is
        released for other long requests."""
        if self._room is not None:
            self._room.holds_values(byte_count)

    def serve_long(self, frame: memoryview, position: int) -> PendingResponse:
        """The place of the answer from the `function_for_many` of a raw handler."""
        self.request_bytes = len(frame)
        return self._node.serve_long(self, frame, position)

    def answer_later(self, work: Work, *, may_produce_begin: bool = False) -> PendingResponse:
        """The place of the answer from `work` of a raw handler. `may_produce_begin`: see PendingResponse."""
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
        """Whether the principal has the right to any resource of its type; the resource need not exist."""
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
        """Produce and Fetch report every denial; for other requests, the answer shows whether the denial mattered."""
        if self.api_key in _RAW and self._node.audit is not None:
            self._node.audit.denied(self.origin(), self.api_key, right, name)
            return
        if self._denials is None:
            self._denials = []
        if len(self._denials) < MAX_DENIALS:
            self._denials.append((right, name))

    @property
    def has_denials(self) -> bool:
        """Whether `tell_denials` must be called with the error codes of the answer."""
        return self._denials is not None

    def tell_denials(self, codes: Iterable[int]) -> None:
        """Writes to the audit log the denials that the answer reports. `codes`: the answer's error codes."""
        denials, self._denials = self._denials, None
        audit = self._node.audit
        if denials is None or audit is None:
            return
        told = dict.fromkeys(codes)
        for right, name in denials:
            if right.refusal in told:
                audit.denied(self.origin(), self.api_key, right, name)

    def origin(self) -> Origin:
        """The client, for the audit log."""
        who = self.session
        return Origin(who.principal, who.client_address, who.listener_name, self.client_id)

    def hand_on(self) -> None:
        """The controller of another node answers."""
        self.is_handed_on = True

    def concerns(self, name: str) -> None:
        """The request names a thing by a secret: the audit log uses `name` for it."""
        self.about = name

    def check(self, right: Right) -> None:
        """Raises CLUSTER_AUTHORIZATION_FAILED for a principal without this right to the cluster."""
        if not self.authorize(right):
            raise kafka_error("CLUSTER_AUTHORIZATION_FAILED", "Cluster authorization failed.")

    def authorized_operations(self, rights: Sequence[Right], name: str = CLUSTER_NAME) -> int:
        """The principal's rights to `name`, as bits by operation code (KIP-430). As in Kafka, a client that may not
        describe the resource gets none."""
        if not any(self.authorize(right, name) for right in rights if right.operation == DESCRIBE):
            return 0
        return sum(1 << right.operation for right in rights if self.authorize(right, name))

    def throttle(self, size: int = 0, mutation_ms: int = 0) -> int:
        """The milliseconds that the client must wait after this request: the answer reports them and is sent at once,
        and the next request does not begin earlier. Call it once. `size`: bytes of a produce request or of a fetch's
        answer; `mutation_ms`: the controller's delay for created or deleted partitions."""
        if self._node.quotas is None:
            return 0
        throttle_ms = self._node.quotas.throttle_ms(self.session.principal, self.client_id, self.api_key, size)
        throttle_ms = max(throttle_ms, mutation_ms)
        if throttle_ms:
            self.reply.mute(throttle_ms)
        return throttle_ms

    def max_fetch_bytes(self) -> int | None:
        """The most that an answer to a fetch may hold under the client's quota; None without one."""
        if self._node.quotas is None:
            return None
        return self._node.quotas.max_fetch_bytes(self.session.principal, self.client_id)

    def mutation_quota(self, strict_from: int) -> MutationQuota | None:
        """The quota of a request that creates or deletes partitions: from version `strict_from` on, a request over it
        is rejected; earlier versions are only throttled (KIP-599)."""
        if self._node.quotas is None:
            return None
        is_strict = self.api_version >= strict_from
        return self._node.quotas.mutation_quota(self.session.principal, self.client_id, is_strict=is_strict)

    def forwarded(self, header: RequestHeader, session: Session, quota: MutationQuota | None) -> ForwardedContext:
        """The context of the request inside this one, an Envelope (KIP-590)."""
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
    """The context of a request that a broker forwards. That broker throttles its client."""

    _quota: MutationQuota | None = None

    def handle(self, request: msgspec.Struct) -> Awaitable[msgspec.Struct]:
        """Await it: the answer of the listener's handler for this API."""
        return self._node.handler_of(self.api_key)(self, request)

    def origin(self) -> Origin:
        """The client's origin, with the broker that forwards its request."""
        return msgspec.structs.replace(super().origin(), forwarded_by=self.reply.session.client_address)

    def audited(self, request: msgspec.Struct, response: msgspec.Struct) -> Pausing[None]:
        """Writes to the audit log the changes and denials of the request."""
        if self._node.audit is None:
            return
        if self.has_denials:
            self.tell_denials(each_error_code(response))
        yield from self._node.audit.changed(self.origin(), self.api_key, request, response, self.about)

    def throttle(self, size: int = 0, mutation_ms: int = 0) -> int:
        """How long the controller wants the client to wait, for the answer."""
        return mutation_ms

    def max_fetch_bytes(self) -> int | None:
        """None: fetches are not forwarded."""
        return None

    def mutation_quota(self, strict_from: int) -> MutationQuota | None:
        """The controller's quota for the client."""
        return self._quota
