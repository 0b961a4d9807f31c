"""Rounds of a relay: number a batch of rows in the database, send it in a transaction that commits the number, delete
it. A relay that takes over fences its predecessor, and then asks the broker for the last number: the numbered rows were
sent, or are sent again as the same batch."""

from __future__ import annotations

import logging
import time
import uuid
from dataclasses import dataclass

from moldau.idempotent.clients.transactions import Sending
from moldau.idempotent.errors import OutboxError
from moldau.idempotent.handling import Waiting
from moldau.idempotent.outbox import next_batch, take
from moldau.idempotent.sessions import Session

_log = logging.getLogger("moldau.idempotent")


@dataclass(frozen=True)
class RelaySettings:
    """What a relay was made with; its class describes it."""

    topic: str
    batch: int
    idle_s: float
    lease_s: float
    patience_s: float


class Relaying:
    """One relay."""

    def __init__(self, settings: RelaySettings, session: Session, sending: Sending, waiting: Waiting) -> None:
        self._settings, self._session, self._sending, self._waiting = settings, session, sending, waiting
        self._holder = uuid.uuid4().hex
        self._lease_ms = int(settings.lease_s * 1000)
        self._sent = 0
        """The number of the last batch that the broker has committed."""
        self._is_open = False
        self._failing_since_s: float | None = None

    async def round(self) -> int:
        """Sends one batch; gives the number of its rows. 0 for a relay that waits for the holder, and after an error,
        until errors have lasted for `patience_s`. Raises OutboxError at once."""
        try:
            count = await self._send_next() if self._is_open or await self._open() else 0
        except Exception as error:
            await self.drop()
            now_s = time.monotonic()
            self._failing_since_s = self._failing_since_s or now_s
            if isinstance(error, OutboxError) or now_s - self._failing_since_s > self._settings.patience_s:
                raise
            _log.warning("the outbox of %s: %s; tried again", self._settings.topic, error)
            count = 0
        else:
            self._failing_since_s = None
        if count == 0:
            await self._waiting.pause(self._settings.idle_s)
        return count

    async def _open(self) -> bool:
        topic = self._settings.topic
        claim = await take(self._session, topic, self._holder, uuid.uuid4().hex, self._lease_ms)
        if claim is None:
            return False
        identity = claim.identity
        committed = await self._sending.open(f"moldau-outbox-{topic}-{identity}", topic)
        # that may have lasted longer than the lease, and another relay has sent batches meanwhile
        claim = await take(self._session, topic, self._holder, identity, self._lease_ms)
        if claim is None or claim.identity != identity:
            await self.drop()
            return False
        if committed is None and claim.is_waiting and claim.batch > 1:
            raise OutboxError(
                f"the broker has no offset of the outbox of {topic} any more, so nobody knows whether batch "
                f"{claim.batch} was sent. Look into the topic: delete these rows of moldau_outbox, or set batch to NULL"
            )
        if committed is not None and committed > claim.batch:
            raise OutboxError(
                f"batch {committed} of the outbox of {topic} was sent, and the database knows {claim.batch}: it is an "
                "older copy. Give its row of moldau_outboxes another identity; rows that were sent are sent again"
            )
        self._sent, self._is_open = committed or 0, True
        return True

    async def _send_next(self) -> int:
        settings = self._settings
        found = await next_batch(
            self._session, settings.topic, self._holder, self._lease_ms, self._sent, settings.batch
        )
        if found is None:
            await self.drop()
            return 0
        batch, rows = found
        if rows:
            await self._sending.send(rows, batch)
            self._sent = batch
        return len(rows)

    async def drop(self) -> None:
        """Gives up the producer and the connection: the next round asks for both again."""
        self._is_open = False
        await self._sending.close()
        await self._session.close()
