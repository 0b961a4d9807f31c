"""Feature levels: the defaults of a new cluster, those of a registration, those that clients see.

On disk the levels are those of Apache Kafka 4.3 with default settings, so that Kafka can open the directory. Clients
see only supported features, because a client that sees `group.version` 1 relies on it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

import msgspec

from moldau.wire.protocol.messages.broker_lifecycle import RegisteredFeature

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
ELIGIBLE_LEADER_REPLICAS = "eligible.leader.replicas.version"
TRANSACTION_VERSION = "transaction.version"

METADATA_VERSION_4_0 = 25
METADATA_VERSION_4_3 = 30
METADATA_VERSION_4_4 = 33
_METADATA_VERSION_WITH_NETWORKS = 32
"""4.4-IV1"""


class FeatureRange(msgspec.Struct, frozen=True):
    """The levels of one feature that a node supports, both inclusive."""

    name: str
    min_level: int
    max_level: int


SUPPORTED_FEATURES: tuple[FeatureRange, ...] = (
    FeatureRange(METADATA_VERSION, 7, METADATA_VERSION_4_4),
    FeatureRange(ELIGIBLE_LEADER_REPLICAS, 0, 1),
    FeatureRange("group.version", 0, 1),
    FeatureRange(KRAFT_VERSION, 0, 1),
    FeatureRange("share.version", 0, 2),
    FeatureRange("streams.version", 0, 1),
    FeatureRange(TRANSACTION_VERSION, 0, 2),
)
"""The ranges with which brokers and controllers register: those of Kafka 4.4. A controller rejects a broker whose range
does not contain the finalized level. Without one of them, Apache Kafka could not open the directory."""

REGISTERED_FEATURES = tuple(
    RegisteredFeature(feature.name, feature.min_level, feature.max_level) for feature in SUPPORTED_FEATURES
)
"""The same ranges, as in registrations."""

FORMATTED_LEVELS: tuple[tuple[str, int], ...] = (
    (METADATA_VERSION, METADATA_VERSION_4_3),
    (ELIGIBLE_LEADER_REPLICAS, 1),
    ("group.version", 1),
    ("share.version", 1),
    ("streams.version", 1),
    (TRANSACTION_VERSION, 2),
)
"""The levels that `kafka-storage format` of Apache Kafka 4.3 finalizes by default, in its order. `kraft.version` 1 is
in a control record."""

SERVED_FEATURES = (METADATA_VERSION, KRAFT_VERSION, ELIGIBLE_LEADER_REPLICAS, TRANSACTION_VERSION)


def served_features(levels: Mapping[str, int]) -> dict[str, int]:
    """The finalized features for clients, sorted by name. As in Kafka, without level 0."""
    return {name: levels[name] for name in sorted(SERVED_FEATURES) if levels.get(name, 0) > 0}


def unserved_level(levels: Mapping[str, int], of_others: Container[str]) -> str | None:
    """The reason why clients may rely on a feature that this node lacks: a finalized feature that other nodes
    (`of_others`) support. If no node supports it, no client relies on it, and it stays finalized for a later Apache
    Kafka. A new node then does not join. A node that has joined logs it and continues, because the quorum may need
    it."""
    for name, level in levels.items():
        if level > 0 and name in of_others and name not in SERVED_FEATURES:
            take_back = f"`kafka-features downgrade --feature {name}=0` takes it back"
            return f"{name} is {level} and other nodes serve it, but Moldau does not: {take_back}"
    return None


UNSERVED_FEATURES = tuple(each.name for each in SUPPORTED_FEATURES if each.name not in SERVED_FEATURES)
"""The features that every Apache Kafka serves as soon as they are finalized."""


class RecordVersions(msgspec.Struct, frozen=True):
    """The record versions for the finalized levels, which every reader knows."""

    register_broker: int
    partition: int
    partition_change: int
    can_cordon: bool

    @staticmethod
    def for_levels(levels: Mapping[str, int]) -> RecordVersions:
        """The record versions for these finalized levels."""
        partition = 2 if levels.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0 else 1
        return RecordVersions(4 if can_cordon(levels) else 3, partition, partition, can_cordon(levels))


def can_cordon(levels: Mapping[str, int]) -> bool:
    """Whether every node supports cordoned log directories (KIP-1066)."""
    return levels.get(METADATA_VERSION, 0) >= METADATA_VERSION_4_3


def can_name_networks(levels: Mapping[str, int]) -> bool:
    """Whether every node supports networks as hosts of ACLs (KIP-1276)."""
    return levels.get(METADATA_VERSION, 0) >= _METADATA_VERSION_WITH_NETWORKS


def can_unregister_controllers(levels: Mapping[str, int]) -> bool:
    """Whether every node supports the removal of controller registrations."""
    return levels.get(METADATA_VERSION, 0) >= METADATA_VERSION_4_4
