"""The answer to ApiVersions on every kind of listener: its APIs and the features of the cluster (KIP-511, 584,
1242)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from moldau.core.metadata.features import KRAFT_VERSION, SERVED_FEATURES, SUPPORTED_FEATURES, served_features
from moldau.core.metadata.image import MetadataImage
from moldau.errors import kafka_error
from moldau.shell.network.context import RequestContext
from moldau.wire.protocol.api_keys import ApiKey, declared_api
from moldau.wire.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

SOFTWARE_FROM = 3
ALL_FEATURES_FROM = 4
_NO_NODE = -1
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

_supported_features = tuple(
    SupportedFeatureKey(feature.name, feature.min_level, feature.max_level)
    for feature in SUPPORTED_FEATURES
    if feature.name in SERVED_FEATURES
)
_supported_features_from_level_1 = tuple(row for row in _supported_features if row.min_version >= 1)


def versions_of(keys: Iterable[ApiKey]) -> tuple[ApiVersion, ...]:
    """The rows of an answer for a listener that serves `keys`."""
    rows = ((key, declared_api(key)) for key in keys)
    return tuple(ApiVersion(int(key), row.advertised_min_version, row.max_version) for key, row in rows)


def versions_response(
    context: RequestContext,
    request: ApiVersionsRequest,
    throttle_time_ms: int,
    api_keys: tuple[ApiVersion, ...],
    image: MetadataImage,
    kraft_version: int,
    broker_id: int | None = None,
) -> ApiVersionsResponse:
    """Versions 0-5: v1 throttle time, v3 client software and features, v4 features with minimum 0, v5 the node that the
    client means. `kraft_version` is in control records, so it is not in the image. `broker_id`: the broker that
    answers; None: a controller, which answers for any node, as in Kafka."""
    if context.api_version >= SOFTWARE_FROM:
        name, version = request.client_software_name, request.client_software_version
        names_a_node = request.cluster_id is not None
        meant = request.cluster_id, request.node_id
        fault = ""
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)) or (
            names_a_node != (request.node_id != _NO_NODE)
        ):
            fault = "INVALID_REQUEST"
        elif names_a_node and broker_id is not None and meant != (image.cluster_id, broker_id):
            fault = "REBOOTSTRAP_REQUIRED"
        if fault:
            return ApiVersionsResponse(error_code=kafka_error(fault).code, throttle_time_ms=throttle_time_ms)
        context.reply.introduced(f"{name} {version}")
    levels = served_features({**image.features, KRAFT_VERSION: kraft_version})
    has_all_features = context.api_version >= ALL_FEATURES_FROM
    return ApiVersionsResponse(
        api_keys=api_keys,
        throttle_time_ms=throttle_time_ms,
        supported_features=_supported_features if has_all_features else _supported_features_from_level_1,
        finalized_features_epoch=image.end_offset - 1,
        finalized_features=tuple(FinalizedFeatureKey(name, level, level) for name, level in levels.items()),
    )
