"""The settings of logs, from the settings of their topics and of the broker."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.config.topic_settings import log_settings
from moldau.core.log.settings import LogSettings


class LogSettingsByOverrides:
    """Caches `log_settings` for topics with the same overrides: a node may have thousands of such topics."""

    MAX_KNOWN = 1_000

    def __init__(self, broker: BrokerSettings) -> None:
        self._broker = broker
        self._known: dict[tuple[tuple[str, str], ...], LogSettings] = {}

    def __call__(self, overrides: Mapping[str, str]) -> LogSettings:
        key = tuple(overrides.items())
        settings = self._known.get(key)
        if settings is None:
            if len(self._known) >= self.MAX_KNOWN:
                self._known.clear()
            settings = self._known[key] = log_settings(overrides, self._broker)
        return settings
