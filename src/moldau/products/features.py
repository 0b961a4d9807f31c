"""Optional features of a cluster, read from a broker's answer to ApiVersions."""

from __future__ import annotations

from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.api_versions import ApiVersionsResponse


def features_not_served(answer: ApiVersionsResponse) -> list[str]:
    """The names of optional features that this cluster lacks. Decides by APIs and by finalized feature levels
    (KIP-584)."""
    api_keys = {row.api_key for row in answer.api_keys}
    levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    is_served = {
        "transactions": int(ApiKey.END_TXN) in api_keys,
        "group.protocol=consumer (KIP-848)": levels.get("group.version", 0) > 0,
        "share groups": levels.get("share.version", 0) > 0,
        "streams groups": levels.get("streams.version", 0) > 0,
    }
    return [name for name, is_there in is_served.items() if not is_there]
