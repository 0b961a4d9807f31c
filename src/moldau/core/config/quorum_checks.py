"""The settings of a quorum that Kafka rejects at a start."""

from __future__ import annotations

from typing import Protocol

from moldau.core.config.listeners import Endpoint
from moldau.core.config.quorum_voters import QuorumVoter
from moldau.core.config.setting import invalid_config


class QuorumSettings(Protocol):
    """The settings of `BrokerSettings` about the quorum."""

    @property
    def process_roles(self) -> tuple[str, ...]:
        """broker, controller, or both."""
        ...

    @property
    def node_id(self) -> int:
        """Of this node."""
        ...

    @property
    def controller_quorum_voters(self) -> tuple[QuorumVoter, ...]:
        """The configured voters."""
        ...

    @property
    def controller_quorum_bootstrap_servers(self) -> tuple[Endpoint, ...]:
        """The addresses of controllers to ask."""
        ...

    @property
    def listeners(self) -> tuple[Endpoint, ...]:
        """The listeners for clients."""
        ...

    @property
    def controller_endpoints(self) -> tuple[Endpoint, ...]:
        """The listeners for controllers."""
        ...

    @property
    def is_controller(self) -> bool:
        """The node may vote."""
        ...

    @property
    def is_broker(self) -> bool:
        """The node has partitions."""
        ...

    @property
    def is_whole(self) -> bool:
        """The node is the whole cluster."""
        ...


def check_quorum(settings: QuorumSettings) -> None:
    """A controller of several must be one of the voters, and reachable. A broker without the controller role must be
    neither.

    Raises INVALID_CONFIG in Kafka's words.
    """
    voters = settings.controller_quorum_voters
    if len(settings.process_roles) == 1 and not voters and not settings.controller_quorum_bootstrap_servers:
        raise invalid_config(
            "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap "
            "controllers or controller.quorum.voters must contain a parseable set of controllers."
        )
    if not settings.is_controller:
        _check_broker_alone(settings)
        return
    if not settings.is_broker and settings.listeners:
        raise invalid_config(
            "The listeners config must only contain KRaft controller listeners from controller.listener.names when "
            "process.roles=controller"
        )
    if voters and settings.node_id not in [voter.node_id for voter in voters]:
        ids = ", ".join(str(voter.node_id) for voter in voters)
        raise invalid_config(
            f"If process.roles contains the 'controller' role, the node id {settings.node_id} must be included in the "
            f"set of voters controller.quorum.voters=Set({ids})"
        )
    if not settings.controller_endpoints and not settings.is_whole:
        raise invalid_config(
            "The controller.listener.names must contain at least one value appearing in the 'listeners' configuration "
            "when running the KRaft controller role"
        )


def _check_broker_alone(settings: QuorumSettings) -> None:
    """A broker without the controller role needs an address of a controller, to read the metadata log."""
    voters = settings.controller_quorum_voters
    if settings.node_id in [voter.node_id for voter in voters]:
        ids = ", ".join(str(voter.node_id) for voter in voters)
        raise invalid_config(
            f"If process.roles contains just the 'broker' role, the node id {settings.node_id} must not be included in "
            f"the set of voters controller.quorum.voters=Set({ids})"
        )
    if settings.controller_endpoints:
        raise invalid_config(
            "The controller.listener.names must not contain a value appearing in the 'listeners' configuration when "
            "running KRaft with just the broker role"
        )
