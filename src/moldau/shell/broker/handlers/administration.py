"""What handlers ask the controller, for a client that may do it to the whole cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec

from moldau.core.controller.requests import AdministrationRequest
from moldau.errors import KafkaError
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import Right
from moldau.types import Pausing

if TYPE_CHECKING:
    from moldau.core.raft.voter_protocol import VoterRequest
    from moldau.shell.broker.role import Broker

Request = TypeVar("Request", bound="AdministrationRequest | VoterRequest")
Response = TypeVar("Response", bound=msgspec.Struct)


async def ask_controller(
    broker: Broker,
    context: RequestContext,
    right: Right,
    request: Request,
    refused: Callable[[Request, KafkaError], Pausing[Response]],
) -> Response:
    """The controller's answer; `refused` makes the answer to a client without this right to the cluster, and to a
    request that the controller refuses as a whole."""
    try:
        context.check(right)
        response = cast(Response, await context.wait(broker.controller.submit(request, context)))
    except KafkaError as error:
        response = await context.finish(refused(request, error))
    return msgspec.structs.replace(response, throttle_time_ms=context.throttle())
