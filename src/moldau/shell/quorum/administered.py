"""The controller for administration handlers, in the place of a broker on its listeners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.controller.configs import view_in_force
from moldau.core.metadata.image import MetadataDelta, MetadataImage
from moldau.shell.network.context import RequestContext

if TYPE_CHECKING:
    from moldau.shell.quorum.role import QuorumRole


class AdministeredController:
    """Only the active controller decides: any other rejects requests with NOT_CONTROLLER, and clients look for the
    active one."""

    def __init__(self, quorum: QuorumRole, static_settings: BrokerSettings) -> None:
        self.node_id = quorum.identity.node_id
        self.static_settings = static_settings
        self.settings = static_settings
        """The settings in force."""
        self._quorum = quorum
        quorum.subscribe(self._metadata_changed)

    @property
    def image(self) -> MetadataImage:
        """The committed metadata of this controller."""
        return self._quorum.image

    def _metadata_changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        if delta.configs:
            self.settings = view_in_force(image, self.static_settings)[0]

    async def submit(self, request: Any, client: RequestContext) -> Any:
        """The controller's answer. Raises KafkaError."""
        return await self._quorum.submit(request)
