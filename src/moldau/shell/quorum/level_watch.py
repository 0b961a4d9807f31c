"""Logs an error at once when the cluster has a feature level that this node does not serve.

A newcomer does not join a cluster where clients rely on what is not served here. A node that has joined before must go
on: without it the quorum may have no majority. So it says in its log what a newcomer is refused for: as soon as it
knows that another node serves the feature, as soon as the level is written, and at each start.

That it has joined before is noted in a file of the metadata directory, which Apache Kafka leaves alone: a directory of
Apache Kafka has a voter's and a broker's id too, and a node of ours that takes it over is a newcomer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from moldau.core.metadata.features import UNSERVED_FEATURES, unserved_level
from moldau.core.metadata.releases import unknown_level
from moldau.core.metadata.snapshot import METADATA_DIRECTORY
from moldau.ports import Disk
from moldau.shell.network.event_log import EventLog

_JOINED = f"{METADATA_DIRECTORY}/joined"


def has_joined(disk: Disk) -> bool:
    """Whether a node of ours has belonged to the cluster with this directory."""
    return disk.exists(_JOINED)


def note_joined(disk: Disk) -> None:
    """From now on `has_joined`, durably. Waits for the disk the first time."""
    if not has_joined(disk):
        disk.replace_file(_JOINED, b"")


class LevelWatch:
    """Says each fault once, and again after it was taken back."""

    def __init__(self, event_log: EventLog, features_of_others: Callable[[], tuple[str, ...]]) -> None:
        """`features_of_others`: the finalized features that the nodes which this one asks serve."""
        self._event_log = event_log
        self._features_of_others = features_of_others
        self._foreign: dict[int, None] = {}
        self._said: str | None = None

    def registered(self, node_id: int, levels: Mapping[str, int], *, is_ours: bool) -> None:
        """A node has registered with this controller. One of another make serves all features that are finalized."""
        if is_ours:
            self._foreign.pop(node_id, None)
        else:
            self._foreign[node_id] = None
        self.look(levels)

    def forget(self) -> None:
        """This controller is active no more: nodes register with another one."""
        self._foreign.clear()

    def unserved(self, levels: Mapping[str, int]) -> str | None:
        """Why a newcomer does not join; None if nothing keeps it away."""
        others = (*self._features_of_others(), *(UNSERVED_FEATURES if self._foreign else ()))
        return unserved_level(levels, others)

    def look(self, levels: Mapping[str, int]) -> None:
        """The committed levels, or the other nodes, may have changed."""
        unknown = unknown_level(levels)
        said = self.unserved(levels) if unknown is None else f"{unknown[1]}: the next start of this node is refused"
        if said is not None and said != self._said:
            self._event_log.error("feature level not served", said)
        self._said = said
