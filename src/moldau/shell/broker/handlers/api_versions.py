"""ApiVersions: what this listener serves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from moldau.core.metadata.features import SERVED_FEATURES, SUPPORTED_FEATURES, served_features
from moldau.errors import kafka_error
from moldau.shell.network.context import RequestContext
from moldau.wire.protocol.api_keys import API_VERSIONS
from moldau.wire.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

SOFTWARE_FROM = 3
ALL_FEATURES_FROM = 4
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

_api_keys = tuple(
    ApiVersion(int(key), row.advertised_min_version, row.max_version) for key, row in API_VERSIONS.items()
)
_supported_features = tuple(
    SupportedFeatureKey(feature.name, feature.min_level, feature.max_level)
    for feature in SUPPORTED_FEATURES
    if feature.name in SERVED_FEATURES
)
_supported_features_from_level_1 = tuple(row for row in _supported_features if row.min_version >= 1)


async def act_api_versions(broker: Broker, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Versions 0-4. v1 throttle time, v3 client software (KIP-511) and features (KIP-584), v4 features with minimum 0.

    Any other version gets 35 in a body of version 0 from the dispatcher (KIP-511). Ignored on purpose: nothing. Not
    subject to `context.authorize`, as in Kafka: a client must learn the versions before it can authenticate.
    """
    throttle_time_ms = context.throttle()
    if context.api_version >= SOFTWARE_FROM:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            return ApiVersionsResponse(
                error_code=kafka_error("INVALID_REQUEST").code, throttle_time_ms=throttle_time_ms
            )
        context.reply.introduced(f"{name} {version}")
    has_all_features = context.api_version >= ALL_FEATURES_FROM
    image = broker.image
    return ApiVersionsResponse(
        api_keys=_api_keys,
        throttle_time_ms=throttle_time_ms,
        supported_features=_supported_features if has_all_features else _supported_features_from_level_1,
        finalized_features_epoch=image.end_offset - 1,
        finalized_features=tuple(
            FinalizedFeatureKey(name, level, level) for name, level in served_features(image.features).items()
        ),
    )
