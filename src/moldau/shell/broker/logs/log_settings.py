"""The settings of topics, and those of the broker that act on their logs, as the logs take them."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.config.topic_settings import log_settings
from moldau.core.log.settings import LogSettings


class LogSettingsByOverrides:
    """`log_settings`, worked out once for all topics that set the same: a node may have thousands of them."""

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
