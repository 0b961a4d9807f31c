"""Rounds of a consumer: poll, handle in one transaction with the ids or offsets, then commit the offsets.

Each partition's records are handled in the order of the client, and none is left out without a seek back to it. So the
committed offset never passes a record that is not handled, whatever raises."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from moldau.idempotent.blocking import settled
from moldau.idempotent.clients.port import Consuming, Producing
from moldau.idempotent.errors import MissingIdError, OffsetAheadError, PoisonRecordError
from moldau.idempotent.ids import add_id, expire, lock_offset, read_offset, reason_of, write_offset
from moldau.idempotent.records import ATTEMPT, DUE_MS, ID, MessageId, Partition, Record, by_position
from moldau.idempotent.retry import RetryTopic, due_ms, headers_of_copy, now_ms, origin_of, reason_text
from moldau.idempotent.sessions import Session

T = TypeVar("T")
Handler: TypeAlias = Callable[[Any, Record], Awaitable[None] | None]
"""Gets the connection of the driver, in an open transaction, and the record."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0
EXPIRY_S = 60.0
EXPIRED_AT_ONCE = 1000

_log = logging.getLogger("moldau.idempotent")


@dataclass(frozen=True)
class Settings:
    """What a consumer was made with; its class describes it."""

    name: str
    topics: tuple[str, ...]
    message_id: MessageId | None
    offsets: Literal["group", "database"]
    retry: RetryTopic | None
    max_records: int
    patience_s: float
    keep_ids: timedelta | None

    @property
    def id_of(self) -> MessageId | None:
        """None: no record needs an id, because the offset in the database says what is handled. Copies in a retry topic
        may be there twice, so they need one."""
        if self.message_id is None and (self.offsets == "group" or self.retry is not None):
            return by_position
        return self.message_id


class Waiting(Protocol):
    """How a program lets time pass."""

    async def pause(self, seconds: float) -> None:
        """Returns after this time, or when the consumer is stopped."""


class _FailedError(Exception):
    """A handler failed for a record. `is_final`: another try cannot succeed."""

    def __init__(self, record: Record, error: Exception, is_final: bool = False) -> None:
        super().__init__(str(error))
        self.record, self.error, self.is_final = record, error, is_final


class _RewoundError(Exception):
    """The database has an older offset than before: a standby without the last commits took over."""

    def __init__(self, place: Partition, offset: int) -> None:
        super().__init__(f"{place}: {offset}")
        self.place, self.offset = place, offset


class Handling:
    """One consumer. `is_async`: the client calls back from other tasks, which wait for the end of a round."""

    def __init__(
        self,
        settings: Settings,
        client: Consuming,
        session: Session,
        outlet: Producing | None,
        waiting: Waiting,
        is_async: bool,
    ) -> None:
        self._settings, self._client, self._session = settings, client, session
        self._outlet, self._waiting = outlet, waiting
        self._round: Any = asyncio.Lock() if is_async else nullcontext()
        self._left: deque[Record] = deque()
        """The records of this round that are not handled."""
        self._done: dict[Partition, int] = {}
        """Next offsets to commit."""
        self._kept: dict[Partition, int] = {}
        """Next offsets as this consumer last saw them in the database."""
        self._sought: dict[Partition, int] = {}
        """Where the client was told to start, until it gave a record of the partition."""
        self._not_due: dict[Partition, int] = {}
        """Paused partitions of the retry topic, with the time of their first record."""
        self._trouble: Exception | None = None
        self._expiry_s = 0.0
        client.subscribe(settings.topics, self)

    @property
    def _keeps_offsets(self) -> bool:
        return self._settings.offsets == "database"

    async def round(self, handle: Handler, timeout_s: float) -> int:
        """Handles the records of one poll; gives their number. Raises what cannot be handled: then the client stands at
        the first record that is not handled."""
        async with self._round:
            await self._resume_due()
            polled = await self._client.poll(self._poll_s(timeout_s), self._settings.max_records)
            self._left.extend(polled)
            try:
                if self._trouble is not None:
                    raise self._trouble
                await self._hold_what_is_not_due()
                count = len(self._left)
                if self._left:
                    await self._batch(list(self._left), handle)
            except _RewoundError as rewound:
                await self._rewind(rewound)
                count = 0
            finally:
                await self._seek_back()
                await self._commit()
            await self._expire_ids()
            return count

    async def on_assigned(self, places: Sequence[Partition]) -> Mapping[Partition, int]:
        """Gives the offsets that the database keeps."""
        if not self._keeps_offsets:
            return {}
        async with self._round:
            try:
                for place in places:
                    offset = await self._persistently(partial(self._read, place))
                    if offset is not None:
                        self._kept[place] = self._sought[place] = offset
            except Exception as error:  # a client may log it only; the round raises it
                self._trouble = error
            return {place: self._kept[place] for place in places if place in self._kept}

    async def on_revoked(self, places: Sequence[Partition]) -> None:
        """Commits what is done."""
        async with self._round:
            await self._commit()
            self._forget(places)

    async def on_lost(self, places: Sequence[Partition]) -> None:
        """The new owner's offset counts."""
        async with self._round:
            self._forget(places)

    def _forget(self, places: Sequence[Partition]) -> None:
        for place in places:
            for known in (self._done, self._kept, self._sought, self._not_due):
                known.pop(place, None)

    async def _read(self, place: Partition) -> int | None:
        async with self._session.transaction():
            return await read_offset(self._session, self._settings.name, place)

    # -- the retry topic's delays

    def _poll_s(self, timeout_s: float) -> float:
        first = min(self._not_due.values(), default=None)
        return timeout_s if first is None else min(timeout_s, max(0.0, (first - now_ms()) / 1000))

    async def _resume_due(self) -> None:
        now = now_ms()
        for place in [place for place, due in self._not_due.items() if due <= now]:
            del self._not_due[place]
            await self._client.resume(place)

    async def _hold_what_is_not_due(self) -> None:
        """Pauses partitions of the retry topic at their first record that is not due."""
        retry, now = self._settings.retry, now_ms()
        if retry is None:
            return
        firsts = {record.place: record for record in reversed(self._left) if due_ms_in(record, retry) > now}
        for place, first in firsts.items():
            self._not_due[place] = due_ms(first)
            await self._client.pause(place)
            await self._client.seek(place, first.offset)
        early = {place: first.offset for place, first in firsts.items()}
        kept = [record for record in self._left if record.offset < early.get(record.place, record.offset + 1)]
        self._left = deque(kept)

    # -- transactions

    async def _batch(self, batch: list[Record], handle: Handler) -> None:
        """All records in one transaction; one by one if one of them is poison."""
        try:
            await self._persistently(lambda: self._transact(batch, handle))
        except _FailedError as failed:
            if len(batch) > 1:
                for record in batch:
                    await self._batch([record], handle)
                return
            await self._divert(failed, handle)
        for record in batch:
            self._done[record.place] = record.offset + 1
            self._left.popleft()

    async def _transact(self, batch: Sequence[Record], handle: Handler) -> None:
        name = self._settings.name
        async with self._session.transaction() as connection:
            kept = await self._lock_offsets(batch)
            for record in batch:
                if record.offset >= kept.get(record.place, 0):
                    await self._one(connection, record, handle)
            ends = {record.place: record.offset + 1 for record in batch} if self._keeps_offsets else {}
            ends = {place: max(end, kept[place]) for place, end in ends.items()}
            for place, end in ends.items():
                await write_offset(self._session, name, place, end)
        self._kept.update(ends)
        for place in ends:
            self._sought.pop(place, None)

    async def _lock_offsets(self, batch: Sequence[Record]) -> dict[Partition, int]:
        """What is handled of each partition. The lock keeps other owners of the partition out until the commit."""
        if not self._keeps_offsets:
            return {}
        firsts = {record.place: record.offset for record in reversed(batch)}
        kept = {}
        for place in sorted(firsts):  # in one order, so that two consumers do not wait for each other
            offset = kept[place] = await lock_offset(self._session, self._settings.name, place, firsts[place])
            if self._kept.get(place, offset) > offset:
                raise _RewoundError(place, offset)
            if self._sought.get(place, 0) > firsts[place]:
                raise OffsetAheadError(
                    f"{place[0]}-{place[1]}: the database has offset {offset}, the partition gives {firsts[place]}. "
                    "Was the topic made again? Then delete its rows of moldau_offsets"
                )
        return kept

    async def _one(self, connection: Any, record: Record, handle: Handler) -> None:
        name, origin = self._settings.name, origin_of(record, self._settings.retry)
        id, is_missing = self._id(record)
        if id is not None and (is_missing or not await add_id(self._session, name, origin.topic, id)):
            reason = await reason_of(self._session, name, origin.topic, id)
            if reason is not None:  # also after a stop between the mark and the dead letter
                await self._bury(record, reason)
            elif is_missing:
                raise _FailedError(record, MissingIdError("the record has no message id"), is_final=True)
            return
        try:
            await settled(handle(connection, record))
        except Exception as error:
            if self._session.is_transient(error):
                raise
            raise _FailedError(record, error) from error
        self._session.check()

    def _id(self, record: Record) -> tuple[bytes | None, bool]:
        """The id, and whether the record should have one and has none: then its position stands for it."""
        origin = origin_of(record, self._settings.retry)
        if origin.id is not None or self._settings.id_of is None:
            return origin.id, False
        id = self._settings.id_of(record)
        return (id, False) if id is not None else (b"\0" + record.position, True)

    # -- poison records

    async def _divert(self, failed: _FailedError, handle: Handler) -> None:
        """To the retry topic, or to the dead letters: first the database says that the record is dead, so that no
        later try handles it, then it is written there."""
        record, retry = failed.record, self._settings.retry
        if retry is None:
            raise PoisonRecordError(
                f"{record.topic}-{record.partition} offset {record.offset}: {reason_text(failed.error)}"
            ) from failed.error
        attempt = 1 + (record.attempt if record.topic == retry.topic else 0)
        reason = reason_text(failed.error)
        if failed.is_final or attempt > retry.attempts:
            await self._persistently(lambda: self._mark_dead(record, reason))
            await self._persistently(lambda: self._transact([record], handle))
            return
        _log.warning("attempt %d of %s failed: %s", attempt, record.position.decode(), reason)
        due = now_ms() + int(retry.delay_s * 1000)
        added = ((ATTEMPT, b"%d" % attempt), (DUE_MS, b"%d" % due), (ID, self._id(record)[0]))
        await self._send(retry.topic, record, reason, added)
        if self._keeps_offsets:
            await self._persistently(lambda: self._pass(record))

    async def _mark_dead(self, record: Record, reason: str) -> None:
        async with self._session.transaction():
            id, _ = self._id(record)
            origin = origin_of(record, self._settings.retry)
            if id is not None:
                await add_id(self._session, self._settings.name, origin.topic, id, reason)

    async def _bury(self, record: Record, reason: str) -> None:
        retry = self._settings.retry
        if retry is not None:
            _log.error("%s goes to %s: %s", record.position.decode(), retry.dead_letters, reason)
            await self._send(retry.dead_letters, record, reason, ())

    async def _send(self, topic: str, record: Record, reason: str, added: tuple[tuple[str, bytes | None], ...]) -> None:
        if self._outlet is None:
            raise RuntimeError("a retry topic has a producer")
        headers = headers_of_copy(record, origin_of(record, self._settings.retry), self._settings.name, reason)
        await self._outlet.deliver(topic, record.key, record.value, headers + added)

    async def _pass(self, record: Record) -> None:
        """Keeps the offset after a record that is in the retry topic."""
        async with self._session.transaction():
            kept = await self._lock_offsets([record])
            end = max(record.offset + 1, kept[record.place])
            await write_offset(self._session, self._settings.name, record.place, end)
        self._kept[record.place] = end

    # -- the end of a round

    async def _persistently(self, act: Callable[[], Awaitable[T]]) -> T:
        """Tries again after a transient error of the database, for `patience_s`. After a lost commit the next try finds
        its own ids or offsets, or does not."""
        end_s, pause_s = time.monotonic() + self._settings.patience_s, FIRST_PAUSE_S
        while True:
            try:
                return await act()
            except Exception as error:
                if not self._session.is_transient(error) or time.monotonic() > end_s:
                    raise
                _log.warning("the database: %s; tried again in %.2f s", error, pause_s)
            await self._waiting.pause(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def _rewind(self, rewound: _RewoundError) -> None:
        _log.warning("%s goes back to offset %d of the database", rewound.place, rewound.offset)
        self._kept[rewound.place] = rewound.offset
        self._done.pop(rewound.place, None)
        await self._client.seek(rewound.place, rewound.offset)
        self._left = deque(record for record in self._left if record.place != rewound.place)

    async def _seek_back(self) -> None:
        """To the first record of each partition that this round did not handle."""
        firsts = {record.place: record.offset for record in reversed(self._left)}
        self._left.clear()
        for place, offset in firsts.items():
            try:
                await self._client.seek(place, offset)
            except Exception as error:  # then no later round may commit past these records
                self._trouble = error

    async def _commit(self) -> None:
        if not self._done:
            return
        try:
            await self._client.commit(dict(self._done))
        except Exception as error:  # a later round commits more; until then ids or kept offsets say what is handled
            _log.warning("offsets are not committed: %s", error)
        else:
            self._done.clear()

    async def _expire_ids(self) -> None:
        age, now_s = self._settings.keep_ids, time.monotonic()
        if age is None or now_s < self._expiry_s:
            return
        count = await self._persistently(lambda: expire(self._session, self._settings.name, age, EXPIRED_AT_ONCE))
        self._expiry_s = now_s if count == EXPIRED_AT_ONCE else now_s + EXPIRY_S


def due_ms_in(record: Record, retry: RetryTopic) -> int:
    """When a record is due; headers of other topics than the retry topic are not believed."""
    return due_ms(record) if record.topic == retry.topic else 0
