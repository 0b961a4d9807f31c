"""Feature levels of a cluster: supported and finalized levels, and changes (KIP-584, 1022)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.error_texts import error_of
from moldau.errors import KafkaError
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""Kinds of updates. A safe downgrade is rejected if it would lose metadata."""


class Feature(msgspec.Struct, frozen=True):
    """The supported levels of the node, both inclusive, and the finalized level (0: none). `epoch`: the offset in the
    metadata log up to which this holds; None if the node does not report it."""

    name: str
    min_level: int
    max_level: int
    finalized_level: int
    epoch: int | None


def describe_features(admin: ClusterAdmin, node_id: int | None = None) -> list[Feature]:
    """The features as this broker, or any, knows them, sorted by name."""
    request = ApiVersionsRequest("moldau", "1")
    answer = admin.ask(request) if node_id is None else admin.ask_broker(node_id, request)
    if answer.error_code:
        raise error_of(answer.error_code)
    finalized = {row.name: row.max_version_level for row in answer.finalized_features}
    epoch = answer.finalized_features_epoch if answer.finalized_features_epoch >= 0 else None
    supported = {row.name: (row.min_version, row.max_version) for row in answer.supported_features}
    return [
        Feature(name, *supported.get(name, (0, 0)), finalized.get(name, 0), epoch)
        for name in sorted({**supported, **finalized})
    ]


def update_features(
    admin: ClusterAdmin, levels: Mapping[str, int], kind: int, *, validate_only: bool = False
) -> dict[str, KafkaError | None]:
    """Changes all features or none. Returns the error of each rejected feature."""
    updates = tuple(FeatureUpdateKey(name, level, upgrade_type=kind) for name, level in levels.items())
    answer = admin.ask(UpdateFeaturesRequest(admin.request_timeout_ms, updates, validate_only))
    if answer.error_code:
        return dict.fromkeys(levels, error_of(answer.error_code, answer.error_message))
    refused = {row.feature: error_of(row.error_code, row.error_message) for row in answer.results if row.error_code}
    return {name: refused.get(name) for name in levels}
