"""The levels of `metadata.version`, their names in Kafka, and the default levels of other features.

A name is a release of Kafka and a number, such as 4.3-IV0. The release alone means its last level.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.core.metadata.features import (
    ELIGIBLE_LEADER_REPLICAS,
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_4_0,
    METADATA_VERSION_4_3,
    METADATA_VERSION_4_4,
    SUPPORTED_FEATURES,
    TRANSACTION_VERSION,
)

_FIRST_LEVEL = 7
_LEVELS_OF_RELEASES = {
    "3.3": (3,),
    "3.4": (0,),
    "3.5": (0, 1, 2),
    "3.6": (0, 1, 2),
    "3.7": (0, 1, 2, 3, 4),
    "3.8": (0,),
    "3.9": (0,),
    "4.0": (0, 1, 2, 3),
    "4.1": (0, 1),
    "4.2": (0, 1),
    "4.3": (0,),
    "4.4": (0, 1, 2),
    "4.5": (0,),
}
METADATA_VERSION_NAMES = tuple(
    f"{release}-IV{number}" for release, numbers in _LEVELS_OF_RELEASES.items() for number in numbers
)
"""The names from level 7 on, the oldest of KRaft clusters."""

LATEST_STABLE_LEVEL = METADATA_VERSION_4_4
FORMATTED_LEVEL = METADATA_VERSION_4_3
"""The default level of a new directory, which Apache Kafka 4.3 can open too."""
KNOWN_LEVELS = (_FIRST_LEVEL, _FIRST_LEVEL + len(METADATA_VERSION_NAMES) - 1)
"""The first and the last level with a name."""

_DEFAULT_FROM = {
    KRAFT_VERSION: ((21, 1),),
    TRANSACTION_VERSION: ((24, 2),),
    "group.version": ((22, 1),),
    ELIGIBLE_LEADER_REPLICAS: ((26, 1),),
    "share.version": ((28, 1), (31, 2)),
    "streams.version": ((29, 1),),
}
"""By feature: (`metadata.version`, default level from there on). The default is 0 below the first."""

FIRST_LEVEL_WITH_SCRAM = 11

REQUIRED_METADATA_VERSION = {(ELIGIBLE_LEADER_REPLICAS, 1): 23}
"""The feature levels that need a `metadata.version`. Others need none."""


def metadata_version_name(level: int) -> str:
    """Kafka's name of a level; the number if it has none."""
    place = level - _FIRST_LEVEL
    return METADATA_VERSION_NAMES[place] if 0 <= place < len(METADATA_VERSION_NAMES) else str(level)


def metadata_version_level(name: str) -> int | None:
    """The level of a name or release; None for others."""
    if name in _LEVELS_OF_RELEASES and is_stable(_last_of(name)):
        name = _last_of(name)
    if name not in METADATA_VERSION_NAMES:
        return None
    return _FIRST_LEVEL + METADATA_VERSION_NAMES.index(name)


def is_stable(name: str) -> bool:
    """Whether a release up to Kafka 4.4 has this `metadata.version`. Those of the next release may still change."""
    return _FIRST_LEVEL + METADATA_VERSION_NAMES.index(name) <= LATEST_STABLE_LEVEL


def _last_of(release: str) -> str:
    return f"{release}-IV{_LEVELS_OF_RELEASES[release][-1]}"


def default_levels(metadata_level: int) -> dict[str, int]:
    """The default level of each feature in a cluster with this `metadata.version`."""
    levels = {METADATA_VERSION: metadata_level}
    for name, steps in _DEFAULT_FROM.items():
        levels[name] = max((level for since, level in steps if metadata_level >= since), default=0)
    return levels


def unknown_level(levels: Mapping[str, int]) -> tuple[str, str] | None:
    """(name, reason) of a finalized feature that may give records an unknown meaning; None if no such feature exists.
    Nodes do not start then. The ranges in REGISTERED_FEATURES prevent other controllers from finalizing such a level
    while this node is registered."""
    known = {feature.name: (0, feature.max_level) for feature in SUPPORTED_FEATURES}
    known[METADATA_VERSION] = (METADATA_VERSION_4_0, METADATA_VERSION_4_4)
    for name, level in levels.items():
        lowest, highest = known.get(name, (0, 0))
        if not lowest <= level <= highest:
            found, first, last = (
                metadata_version_name(each) if name == METADATA_VERSION else str(each)
                for each in (level, lowest, highest)
            )
            return name, f"{name} is {found}, but Moldau supports {first} to {last}"
    return None
