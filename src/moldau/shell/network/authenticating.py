"""Applies the decisions of `core.authentication` on one connection: answers, delays, and the client's identity."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from moldau.core.auditing.lines import AUTHENTICATION, Origin
from moldau.core.authentication.attempts import FailedAttempts
from moldau.core.authentication.authentication import Admit, Answer, Authentication, Close, Mechanisms, Refuse, Serve
from moldau.errors import ProtocolError
from moldau.ports import Clock
from moldau.shell.network import pending_response
from moldau.shell.network.event_log import EventLog, escape
from moldau.shell.network.pending_response import PendingResponse
from moldau.shell.network.reply import Authenticator, FrameHandler, Reply
from moldau.shell.network.session import Session
from moldau.telemetry import Telemetry

_METRICS = "kafka.server:type=socket-server-metrics,name="
SUCCESSES = f"{_METRICS}successful-authentication-total"
FAILURES = f"{_METRICS}failed-authentication-total"
REAUTHENTICATIONS = f"{_METRICS}successful-reauthentication-total"
FAILED_REAUTHENTICATIONS = f"{_METRICS}failed-reauthentication-total"
EXPIRED = f"{_METRICS}expired-connections-killed-count"
"""Each is counted by listener."""


class Dispatching(Protocol):
    """Has the dispatcher of authenticated clients: the group of the connections."""

    loop: asyncio.AbstractEventLoop
    dispatcher: FrameHandler | None


class ListenerAuthentication:
    """The state that all connections of one SASL listener share."""

    def __init__(
        self,
        mechanisms: Mechanisms,
        attempts: FailedAttempts,
        clock: Clock,
        log: EventLog,
        telemetry: Telemetry,
    ) -> None:
        self.mechanisms = mechanisms
        self.attempts = attempts
        self.clock = clock
        self.log = log
        self.telemetry = telemetry

    def authenticator(self, group: Dispatching) -> Authenticator:
        """Makes the frame handler for each connection of `group`."""
        return lambda connection: SaslAuthenticator(self, group, connection)


class SaslAuthenticator:
    """Handles the frames of one connection until its client is authenticated. If sessions end, it stays, because the
    client must authenticate again (KIP-368)."""

    def __init__(self, listener: ListenerAuthentication, group: Dispatching, connection: Reply) -> None:
        self._listener = listener
        self._group = group
        self._machine = Authentication(listener.mechanisms, listener.attempts, connection.session.client_address)

    def handle(self, connection: Reply, frame: memoryview) -> pending_response.Answer | PendingResponse | None:
        """See FrameHandler."""
        answer: pending_response.Answer | PendingResponse | None = None
        now_ms = self._listener.clock.monotonic_ms()
        for output in self._machine.step(frame, now_ms):
            match output:
                case Serve():
                    dispatcher = self._group.dispatcher
                    answer = None if dispatcher is None else dispatcher.handle(connection, frame)
                case Answer():
                    answer = output.response
                case Admit():
                    self._admit(connection, output)
                case Refuse():
                    answer = self._refuse(connection, output)
                case Close():
                    self._close(connection, output)
        return answer

    def _admit(self, connection: Reply, admitted: Admit) -> None:
        before = connection.session
        is_first = not before.mechanism
        self._listener.telemetry.count(SUCCESSES if is_first else REAUTHENTICATIONS, before.listener_name)
        connection.authenticated(
            Session(
                admitted.principal,
                before.client_address,
                before.listener_name,
                admitted.mechanism,
                is_token_authenticated=bool(admitted.token_id),
                token_id=admitted.token_id,
            )
        )
        if is_first and not self._machine.is_open:
            connection.hand_frames_to(self)

    def _refuse(self, connection: Reply, refused: Refuse) -> PendingResponse | None:
        session, listener = connection.session, self._listener
        is_first = self._machine.admitted is None
        listener.telemetry.count(FAILURES if is_first else FAILED_REAUTHENTICATIONS, session.listener_name)
        address = escape(session.client_address)
        listener.log.info(
            "failed authentication",
            f"failed authentication of {address} on {session.listener_name}: {escape(refused.reason)}",
            about=address,
        )
        self._audit(connection, refused.reason)
        if refused.delay_ms is None:
            connection.close()
            return None
        connection.mute(refused.delay_ms)  # this side delays the answer: no deadline counts the delay
        place = connection.reserve()
        timer = self._group.loop.call_later(refused.delay_ms / 1_000, self._end, connection, place, refused.response)
        place.when_abandoned(lambda: self._abandoned(timer, session.client_address))
        return place

    def _audit(self, connection: Reply, reason: str) -> None:
        session, audit, known = connection.session, self._listener.log.audit, self._machine.admitted
        if audit is not None:
            principal = "" if known is None else known.principal
            origin = Origin(principal, session.client_address, session.listener_name, connection.client_id)
            audit.refused(AUTHENTICATION, origin, reason)

    def _end(self, connection: Reply, place: PendingResponse, response: bytes | None) -> None:
        self._listener.attempts.answered(connection.session.client_address)
        place.complete(response)
        connection.close()

    def _abandoned(self, timer: asyncio.TimerHandle, address: str) -> None:
        timer.cancel()
        self._listener.attempts.answered(address)

    def _close(self, connection: Reply, closed: Close) -> None:
        if closed.reason:
            self._audit(connection, closed.reason)
            raise ProtocolError(closed.reason)
        if self._machine.admitted is not None:
            self._listener.telemetry.count(EXPIRED, connection.session.listener_name)
        connection.close()


def close_without_credentials(connections: list[Reply], mechanisms_of: Callable[[str], Mechanisms | None]) -> int:
    """Ends the connections of removed users and returns their number. `mechanisms_of`: the mechanisms of a listener."""
    ended = 0
    for connection in connections:
        session = connection.session
        mechanisms = mechanisms_of(session.listener_name) if session.mechanism else None
        if mechanisms is None:
            continue
        if not mechanisms.still_has(session.principal, session.mechanism, session.token_id):
            connection.close()
            ended += 1
    return ended
