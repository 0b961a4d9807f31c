"""Writes the audit log of a node: moves events from the loop's queue to a file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from moldau.core.config.broker_settings import BrokerSettings
from moldau.ports import Clock, Workers
from moldau.shell.network.event_log import EventLog, escape
from moldau.telemetry import Telemetry
from moldau.types import counted

if TYPE_CHECKING:
    from moldau.core.auditing.lines import Event
    from moldau.shell.io.rotated_file import RotatedFile
    from moldau.shell.network.audit import Audit
    from moldau.shell.network.background import BackgroundTasks

BATCH_EVENTS = 1_000
"""Events written at once: usually less than a megabyte."""
TICK_S = 1.0


def new_audit(settings: BrokerSettings, clock: Clock, telemetry: Telemetry) -> Audit | None:
    """None if the settings name no audit file; the start then imports no audit code."""
    if not settings.moldau_audit_file:
        return None
    from moldau.shell.network.audit import Audit

    return Audit(clock, telemetry, settings.moldau_audit_queue_events)


class AuditWriter:
    """The audit writer of one node. Events that cannot be written, for example with a full disk, are dropped and
    counted, and the node continues."""

    def __init__(self, settings: BrokerSettings, audit: Audit, workers: Workers, log: EventLog) -> None:
        from moldau.shell.io.rotated_file import RotatedFile

        self._node_id = settings.node_id
        self._path = settings.moldau_audit_file
        self._file: RotatedFile = RotatedFile(
            settings.moldau_audit_file, settings.moldau_audit_file_max_bytes, settings.moldau_audit_files
        )
        self._audit = audit
        self._workers = workers
        self._log = log
        self._writing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Writes events until it is cancelled."""
        await self._append([])  # reports an unusable path at once
        while True:
            try:
                async with asyncio.timeout(TICK_S):
                    await self._audit.wait()
            except TimeoutError:
                self._audit.tell_left_out()
            await self._write()

    async def finish(self) -> None:
        """Writes the remaining events and closes the file, at the end of a clean stop."""
        if self._writing is not None:
            await asyncio.wait([self._writing])  # `run` was cancelled, but not its thread
        self._audit.tell_left_out()
        await self._write()
        await self._workers.run(self._file.close)

    async def _write(self) -> None:
        while events := self._audit.take(BATCH_EVENTS):
            await self._append(events)

    async def _append(self, events: list[Event]) -> None:
        self._writing = asyncio.create_task(self._append_or_tell(events))
        await asyncio.shield(self._writing)

    async def _append_or_tell(self, events: list[Event]) -> None:
        try:
            await self._workers.run(partial(_append, self._file, events, self._node_id))
        except OSError as error:
            self._audit.lost(len(events))
            text = f"the audit log {escape(self._path)} cannot be written: {error.strerror or error}"
            self._log.error("audit log", f"{text}; {counted(len(events), 'event')} lost" if events else text)


def start_audit(
    settings: BrokerSettings, workers: Workers, log: EventLog, background: Callable[[], BackgroundTasks]
) -> AuditWriter | None:
    """Starts the audit writer; None if the settings name no file."""
    if log.audit is None:
        return None
    writer = AuditWriter(settings, log.audit, workers, log)
    background().spawn(writer.run())
    return writer


def _append(file: RotatedFile, events: list[Event], node_id: int) -> None:
    from moldau.core.auditing.lines import line_of

    file.append([line_of(event, node_id) for event in events])
