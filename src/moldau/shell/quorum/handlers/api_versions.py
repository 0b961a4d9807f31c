"""ApiVersions: the APIs of the controller's listener."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.shell.network.api_versions import versions_of, versions_response
from moldau.shell.network.context import RequestContext
from moldau.shell.quorum.handlers.table import served_apis
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from moldau.shell.quorum.role import QuorumRole

_api_keys = versions_of(served_apis())


async def act_api_versions(
    quorum: QuorumRole, context: RequestContext, request: ApiVersionsRequest
) -> ApiVersionsResponse:
    """Versions 0-5, as on a client listener (KIP-511, 584), but for any node that the client means: as in Kafka, the
    only check is that a node is named completely (KIP-1242). Ignored on purpose: nothing."""
    return versions_response(context, request, context.throttle(), _api_keys, quorum.image, quorum.kraft_version)
