"""The sessions of brokers: when the active controller last received their heartbeats (KIP-631). In memory only.

A broker without a heartbeat for `broker.session.timeout.ms` has no session and is fenced; a suspected one after
`moldau.broker.suspicion.ms`. A new active controller starts a whole session for each active broker. The session of the
broker in this process begins with its registration and never expires.

A broker gives up a heartbeat after half a session and closes its connection. So the end of a connection does not
suggest death if the last heartbeat is older than that, or came that much later than the one before: a healed network
delivers both late.

If this process was suspended, its brokers look late, and their heartbeats are still unread. Their sessions then
continue once for the time of a suspicion.
"""

from __future__ import annotations

import msgspec

from moldau.core.metadata.image import BrokerImage, MetadataImage

NO_OFFSET = -1

PATIENCE_SHARE = 2
"""The part of a session after which a broker gives up a heartbeat without a response, and closes the connection."""

RESET_GRACE_MS = 2_000
"""How much later a broker is suspected after its connection was reset. Its own system reports the reset after about
this time, and the broker reconnects. The connections of a dead process end without a reset, unless it had unread
bytes."""

LATE_MS = 100
"""A session that is checked so long after its end means that this process was suspended."""


class _Session(msgspec.Struct):
    """`heard_ms`: when the last heartbeat came, or when this controller became active. `metadata_offset`: the last
    metadata offset that the broker has applied. `shutdown_offset`: once every other broker has applied it, none takes
    this broker for a leader any more. `is_settled`: every partition that waited for this broker has a leader.
    `is_heard`: by this controller. `is_late`: the last heartbeat came so late that the broker had given it up.
    `is_spared`: its end came while this process stood still."""

    broker_epoch: int
    heard_ms: int
    end_ms: int
    metadata_offset: int = NO_OFFSET
    shutdown_offset: int = NO_OFFSET
    is_settled: bool = False
    is_heard: bool = False
    is_late: bool = False
    is_spared: bool = False


class BrokerSessions:
    """Soft state: decisions may change it, and a controller begins without it. Times are steady."""

    def __init__(self, own_id: int, timeout_ms: int, suspicion_ms: int) -> None:
        self._own_id = own_id
        self._timeout_ms = timeout_ms
        self._patience_ms = timeout_ms // PATIENCE_SHARE
        self._suspicion_ms = suspicion_ms
        self._sessions: dict[int, _Session] = {}
        self.has_others = False
        """Whether brokers run in other processes."""

    def begin(self, image: MetadataImage, now_ms: int) -> None:
        """This controller became active: starts a whole session for each active broker."""
        own = self._sessions.get(self._own_id)
        self._sessions = {
            broker.broker_id: _Session(broker.epoch, now_ms, now_ms + self._timeout_ms)
            for broker in image.brokers.values()
            if not broker.is_fenced and broker.broker_id != self._own_id
        }
        self.has_others = bool(self._sessions)
        if own is not None:
            self._sessions[self._own_id] = own

    def heard(self, broker_id: int, broker_epoch: int, metadata_offset: int, now_ms: int) -> None:
        """The broker registered, with `metadata_offset` -1, or sent a heartbeat."""
        session = self._sessions.get(broker_id)
        if session is None or session.broker_epoch != broker_epoch:
            session = self._sessions[broker_id] = _Session(broker_epoch, now_ms, 0)
        session.is_late = now_ms - session.heard_ms > self._patience_ms
        session.heard_ms, session.end_ms = now_ms, now_ms + self._timeout_ms
        session.is_heard, session.is_spared = True, False
        session.metadata_offset = metadata_offset
        self.has_others = self.has_others or broker_id != self._own_id

    def suspect(self, broker_id: int, broker_epoch: int | None, now_ms: int, *, is_reset: bool = False) -> None:
        """The connection of this life of the broker has ended, so it may have died. None: a broker that this controller
        has not heard from. Its session ends soon unless it sends a heartbeat. `is_reset`: see SuspectBroker."""
        session = self._sessions.get(broker_id)
        if session is None:
            return
        if not session.is_heard if broker_epoch is None else self._may_have_died(session, broker_epoch, now_ms):
            grace_ms = RESET_GRACE_MS if is_reset else 0
            session.end_ms = min(session.end_ms, now_ms + grace_ms + self._suspicion_ms)

    def _may_have_died(self, session: _Session, broker_epoch: int, now_ms: int) -> bool:
        is_given_up = session.is_late or now_ms - session.heard_ms >= self._patience_ms
        return session.broker_epoch == broker_epoch and not is_given_up

    def end(self, broker_id: int) -> None:
        """The response lets the broker shut down. Its next start may register at once."""
        self._sessions.pop(broker_id, None)

    def settled(self, broker_id: int, *, is_settled: bool) -> None:
        """All partitions that waited for the broker have a leader."""
        self._sessions[broker_id].is_settled = is_settled

    def is_settled(self, broker_id: int) -> bool:
        """Whether every partition that waited for the broker has a leader. Raises KeyError for a broker without a
        session."""
        return self._sessions[broker_id].is_settled

    def is_alive(self, broker: BrokerImage, now_ms: int) -> bool:
        """Whether this life of the broker may still be running."""
        session = self._sessions.get(broker.broker_id)
        if session is None or session.broker_epoch != broker.epoch:
            return False
        return broker.broker_id == self._own_id or now_ms < session.end_ms

    def stale(self, image: MetadataImage, now_ms: int) -> BrokerImage | None:
        """An active broker without a session."""
        for broker in image.brokers.values():
            if broker.is_fenced or broker.broker_id == self._own_id or self.is_alive(broker, now_ms):
                continue
            if not self._is_spared(broker, now_ms):
                return broker
        return None

    def _is_spared(self, broker: BrokerImage, now_ms: int) -> bool:
        session = self._sessions.get(broker.broker_id)
        if session is None or session.broker_epoch != broker.epoch or session.is_spared:
            return False
        if now_ms < session.end_ms + LATE_MS:
            return False
        session.end_ms, session.is_spared = now_ms + self._suspicion_ms, True
        return True

    def next_end_ms(self, image: MetadataImage, now_ms: int) -> int:
        """When to look for stale brokers next."""
        ends = (
            self._sessions[broker.broker_id].end_ms
            for broker in image.brokers.values()
            if not broker.is_fenced and broker.broker_id != self._own_id and broker.broker_id in self._sessions
        )
        return min(ends, default=now_ms + self._timeout_ms)

    def leaves_at(self, broker_id: int, offset: int) -> None:
        """The records up to `offset` move the partitions away from the broker, before it shuts down."""
        session = self._sessions[broker_id]
        session.shutdown_offset = max(offset, session.shutdown_offset)

    def has_left(self, image: MetadataImage, broker_id: int) -> bool:
        """Whether every active broker has applied the records that move the partitions away from this one. The broker
        in this process has when they are committed, and the response waits for that."""
        offset = self._sessions[broker_id].shutdown_offset
        return all(
            broker.broker_id in self._sessions and self._sessions[broker.broker_id].metadata_offset >= offset
            for broker in image.brokers.values()
            if broker.is_active and broker.broker_id not in (broker_id, self._own_id)
        )
