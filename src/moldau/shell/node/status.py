"""The parts and the state of a node: filled in by the node while it starts, read for its operators."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.ports import Clock
    from moldau.shell.broker.role import Broker
    from moldau.shell.network.connection_group import ConnectionGroup
    from moldau.shell.network.dispatch import Dispatcher
    from moldau.shell.node.loop_watch import LoopWatch
    from moldau.shell.quorum.role import QuorumRole
    from moldau.telemetry import Telemetry


class BrokerState(enum.IntEnum):
    """As Kafka's BrokerState."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    SHUTTING_DOWN = 7


class NodeStatus:
    """One per node. Its parts are None until they exist."""

    def __init__(self, clock: Clock, telemetry: Telemetry, watch: LoopWatch, group: ConnectionGroup) -> None:
        self.clock = clock
        self.telemetry = telemetry
        self.watch = watch
        self.group = group
        self.state = BrokerState.STARTING
        self.quorum: QuorumRole | None = None
        self.broker: Broker | None = None
        self.dispatcher: Dispatcher | None = None
        """Exists once clients are served; never on a controller alone."""
        self.last_scrape_s = 0.0
        """How long the last scrape took."""

    def recovering(self) -> None:
        """The logs are being opened, and recovered if necessary."""
        self.state = BrokerState.RECOVERY

    def serving(self, quorum: QuorumRole, broker: Broker | None = None, dispatcher: Dispatcher | None = None) -> None:
        """The node serves from now on; a controller alone has neither broker nor clients."""
        self.quorum, self.broker, self.dispatcher = quorum, broker, dispatcher
        self.state = BrokerState.RUNNING

    def stopping(self) -> None:
        """The node has started to stop."""
        self.state = BrokerState.SHUTTING_DOWN

    def ended(self) -> None:
        """The node has stopped."""
        self.state = BrokerState.NOT_RUNNING

    def scraped(self, elapsed_s: float) -> None:
        """A scrape of the metrics took `elapsed_s` seconds."""
        self.last_scrape_s = elapsed_s

    def reason_not_ready(self) -> str | None:
        """Why clients are not served; None if they are."""
        if self.state in (BrokerState.STARTING, BrokerState.RECOVERY):
            return "starting" if self.state is BrokerState.STARTING else "the logs are being opened or recovered"
        return None if self.state is BrokerState.RUNNING else "stopping"
