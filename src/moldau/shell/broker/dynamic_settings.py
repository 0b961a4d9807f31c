"""The settings in force at a broker: its settings at the start, and later changes from the metadata log (KIP-226).

`broker.settings` is a frozen view. A committed change replaces it before the client that asked is answered, and the
next start rebuilds it from the metadata. Code reads a dynamic setting from `broker.settings` each time. Code that must
act on a change adds a callback to `on_change`.
"""

from __future__ import annotations

from collections.abc import Callable

from moldau.core.config.broker_settings import ROWS_BY_NAME, BrokerSettings
from moldau.core.controller.configs import view_in_force
from moldau.core.metadata.image import MetadataDelta, MetadataImage, ResourceType
from moldau.shell.network.event_log import EventLog, escape


class DynamicSettings:
    """The settings in force; one for each broker."""

    def __init__(self, static: BrokerSettings, log: EventLog) -> None:
        self._log = log
        self.static = static
        """The settings at the start of the node."""
        self.view = static
        """The settings in force: `broker.settings`."""
        self.on_change: list[Callable[[BrokerSettings], None]] = []
        """Called in order with each new view, once it is in `view`. They must not raise."""

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Takes the broker settings that `delta` changed; `image` holds them already."""
        if not any(resource.resource_type == ResourceType.BROKER for resource in delta.configs):
            return
        log, node = self._log, f"node {self.static.node_id}"
        view, notices = view_in_force(image, self.static)
        if notices:
            sentences = "; ".join(escape(notice) for notice in notices)
            log.warn("dynamic settings ignored", f"{node}: {sentences}")
        if view == self.view:
            return
        before, names = self._different(self.view), self._different(view)
        known = self.view.notices()
        self.view = view
        for notice in view.notices():
            if notice not in known:
                log.warn("setting without effect", f"{node}: {escape(notice)}")
        if names or before:
            changed = ", ".join(names) or "none"
            log.info("dynamic settings", f"{node}: settings that changed since its start: {changed}")
        for callback in self.on_change:
            callback(view)

    def _different(self, view: BrokerSettings) -> list[str]:
        """The names of settings that differ from the start. Compares values: a default that the metadata of a new
        cluster spells out is no difference."""
        texts, known = self.static.texts, ROWS_BY_NAME
        changed = sorted(name for name in view.texts if view.texts[name] != texts.get(name))
        return [name for name in changed if name not in known or view.get(name) != self.static.get(name)]
