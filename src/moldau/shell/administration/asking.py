"""The node as administration handlers see it, and their way to the controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import msgspec

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.controller.requests import AdministrationRequest
from moldau.core.metadata.image import MetadataImage
from moldau.errors import KafkaError
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import Right
from moldau.types import BrokerId, Pausing

if TYPE_CHECKING:
    from moldau.core.raft.voter_protocol import VoterRequest

Request = TypeVar("Request", bound="AdministrationRequest | VoterRequest")
Response = TypeVar("Response", bound=msgspec.Struct)


class Administered(Protocol):
    """A broker on its listeners, or a controller on its listener."""

    @property
    def node_id(self) -> BrokerId:
        """The id of this node (`node.id`)."""
        ...

    @property
    def image(self) -> MetadataImage:
        """The metadata that this node acts on."""
        ...

    @property
    def settings(self) -> BrokerSettings:
        """The settings in force."""

    @property
    def static_settings(self) -> BrokerSettings:
        """The settings that the node was started with."""

    async def submit(self, request: Any, client: RequestContext) -> Any:
        """The active controller's answer, once its records are committed and in force here. Raises KafkaError."""


async def ask_controller(
    node: Administered,
    context: RequestContext,
    right: Right,
    request: Request,
    refused: Callable[[Request, KafkaError], Pausing[Response]],
) -> Response:
    """The controller's answer. `refused` makes the answer to a client without this right to the cluster, and to a
    request that the controller rejects as a whole."""
    try:
        context.check(right)
        response = cast(Response, await context.wait(node.submit(request, context)))
    except KafkaError as error:
        response = await context.finish(refused(request, error))
    return msgspec.structs.replace(response, throttle_time_ms=context.throttle())
