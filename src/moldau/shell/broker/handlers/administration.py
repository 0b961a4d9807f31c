"""What handlers ask the controller, for a client that may do it to the whole cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec

from moldau.core.controller.requests import AdministrationRequest
from moldau.errors import KafkaError, kafka_error
from moldau.shell.network.context import CLUSTER_NAME, RequestContext, Resource
from moldau.types import Pausing

if TYPE_CHECKING:
    from moldau.core.raft.voter_protocol import VoterRequest
    from moldau.shell.broker.role import Broker

Request = TypeVar("Request", bound="AdministrationRequest | VoterRequest")
Response = TypeVar("Response", bound=msgspec.Struct)


def check_cluster(context: RequestContext, operation: int) -> None:
    """Raises CLUSTER_AUTHORIZATION_FAILED for a client that may not do `operation` to the cluster."""
    if not context.authorize(operation, Resource.CLUSTER, CLUSTER_NAME):
        raise kafka_error("CLUSTER_AUTHORIZATION_FAILED", "Cluster authorization failed.")


async def ask_controller(
    broker: Broker,
    context: RequestContext,
    operation: int,
    request: Request,
    refused: Callable[[Request, KafkaError], Pausing[Response]],
) -> Response:
    """The controller's answer; `refused` makes the answer to a client that may not do `operation` to the cluster, and
    to a request that the controller refuses as a whole."""
    try:
        check_cluster(context, operation)
        response = cast(Response, await context.wait(broker.controller.submit(request, context)))
    except KafkaError as error:
        response = await context.finish(refused(request, error))
    return msgspec.structs.replace(response, throttle_time_ms=context.throttle())
