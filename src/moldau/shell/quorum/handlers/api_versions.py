"""ApiVersions: what the controller's listener serves."""

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
    """Versions 0-5, as on a listener for clients (KIP-511, 584), but whichever node the client means: as in Kafka, that
    it names one whole is all that is checked (KIP-1242). Ignored on purpose: nothing."""
    return versions_response(context, request, context.throttle(), _api_keys, quorum.image, quorum.kraft_version)
