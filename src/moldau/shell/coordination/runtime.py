"""Drives one log-backed machine: the group coordinators, the controller, and later machines.

    load:    fold the log, with pauses; then the machine makes the decisions that follow from loading
    submit:  decide -> append -> apply -> flushed or replicated -> committed -> the replies

Requests, timers and new metadata are decided one at a time, in order of arrival. A decision that may name many things
pauses between its steps, and later ones wait for it in a bounded queue. A reply is sent when the records that it
depends on are committed, which may be at once.

Failures, from the least to the most severe:
- the machine or the log (too large, no space) rejects the request, or a value cannot be written: the request gets that
  error, nothing has changed, and the next one is decided;
- an unexpected exception: it is logged, the request gets UNKNOWN_SERVER_ERROR, and the machine continues;
- a record of the log cannot be read or applied: the shard stops, and every request gets COORDINATOR_NOT_AVAILABLE;
- the device fails: the owner is called, and closes the runtime with an error for every request;
- a broken invariant stops the node.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Generic, Protocol, TypeVar

from moldau.core.coordination.host import CoordinatorHost, LoadedRecord, LoadedTransactionEnd
from moldau.core.coordination.machine import (
    NO_REQUEST_ID,
    Counts,
    Decision,
    Now,
    Record,
    Request,
    Response,
    State,
    Timer,
)
from moldau.core.metadata.image import MetadataDelta, MetadataImage
from moldau.errors import (
    InvariantError,
    KafkaError,
    MoldauError,
    ProtocolError,
    StorageFailedError,
    StorageFullError,
    kafka_error,
)
from moldau.ports import Clock
from moldau.shell.network.first_step import SHORT_WORK_THINGS, Ended, begun
from moldau.types import Buffer, Pausing

MAX_QUEUED = 10_000
"""Requests that may wait for a load or a long decision; any above it are rejected with REQUEST_TIMED_OUT, which clients
retry."""

_Record = TypeVar("_Record")
Result = TypeVar("Result")
Decide = Callable[..., Decision[Any, Any, Any] | Pausing[Decision[Any, Any, Any]]]
Fold = Callable[[Iterable[LoadedRecord[Any] | LoadedTransactionEnd]], Awaitable[bool]]


class LongWork(Protocol):
    """The node's pauses for a machine (`shell/network/pauses.py`)."""

    async def pause(self, things: int = 1) -> None:
        """Lets others run once the time for long work in this turn of the loop is used. `things`: number done since the
        last pause."""

    async def finish(self, work: Pausing[Result]) -> Result:
        """Runs the generator to its end, with pauses, and returns its result."""


class MachineLog(Protocol[_Record]):
    """The log of one machine, as its owner keeps it."""

    @property
    def end_offset(self) -> int:
        """The log end offset, which the next record gets."""
        ...

    @property
    def high_watermark(self) -> int:
        """The offset below which records are committed: replies that depend on lower offsets may be sent."""
        ...

    def encode(self, decision: Decision[Any, Any, _Record], now: Now) -> Pausing[bytearray]:
        """One batch. Raises MoldauError for values that cannot be written."""

    def append(self, batch: Buffer, now: Now) -> int:
        """Returns the last offset. If it raises KafkaError, StorageFullError or StorageFailedError, the log is
        unchanged."""

    def applied(self, records: tuple[_Record, ...], counts: Counts) -> None:
        """The appended records are applied to the state: the owner flushes them, calls `committed` as they become
        durable, and counts `counts`."""

    def failed(self, error: StorageFailedError) -> None:
        """The device failed."""

    def stopped(self, reason: str) -> None:
        """The shard stops deciding."""

    def unforeseen(self, error: Exception) -> None:
        """A bug of ours; its request was already rejected."""


class MachineRuntime(Generic[State, Request, Response, Record]):
    """One shard, on one loop. `spawn` runs a long decision, and stops the node if it breaks an invariant."""

    def __init__(
        self,
        host: CoordinatorHost[State, Request, Response, Record],
        log: MachineLog[Record],
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        pauses: LongWork,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self.host = host
        self.loading: asyncio.Future[None] | None = loop.create_future()
        """Done when the log is folded; None from then on."""
        self.closed: KafkaError | None = None
        """The error for every request since the runtime was closed."""
        self._log = log
        self._loop = loop
        self._clock = clock
        self._pauses = pauses
        self._spawn = spawn
        self._last_request_id = 0
        self._waiting: dict[int, asyncio.Future[Response]] = {}
        self._submitting_id = 0
        """Id of the request being submitted; 0: none."""
        self._reply: Response | MoldauError | None = None
        """The reply to that request."""
        self._loading_waiters = 0
        self._is_working = False
        """A paused decision, or requests that arrived during it, are in progress."""
        self._queued: deque[tuple[Any, ...]] = deque()
        """Arguments of `_handle`."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_deadline_ms = 0

    @property
    def waiting_count(self) -> int:
        """The number of unanswered requests."""
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Whether a submitted request is decided at once: nothing waits before it."""
        return self.loading is None and not self._is_working

    # -- loading

    async def load(self, replay: Callable[[Fold], Awaitable[None]], image: MetadataImage, contents: str) -> None:
        """Folds the whole log, which `replay` yields in order and in parts until `fold` returns False; then calls
        `begin`. `contents`: a word for the data of the machine.

        `replay` raises ProtocolError and KafkaError, with the place, for unreadable data. Waiting requests get the
        error; it is raised only if it is a bug of ours.
        """
        try:
            await replay(self._fold)
        except (KafkaError, ProtocolError) as error:
            # groups whose commits are after the damage would start again, and their new commits would hide it
            place = self.host.topic_partition
            self.host.stop(f"{place} cannot be loaded, its {contents} are not served: {error}")
        except Exception as error:
            if isinstance(error, StorageFailedError):
                # otherwise nobody would know: a loading shard appends nothing
                self._log.failed(error)
            self._end_loading(kafka_error("COORDINATOR_NOT_AVAILABLE", str(error)))
            if isinstance(error, InvariantError) or not isinstance(error, MoldauError):
                raise
            return
        if self.closed is None:
            self._tell_if_stopped()
            self.begin(image)

    async def _fold(self, items: Iterable[LoadedRecord[Any] | LoadedTransactionEnd]) -> bool:
        for item in items:
            for _ in self.host.replay(item):
                await self._pauses.pause()
                if self.closed is not None:  # its state has been dropped already
                    return False
        return self.host.stopped is None and self.closed is None

    def begin(self, image: MetadataImage) -> None:
        """The log is folded, or empty: decides the loaded state, and then the requests that arrived meanwhile."""
        loading, self.loading = self.loading, None
        host, log = self.host, self._log
        if host.stopped is None:
            host.advance_to(log.end_offset)
        host.committed(log.high_watermark)
        self._begin(None, NO_REQUEST_ID, host.machine.decide_loaded, image)
        while self._queued and not self._is_working:
            self._begin(*self._queued.popleft())
        if loading is not None and not loading.done():
            loading.set_result(None)

    # -- deciding

    async def ask(self, request: Request) -> Response:
        """The response, once the log is loaded and the decision committed; decided in the first step unless the log is
        being loaded. Raises MoldauError."""
        await self.loaded()
        answer = self.submit(request)
        return await answer if isinstance(answer, asyncio.Future) else answer

    async def loaded(self) -> None:
        """Returns when the log is folded, at once unless it is being loaded. Raises MoldauError."""
        while self.loading is not None:
            if self._loading_waiters >= MAX_QUEUED:
                raise kafka_error("REQUEST_TIMED_OUT")
            self._loading_waiters += 1
            try:
                await asyncio.shield(self.loading)
            finally:
                self._loading_waiters -= 1

    def submit(self, request: Request) -> Response | asyncio.Future[Response]:
        """Decides `request` now, unless others wait before it: returns the response if it is complete, else a future of
        it. Raises MoldauError, now or through the future."""
        if self.closed is not None:
            self._check_open()
        if len(self._queued) >= MAX_QUEUED:
            raise kafka_error("REQUEST_TIMED_OUT")
        self._submitting_id = self._last_request_id = request_id = self._last_request_id + 1
        self._begin(None, request_id, self.host.machine.decide, request_id, request)
        self._submitting_id = 0
        reply, self._reply = self._reply, None
        if reply is None:
            future: asyncio.Future[Response] = self._loop.create_future()
            self._waiting[request_id] = future
            return future
        if isinstance(reply, MoldauError):
            try:
                raise reply
            finally:
                # otherwise the error and this frame keep each other alive, and with them the caller's view of the
                # receive buffer
                del reply
        return reply

    def _check_open(self) -> None:
        if self.closed is not None:
            raise kafka_error(self.closed.code, self.closed.message)

    def metadata_changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Passes a new metadata image to the machine."""
        if self.closed is None:
            self._begin(None, NO_REQUEST_ID, self.host.machine.decide_metadata, image, delta)

    def _begin(self, timer: Timer[Request] | None, request_id: int, decide: Decide, *asked: Any) -> None:
        """Decides `asked` at once, or after the requests before it."""
        if self._is_working or self.loading is not None:
            self._queued.append((timer, request_id, decide, *asked))
            return
        work = self._handle(timer, request_id, decide, *asked)
        for things, _ in enumerate(work):
            if things == SHORT_WORK_THINGS:
                break
        else:
            self._arm_timer()
            return
        step = begun(self._pauses.finish(self._until_closed(work)))
        if isinstance(step, Ended):
            self._arm_timer()
        else:
            self._is_working = True
            self._spawn(self._work(step))

    async def _work(self, work: Awaitable[None]) -> None:
        """Finishes a long decision, then handles the requests that arrived meanwhile."""
        try:
            while True:
                await work
                await self._pauses.pause()  # many short ones are long, too
                if not self._queued:
                    return
                work = self._pauses.finish(self._until_closed(self._handle(*self._queued.popleft())))
        finally:
            self._is_working = False
            self._arm_timer()

    def _until_closed(self, work: Pausing[None]) -> Pausing[None]:
        """`work`, which stops once the runtime is closed: the state then belongs to its owner."""
        for _ in work:
            yield
            if self.closed is not None:
                return

    def _handle(self, timer: Timer[Request] | None, request_id: int, decide: Decide, *asked: Any) -> Pausing[None]:
        """One decision, until it is in the log and in the state."""
        host, log = self.host, self._log
        if host.stopped is not None:
            self._deliver(((request_id, host.stopped_error()),))
            return
        now = Now(self._clock.monotonic_ms(), self._clock.now_ms())
        try:
            decision = decide(host.state, *asked, now)
            if not isinstance(decision, Decision):
                decision = yield from decision
        except Exception as error:
            self._deliver(((request_id, self._told(error)),))
            return
        replies = host.take(request_id, decision, now, timer)
        if replies is not None:
            self._deliver(replies)
            return
        try:
            batch = yield from log.encode(decision, now)
            if self.closed is not None:
                self._check_open()
            last_offset = log.append(batch, now)
        except Exception as error:
            self._deliver(host.append_failed(self._told(error)))
            if isinstance(error, StorageFailedError):
                log.failed(error)
                return
            for request in decision.if_refused:
                yield from self._handle(None, NO_REQUEST_ID, host.machine.decide, NO_REQUEST_ID, request)
            return
        self._deliver((yield from host.applying(last_offset)))
        log.applied(decision.records, decision.counts)
        self._tell_if_stopped()

    def _tell_if_stopped(self) -> None:
        if self.host.stopped is not None:
            self._log.stopped(self.host.stopped)

    def _told(self, error: Exception) -> MoldauError:
        """The error for a request that failed with `error`. Raises InvariantError."""
        if isinstance(error, InvariantError):
            raise error
        if isinstance(error, (StorageFullError, StorageFailedError)):
            return kafka_error("KAFKA_STORAGE_ERROR", str(error))
        if isinstance(error, MoldauError):
            return error
        self._log.unforeseen(error)
        return kafka_error("UNKNOWN_SERVER_ERROR")

    def committed(self, end_offset: int) -> None:
        """Everything below `end_offset` is durable: sends the replies that depend on it."""
        self._deliver(self.host.committed(end_offset))

    def abort(self) -> None:
        """Ends like a crash: no request gets an answer."""
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            future.cancel()
        self.close(kafka_error("NOT_COORDINATOR"))

    def drop(self, error: KafkaError) -> None:
        """Every waiting request gets `error`; the machine continues."""
        self.host.drop(error)
        self._deliver(tuple((request_id, error) for request_id in self._waiting))

    def _deliver(self, replies: tuple[tuple[int, Response | MoldauError], ...]) -> None:
        for request_id, reply in replies:
            if request_id == self._submitting_id:
                self._reply = reply
                continue
            future = self._waiting.pop(request_id, None)
            if future is None or future.done():
                continue
            if isinstance(reply, MoldauError):
                future.set_exception(reply)
            else:
                future.set_result(reply)

    # -- timers

    def _arm_timer(self) -> None:
        deadline_ms = self.host.next_deadline_ms()
        if self._timer is not None:
            if deadline_ms == self._timer_deadline_ms:
                return
            self._end_timer()
        if deadline_ms is not None and self.closed is None:
            self._timer_deadline_ms = deadline_ms
            delay_ms = max(0, deadline_ms - self._clock.monotonic_ms())
            self._timer = self._loop.call_later(delay_ms / 1000, self.fire)

    def _end_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def fire(self) -> None:
        """Decides the timer that has been due longest, and the next one in the next turn of the loop: long lists arrive
        in several decisions, all due at once."""
        self._end_timer()
        if self._is_working:
            return  # armed again when the long decision ends
        timer = self.host.due(self._clock.monotonic_ms())
        if timer is None:
            self._arm_timer()
        else:
            self._begin(timer, NO_REQUEST_ID, self.host.machine.decide, NO_REQUEST_ID, timer.request)

    # -- the end

    def close(self, error: KafkaError) -> None:
        """The log is gone, offline, or owned by another broker: nothing is decided any more, and waiting and new
        requests get `error`."""
        self.closed = error
        self._end_timer()
        self._end_loading(error)

    def _end_loading(self, error: KafkaError) -> None:
        self._queued.clear()
        self.drop(error)
        if self.loading is not None and not self.loading.done():
            self.loading.set_exception(error)
            self.loading.exception()
