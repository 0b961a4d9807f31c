"""Changes of the cluster as a whole: its features and its members."""

from __future__ import annotations

import msgspec

from moldau.core.controller import features
from moldau.errors import KafkaError
from moldau.shell.administration.asking import Administered, ask_controller
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import ALTER_CLUSTER
from moldau.types import Pausing
from moldau.wire.protocol.messages.cluster import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UnregisterControllerRequest,
    UnregisterControllerResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

RESULTS_UNTIL = 1


async def act_update_features(
    node: Administered, context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    """Versions 0-2. KIP-584; v1 kinds of downgrade and validation only (KIP-584 as amended), v2 one result for all
    (KIP-1022).

    Ignored on purpose: the timeout (one node decides at once), and `allow_downgrade` of v0, which Kafka 4 ignores too.
    """
    response = await ask_controller(node, context, ALTER_CLUSTER, request, features.refused)
    return response if context.api_version <= RESULTS_UNTIL else msgspec.structs.replace(response, results=())


async def act_unregister_broker(
    node: Administered, context: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    """Versions 0-0. KIP-631.

    A serving broker gets 42, where Apache Kafka unregisters it. Ignored on purpose: nothing.
    """

    def refused(_: UnregisterBrokerRequest, error: KafkaError) -> Pausing[UnregisterBrokerResponse]:
        yield
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)

    return await ask_controller(node, context, ALTER_CLUSTER, request, refused)


async def act_unregister_controller(
    node: Administered, context: RequestContext, request: UnregisterControllerRequest
) -> UnregisterControllerResponse:
    """Versions 0-0. Removes a registration of KIP-919. Below `metadata.version` 33 the answer is 35, for the active
    controller 42. Ignored on purpose: nothing."""

    def refused(_: UnregisterControllerRequest, error: KafkaError) -> Pausing[UnregisterControllerResponse]:
        yield
        return UnregisterControllerResponse(error_code=error.code, error_message=error.message)

    return await ask_controller(node, context, ALTER_CLUSTER, request, refused)
