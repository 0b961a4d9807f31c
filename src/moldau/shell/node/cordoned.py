"""Tells the controller which log directories are cordoned, as soon as the settings change them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.core.config.broker_settings import BrokerSettings

if TYPE_CHECKING:
    from moldau.core.log.directories.directories import LogDirectories
    from moldau.shell.broker.role import Broker


def when_cordoned(broker: Broker, logs: LogDirectories, tell: Callable[[], None]) -> None:
    """Calls `tell` as soon as the set of cordoned directories changes."""
    known = logs.cordoned_ids

    def settings_changed(_: BrokerSettings) -> None:
        nonlocal known
        if known != logs.cordoned_ids:
            known = logs.cordoned_ids
            tell()

    broker.own_node.settings.on_change.append(settings_changed)
