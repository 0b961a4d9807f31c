"""The logs in the log directories of a broker at its start: sets those aside that the metadata does not assign to the
broker, opens and recovers the others, and reports both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from moldau.core.log.directories.strays import settle_strays, strays_of
from moldau.shell.network.event_log import EventLog, escape
from moldau.shell.node.kept import tell_cuts, tell_logs
from moldau.types import BrokerId, counted

if TYPE_CHECKING:
    from moldau.core.config.broker_settings import BrokerSettings
    from moldau.core.log.directories.directories import LogDirectories
    from moldau.core.log.directories.directory import LogDirectory
    from moldau.core.log.settings import LogSettings
    from moldau.core.metadata.image import MetadataImage
    from moldau.shell.node.ports import NodePorts
    from moldau.shell.quorum.role import QuorumRole

MAX_NAMED_STRAYS = 100


class StoredLogs:
    """The logs of one broker; `settle_strays`, then `open`."""

    def __init__(
        self, node_id: BrokerId, settings: BrokerSettings, ports: NodePorts, log: EventLog, logs: LogDirectories
    ) -> None:
        self._node_id = node_id
        self._settings = settings
        self._ports = ports
        self._log = log
        self._logs = logs

    def settle_strays(self, quorum: QuorumRole) -> None:
        """Sets aside logs that the metadata does not assign to this broker, and names them at each start."""
        from moldau.shell.quorum.metadata_log import removed_topic_ids

        random, now_ms = self._ports.random, self._ports.clock.now_ms()
        removed = partial(removed_topic_ids, quorum.log)
        for done in settle_strays(self._logs, quorum.image, self._node_id, removed, random, now_ms):
            self._log.warn("stray log", done.sentence, about=done.path)
        for directory in self._logs:
            names = strays_of(directory)
            if names:
                left_out = f" and {len(names) - MAX_NAMED_STRAYS} more" if len(names) > MAX_NAMED_STRAYS else ""
                listed = ", ".join(names[:MAX_NAMED_STRAYS]) + left_out
                where = directory.path or "the log directory"
                message = f"{where} holds partitions that the metadata log does not give to this broker: {listed}; see "
                self._log.warn(f"strays of {where}", message + "`moldau log strays --help`")

    async def open(self, image: MetadataImage, pause: Callable[[], Awaitable[None]]) -> None:
        """Opens the logs in the directories, with recovery after a crash, and a `pause` after each log."""
        from moldau.core.controller.configs import view_in_force
        from moldau.shell.broker.logs.log_settings import LogSettingsByOverrides

        settings_of = LogSettingsByOverrides(view_in_force(image, self._settings)[0])

        def settings_for(topic: str) -> LogSettings:
            return settings_of(image.topic_configs(topic))

        logs, clock = self._logs, self._ports.clock
        started_ms = clock.monotonic_ms()
        recovered: dict[str, int] = {}
        for directory, log in logs.open_all(settings_for, clock.now_ms()):
            recovered[directory.path] = recovered.get(directory.path, 0) + (log is not None)
            if log is None:
                self._tell_offline(directory)
            else:
                tell_cuts(self._log, log.topic_partition, log.cuts)
            await pause()
        for directory in logs:
            self._tell_recovery(directory, recovered.get(directory.path, 0), started_ms)
        tell_logs(self._log, logs)
        serving = [directory for directory in logs if not directory.health.is_offline]
        for path in logs.drop_duplicates(
            partial(image.directory_of, self._node_id), image.topic_id, self._ports.random, clock.now_ms()
        ):
            self._log.warn("moved partition", f"{path} was moved to another log directory and is removed")
        for directory in serving:
            if directory.health.is_offline:
                self._tell_offline(directory)

    def _tell_offline(self, directory: LogDirectory) -> None:
        self._log.error("log directory offline", f"{directory.path} failed: {directory.health.failure}")

    def _tell_recovery(self, directory: LogDirectory, log_count: int, started_ms: int) -> None:
        """One line: how the last run of this directory ended, and how long recovery took."""
        where = directory.path or "the log directory"
        if directory.failed_flush is not None and not directory.health.is_offline:
            path = escape(directory.failed_flush) or "a file"
            message = f"{where}: the flush of {path} failed before this start: what was not flushed is written anew"
            self._log.warn("failed flush", message, about=where)
        took_ms = self._ports.clock.monotonic_ms() - started_ms
        logs = counted(log_count, "log")
        if directory.is_new:
            self._log.info("start", f"{where} is new", shutdown="none", logs=0, recovery_ms=took_ms)
        elif directory.is_clean:
            unread = "as it is" if log_count == 1 else "as they are"
            message = f"{where} was left by a clean shutdown: {logs} opened {unread} in {took_ms} ms"
            self._log.info("start", message, shutdown="clean", logs=log_count, recovery_ms=took_ms)
        else:
            message = f"{where} was left by an unclean shutdown: {logs} recovered in {took_ms} ms"
            self._log.warn("start", message, shutdown="unclean", logs=log_count, recovery_ms=took_ms)
