"""Logs an error at once when the cluster has a feature level that this node does not support.

A newcomer does not join a cluster whose clients rely on unsupported features. A node that has joined before must
continue, because without it the quorum may have no majority. So it logs the reason that would keep a newcomer out: as
soon as another node is known to support the feature, as soon as the level is written, and at each start.

A file in the metadata directory, which Apache Kafka leaves alone, records that the node has joined before. The voter's
and broker's ids are not enough: a directory of Apache Kafka has them too, and a node of ours that takes it over is a
newcomer.
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
    """Whether a node of ours has been in the cluster with this directory."""
    return disk.exists(_JOINED)


def note_joined(disk: Disk) -> None:
    """Makes `has_joined` true, durably. Waits for the disk the first time."""
    if not has_joined(disk):
        disk.replace_file(_JOINED, b"")


class LevelWatch:
    """Logs each fault once, and again if it returns after it was resolved."""

    def __init__(self, event_log: EventLog, features_of_others: Callable[[], tuple[str, ...]]) -> None:
        """`features_of_others`: the finalized features that the nodes asked by this one support."""
        self._event_log = event_log
        self._features_of_others = features_of_others
        self._foreign: dict[int, None] = {}
        self._said: str | None = None

    def registered(self, node_id: int, levels: Mapping[str, int], *, is_ours: bool) -> None:
        """A node has registered with this controller. A node that is not ours supports all finalized features."""
        if is_ours:
            self._foreign.pop(node_id, None)
        else:
            self._foreign[node_id] = None
        self.look(levels)

    def forget(self) -> None:
        """This controller is no longer active: nodes register with another one."""
        self._foreign.clear()

    def unserved(self, levels: Mapping[str, int]) -> str | None:
        """Why a newcomer may not join; None if it may."""
        others = (*self._features_of_others(), *(UNSERVED_FEATURES if self._foreign else ()))
        return unserved_level(levels, others)

    def look(self, levels: Mapping[str, int]) -> None:
        """Checks again after a change of the committed levels or of the other nodes."""
        unknown = unknown_level(levels)
        said = self.unserved(levels) if unknown is None else f"{unknown[1]}: the next start of this node is refused"
        if said is not None and said != self._said:
            self._event_log.error("feature level not served", said)
        self._said = said
