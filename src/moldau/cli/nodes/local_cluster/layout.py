"""The directory of a cluster on one machine, and the settings of its nodes.

    node-1/              the log directory of node 1, like that of any node
    node-1.properties    its settings, written at each start; `moldau up --config` runs this node alone
    forming/             log directories while the cluster is formatted; no node has started with them

A controller keeps its port, because the metadata log contains it. Brokers may get new ports at each start.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

import msgspec

from moldau.cli.output import CommandError
from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.config.listeners import Endpoint, parse_endpoints
from moldau.core.config.properties import format_properties, parse_properties
from moldau.core.config.replicated import replicated
from moldau.core.metadata.image import BrokerListener
from moldau.core.metadata.random_uuid import random_uuid
from moldau.ports import Clock, Disk, Random
from moldau.shell.io.disk import OsDisk, make_durable_directory
from moldau.shell.io.host_name import registered_host
from moldau.shell.node.storage_format import (
    META_PROPERTIES,
    find_use,
    format_directory,
    parse_initial_controllers,
    read_meta_properties,
)
from moldau.transport.held_port import hold_port
from moldau.types import BrokerId, uuid_to_text
from moldau.wire.protocol.messages.raft_records import VotersRecordVoter
from moldau.wire.protocol.security_protocols import PLAINTEXT, SSL

LOOPBACK = "127.0.0.1"
LAST_PORT = 65_535
MAX_BROKERS = 9
CONTROLLER = "CONTROLLER"
_FORMING = "forming"

OWN_SETTINGS = (
    *("process.roles", "node.id", "broker.id", "listeners", "log.dir", "log.dirs"),
    *("controller.listener.names", "controller.quorum.voters", "controller.quorum.bootstrap.servers"),
    "controller.quorum.auto.join.enable",
    *("listener.security.protocol.map", "inter.broker.listener.name"),
)
"""The settings that the layout sets for each node; users must not set them."""
ADVERTISED = "advertised.listeners"
METRICS = "moldau.http.listener"
"""These two settings are given for node 1: each further node has the next port."""


class LocalNode(msgspec.Struct, frozen=True):
    """One node. `held` reserves its two ports, also while its process restarts. `bound` is its listening address for
    clients, `address` the one by which they reach it."""

    node_id: int
    config: Path
    bound: str
    address: str
    held: tuple[socket.socket, socket.socket]


def brokers_in(directory: Path) -> int:
    """The number of nodes of the cluster in `directory`, including lost log directories; 0 without a cluster."""
    node_ids = range(1, MAX_BROKERS + 1)
    if not any(_log_directory(directory, node_id).is_dir() for node_id in node_ids):
        return 0
    return max(
        node_id
        for node_id in node_ids
        if _log_directory(directory, node_id).is_dir() or (directory / f"node-{node_id}.properties").is_file()
    )


def lay_out(
    directory: Path,
    brokers: int,
    host: str,
    port: int,
    settings: Mapping[str, str],
    clock: Clock,
    random: Random,
    *,
    has_tls: bool = False,
) -> list[LocalNode]:
    """Makes the cluster if `directory` has none, and returns its nodes. A new node, or one that has lost its log
    directory, joins the others. The brokers listen at `port` and the ports after it, or at any ports if it is 0. If
    `host` means every interface, they advertise the name of this machine, unless `advertised.listeners` says another.
    `has_tls`: clients and brokers connect by TLS with the `ssl.*` settings; controllers listen on the loopback in plain
    text. Raises CommandError if the directory holds more nodes or something else, or a port is taken; KafkaError for an
    invalid setting."""
    if (directory / META_PROPERTIES).exists():
        raise CommandError(f"{directory} holds the records of a node that is alone: a cluster needs another --data-dir")
    own = [name for name in OWN_SETTINGS if name in settings]
    if own:
        raise CommandError(f"with --brokers, {own[0]} is not yours to set: each node has its own")
    protocol = SSL if has_tls else PLAINTEXT
    advertised = _advertised(settings, host, protocol)
    for first in (port, advertised.port, _http_port(settings)):
        if first + brokers - 1 > LAST_PORT:
            raise CommandError(f"{brokers} brokers from port {first} on would need ports beyond {LAST_PORT}")
    make_durable_directory(str(directory))
    _end_forming(directory)
    known = brokers_in(directory)
    if brokers < known:
        raise CommandError(f"{directory} holds a cluster of {known} brokers: start it with --brokers {known} or more")
    nodes = [_hold_ports(directory, node_id, host, port, advertised) for node_id in range(1, brokers + 1)]
    disk = OsDisk(str(directory))
    for node in nodes:
        whole = _settings_of(node, nodes, directory, settings, protocol)
        parse_broker_settings(whole)
        # replace the whole file or nothing: on a full disk, the controller's port must survive, which only this file
        # has
        disk.replace_file(node.config.name, format_properties(whole).encode())
    if not known:
        _format_cluster(directory, nodes, clock, random)
    for node in nodes if known else ():
        _format_new(directory, node, clock, random)
    return nodes


def _log_directory(directory: Path, node_id: int) -> Path:
    return directory / f"node-{node_id}"


def _advertised(settings: Mapping[str, str], host: str, protocol: str) -> Endpoint:
    """The advertised endpoint of node 1; port 0 means the port at which it listens."""
    text = settings.get(ADVERTISED)
    if text is None:
        return Endpoint(protocol, registered_host(host.strip("[]")), 0)
    first, *others = parse_endpoints(ADVERTISED, (text,))
    if others or first.name != protocol:
        raise CommandError(f"with --brokers, {ADVERTISED} is {protocol}://HOST:PORT of node 1, not {text}")
    return first


def _http_port(settings: Mapping[str, str]) -> int:
    """The HTTP port of node 1; 0 for any port, or for an invalid one, which the node itself reports."""
    number = settings.get(METRICS, "").rpartition(":")[2].removesuffix("+")
    return int(number) if number.isdecimal() else 0


def _http_listener(text: str, node_id: int) -> str:
    """`text`, HOST:PORT or HOST:PORT+ (see Operations), with the port of this node."""
    place, _, port = text.rpartition(":")
    number = port.removesuffix("+")
    return f"{place}:{_shifted(int(number), node_id)}{port[len(number) :]}" if number.isdecimal() else text


def _shifted(port: int, node_id: int) -> int:
    """The port of a node if node 1 has `port`; 0 stays 0, any port."""
    return port and port + node_id - 1


def _hold_ports(directory: Path, node_id: int, host: str, first_port: int, advertised: Endpoint) -> LocalNode:
    config = directory / f"node-{node_id}.properties"
    controller_port = 0
    if config.exists():
        listeners = parse_properties(config.read_text("utf-8", "replace")).get("listeners", "")
        port_text = listeners.rpartition(":")[2]
        if not port_text.isdigit():
            raise CommandError(
                f"{config} does not say where its controller listens: the metadata of the cluster names that port, "
                "so write it there again (listeners=...,CONTROLLER://127.0.0.1:PORT), or delete the file, if only this "
                "node has lost it"
            )
        controller_port = int(port_text)
    held = _hold(node_id, host, _shifted(first_port, node_id))
    bound_port = held.getsockname()[1]
    reached = Endpoint(advertised.name, advertised.host, _shifted(advertised.port, node_id) or bound_port)
    held_ports = held, _hold(node_id, LOOPBACK, controller_port)
    return LocalNode(node_id, config, f"{host}:{bound_port}", str(reached).partition("//")[2], held_ports)


def _hold(node_id: int, host: str, port: int) -> socket.socket:
    try:
        return hold_port(host, port)
    except OSError as error:
        raise CommandError(f"port {port} on {host}, of node {node_id}, cannot be had: {error.strerror}") from error


def _settings_of(
    node: LocalNode, nodes: list[LocalNode], directory: Path, settings: Mapping[str, str], protocol: str
) -> dict[str, str]:
    """The defaults of a cluster, overridden by the user's settings, overridden by those of this node alone."""
    replicas = min(3, len(nodes))
    return {
        **replicated(replicas),
        **settings,
        **({METRICS: _http_listener(settings[METRICS], node.node_id)} if METRICS in settings else {}),
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "listeners": f"{protocol}://{node.bound},{CONTROLLER}://{_controller_address(node)}",
        ADVERTISED: f"{protocol}://{node.address}",
        "listener.security.protocol.map": f"{protocol}:{protocol},{CONTROLLER}:{PLAINTEXT}",
        "controller.listener.names": CONTROLLER,
        "controller.quorum.auto.join.enable": "true",
        "controller.quorum.bootstrap.servers": ",".join(map(_controller_address, nodes)),
        "log.dirs": str(_log_directory(directory, node.node_id).resolve()),
    }


def _controller_address(node: LocalNode) -> str:
    return f"{LOOPBACK}:{node.held[1].getsockname()[1]}"


def _format_cluster(directory: Path, nodes: list[LocalNode], clock: Clock, random: Random) -> None:
    """Formats the log directories under `forming/` and renames them once all are complete: after an earlier crash,
    formatting starts again."""
    cluster_id, now_ms = uuid_to_text(random_uuid(random)), clock.now_ms()
    text = ",".join(f"{node.node_id}@{_controller_address(node)}:{uuid_to_text(random_uuid(random))}" for node in nodes)
    controllers = parse_initial_controllers(text, CONTROLLER)
    for node in nodes:
        _format(_log_directory(directory / _FORMING, node.node_id), node, cluster_id, controllers, now_ms, random)
    move_formed(OsDisk(str(directory)))


def _format_new(directory: Path, node: LocalNode, clock: Clock, random: Random) -> None:
    """Formats a log directory that is absent, or that a crash left unformatted."""
    own = _log_directory(directory, node.node_id)
    if not (own / META_PROPERTIES).exists():
        formatted = next(directory.glob(f"node-*/{META_PROPERTIES}"), None)
        properties = None if formatted is None else read_meta_properties(OsDisk(str(formatted.parent)))
        if properties is None:
            raise CommandError(f"no node in {directory} has its {META_PROPERTIES}: put one back")
        _format(own, node, properties.cluster_id, (), clock.now_ms(), random)


def _format(
    path: Path,
    node: LocalNode,
    cluster_id: str,
    controllers: tuple[VotersRecordVoter, ...],
    now_ms: int,
    random: Random,
) -> None:
    disk = OsDisk(str(path))
    used = find_use(disk)
    if used is not None:
        raise CommandError(f"{path} holds {used}, but no {META_PROPERTIES}: put {META_PROPERTIES} back")
    format_directory(
        disk,
        random,
        now_ms=now_ms,
        node_id=BrokerId(node.node_id),
        controller_listener=BrokerListener(CONTROLLER, LOOPBACK, node.held[1].getsockname()[1]),
        cluster_id=cluster_id,
        initial_controllers=controllers,
    )


def move_formed(disk: Disk) -> None:
    """Moves the complete log directories from `forming/` to their final names. Flushes the names to disk: otherwise a
    loss of power could bring `forming/` back with all records written since, and the next start removes it."""
    for name in disk.list_directory(_FORMING):
        disk.rename(f"{_FORMING}/{name}", name)
    disk.flush_directory("")
    disk.remove_tree(_FORMING)


def _end_forming(directory: Path) -> None:
    """Completes the renaming after a crash: if one log directory has its final name, all of them were complete."""
    if brokers_in(directory) and (directory / _FORMING).is_dir():
        move_formed(OsDisk(str(directory)))
    shutil.rmtree(directory / _FORMING, ignore_errors=True)
