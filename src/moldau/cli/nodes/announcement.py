"""The lines that a node's process prints on standard output once it serves."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.output import drop_output
from moldau.wire.protocol.security_protocols import has_sasl

if TYPE_CHECKING:
    from moldau.cli.nodes.up_tls import LocalTls
    from moldau.core.config.broker_settings import BrokerSettings
    from moldau.shell.node.assemble import Node

logger = logging.getLogger("moldau.node")

METRICS = "metrics"
READY = "ready "
"""The prefix of the last line: scripts wait for it."""


def announce(
    settings: BrokerSettings,
    node: Node,
    is_in_memory: bool,
    beside: Mapping[str, str],
    tls: LocalTls | None = None,
) -> None:
    """Prints the node, its durability and how to connect; last `ready HOST:PORT`. `beside`: addresses of further
    services, by name. `tls`: the TLS settings that clients need."""
    from moldau import __version__

    address = node.bootstrap_servers
    connect, *others = advertised_addresses(settings, node) if settings.is_broker else [address]
    which = "a cluster of one node" if settings.is_whole else f"node {settings.node_id} of a cluster"
    security = authentication(settings)
    if settings.tls_listeners:
        security = f"TLS at {', '.join(settings.tls_listeners)}, {security}"
    lines = [f"Moldau {__version__}: {' and '.join(settings.process_roles)}, {which}, Kafka protocol, {security}"]
    lines += [f"  note       {notice}" for notice in settings.notices()]
    where = ", ".join(str(Path(path).resolve()) for path in settings.log_directories)
    lines.append(f"  records    {'in memory only' if is_in_memory else where}")
    if settings.is_broker:
        lines.append(f"  durability {durability(settings, is_in_memory)}")
    lines.append(f"  connect    bootstrap.{'servers' if settings.is_broker else 'controllers'}={connect}")
    lines += [f"             bootstrap.servers={other}" for other in others]
    if connect.split(" ")[0] != address:
        lines.append(f"  listens    {address}")
    lines += lines_of_tls(tls)
    lines += [f"  {name:<10} {address}" for name, address in beside.items()]
    if node.operations is not None:
        lines.append(
            f"  {METRICS}    {node.operations.scheme}://{node.operations.address}/metrics (also /live and /ready)"
        )
    if settings.is_broker:
        lines.append(line_to_try(connect.split(" ")[0], tls))
    say([*lines, f"{READY}{address}"])


def lines_of_tls(tls: LocalTls | None) -> list[str]:
    """The TLS settings that clients need."""
    return [f"  {'TLS' if place == 0 else '':<10} {line}" for place, line in enumerate(tls.lines if tls else ())]


def line_to_try(address: str, tls: LocalTls | None) -> str:
    """A command that writes a first record."""
    secured = f" --command-config {shlex.quote(str(tls.properties))}" if tls else ""
    return f"  try        echo hello | moldau produce greetings -b {address}{secured}"


def authentication(settings: BrokerSettings) -> str:
    """The client listeners that require a login."""
    names = [endpoint.name for endpoint in settings.listeners]
    asking = [name for name in names if has_sasl(settings.protocol_of(name))]
    if not asking:
        return "no authentication"
    if len(asking) == len(names):
        return "authentication by SASL"
    return f"authentication by SASL only at {', '.join(asking)}"


def advertised_addresses(settings: BrokerSettings, node: Node) -> list[str]:
    """The addresses that the cluster gives to clients, listener by listener; with the listener's name if the node has
    several. A single node without `advertised.listeners` gives clients the address to which they connected."""
    registered = node.broker.image.brokers[node.node_id].listeners
    found = []
    for place, point in enumerate(registered):
        address = f"[{point.host}]:{point.port}" if ":" in point.host else f"{point.host}:{point.port}"
        if place == 0 and settings.is_whole and not settings.advertised_listeners:
            address = node.bootstrap_servers
        found.append(address if len(registered) == 1 else f"{address} ({point.name})")
    return found


def say(lines: Sequence[str]) -> None:
    """Prints the lines. The node serves even if they cannot be written (`| head -1`, a full disk): then the log has one
    line about it."""
    try:
        # one write, also where output is not buffered: the log of another process may be on the same pipe
        print("".join(f"{line}\n" for line in lines), end="", flush=True)
    except OSError as error:
        reason = error.strerror or error
        logger.warning("standard output takes nothing: %s", reason, extra={"kind": "standard output", "fields": {}})
        drop_output()


def durability(settings: BrokerSettings, is_in_memory: bool) -> str:
    if is_in_memory:
        return "none: everything is gone when this process ends"
    if settings.log_flush_interval_messages == 1:
        return "an acknowledged record is on disk (fsync before the answer)"
    return (
        "an acknowledged record survives the death of this process, not a power cut "
        "(log.flush.interval.messages=1 waits for the disk)"
    )
