"""The tasks of a connector, as its class splits it, unless its places are those of another number of tasks."""

from __future__ import annotations

from moldau.products.connect.connector_offsets import ConnectorOffsets
from moldau.products.connect.core import refusals
from moldau.products.connect.core.configs import Config
from moldau.products.connect.running.plugins import Plugins

SOURCE = "source"


class Splitting:
    """Thread-safe."""

    def __init__(self, plugins: Plugins, offsets: ConnectorOffsets) -> None:
        self._plugins = plugins
        self._offsets = offsets

    def tasks_of(self, name: str, config: Config) -> list[dict[str, str]]:
        """The configuration of each task. Raises Refusal."""
        text = config.get("tasks.max", "1")
        tasks = self._plugins.split(config, int(text) if text.isdigit() else 1)
        kept = self._kept(name, config)
        if kept is not None and kept != len(tasks):
            raise refusals.other_number(name, len(tasks), kept)
        return tasks

    def check(self, name: str, config: Config) -> None:
        """Raises Refusal for a configuration whose tasks could not begin at the places that are kept."""
        if self._kept(name, config) is not None:
            self.tasks_of(name, config)

    def _kept(self, name: str, config: Config) -> int | None:
        """A part of a source is another one if the number of parts changes. A sink ends its batches before that."""
        return self._offsets.slots_of(name) if self._plugins.kind_of(config) == SOURCE else None
