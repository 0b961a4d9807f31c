"""ApiVersions: the APIs and versions of this listener."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.shell.network.api_versions import versions_of, versions_response
from moldau.shell.network.context import RequestContext
from moldau.wire.protocol.api_keys import API_VERSIONS
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

_api_keys = versions_of(API_VERSIONS)


async def act_api_versions(broker: Broker, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Versions 0-5. v1 throttle time, v3 client software (KIP-511) and features (KIP-584), v4 features with minimum 0,
    v5 129 if the client meant another node (KIP-1242).

    Any other version gets 35 in a body of version 0 from the dispatcher (KIP-511). Ignored on purpose: nothing. Not
    subject to `context.authorize`, as in Kafka: a client must learn the versions before it can authenticate.
    """
    kraft_version = broker.controller.kraft_version
    return versions_response(
        context, request, context.throttle(), _api_keys, broker.image, kraft_version, broker.node_id
    )
