"""The settings in force at a broker: what it was started with, and what the metadata log says since (KIP-226).

`broker.settings` is a frozen view. It is replaced as soon as the record of a change is committed, before the client
that asked is answered, and made again from the metadata at the next start. Code that needs a dynamic setting reads it
from `broker.settings` each time; code that must act on a change adds a callback to `on_change`.
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
        """What the node was started with."""
        self.view = static
        """What is in force: the `settings` of the broker."""
        self.on_change: list[Callable[[BrokerSettings], None]] = []
        """Called, in order, with each new view, once `view` is it; they must not raise."""

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
        """By value: a default that the metadata spells out, as that of a new cluster does, is no difference."""
        texts, known = self.static.texts, ROWS_BY_NAME
        changed = sorted(name for name in view.texts if view.texts[name] != texts.get(name))
        return [name for name in changed if name not in known or view.get(name) != self.static.get(name)]
