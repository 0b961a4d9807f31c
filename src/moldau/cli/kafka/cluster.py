"""`kafka-cluster`: prints the cluster id, lists brokers or controllers, unregisters a broker."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from moldau.cli.kafka.broker_api_versions import print_versions
from moldau.cli.kafka.connection import run_on_cluster
from moldau.cli.kafka.options import ArgumentError, Arguments, Option, bootstrap_server, command_config
from moldau.cli.kafka.subcommands import ClusterCommand, bootstrap_controller, check_connection, chosen_command
from moldau.client.admin.brokers import describe_cluster, unregister_broker, unregister_controller
from moldau.client.admin.client import ClusterAdmin
from moldau.errors import KafkaError
from moldau.wire.protocol.messages.cluster import DescribeClusterBroker

SUMMARY = (
    "The Kafka cluster tool.\n\nusage: kafka-cluster COMMAND --bootstrap-server HOST:PORT ...\n\n"
    "commands: cluster-id, unregister, unregister-controller, list-endpoints, api-versions"
)

OPTIONS = (
    bootstrap_server(short="b"),
    bootstrap_controller(short="C"),
    command_config(short="c"),
    Option("config", "Now --command-config.", "config file", is_deprecated=True),
    Option("id", "unregister, unregister-controller: which one.", "id", kind="int", short="i"),
    Option("include-fenced-brokers", "list-endpoints: also brokers that do not serve."),
)


def run(arguments: Arguments) -> int:
    command = chosen_command(arguments, COMMANDS, SUMMARY)
    check_connection(arguments)
    return run_on_cluster(arguments, partial(command.run, arguments), old_config="config")


def _cluster_id(_: Arguments, admin: ClusterAdmin) -> None:
    print(f"Cluster ID: {describe_cluster(admin).cluster_id}")


def _unregister(arguments: Arguments, admin: ClusterAdmin) -> None:
    broker_id = arguments.integer("id")
    unregister_broker(admin, -1 if broker_id is None else broker_id)
    print(f"Broker {broker_id} is no longer registered.")


def _unregister_controller(arguments: Arguments, admin: ClusterAdmin) -> None:
    controller_id = arguments.integer("id")
    try:
        unregister_controller(admin, -1 if controller_id is None else controller_id)
    except KafkaError as error:
        if error.name != "UNSUPPORTED_VERSION":
            raise
        print("The target cluster does not support the controller unregistration API.")
        return
    print(f"Controller {controller_id} is no longer registered.")


def _api_versions(_: Arguments, admin: ClusterAdmin) -> None:
    print_versions(admin)


def _list_endpoints(arguments: Arguments, admin: ClusterAdmin) -> None:
    if arguments.has("bootstrap-controller"):
        _list_controllers(arguments, admin)
        return
    brokers = describe_cluster(admin, with_fenced=arguments.has("include-fenced-brokers")).brokers
    rows = [("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")]
    for broker in brokers:
        state = "fenced" if broker.is_fenced else "unfenced"
        rows.append((str(broker.broker_id), broker.host, str(broker.port), broker.rack or "null", state, "broker"))
    host_width, rack_width = _widths(brokers)
    _print_table(rows, (10, host_width, 10, rack_width, 10, 15))


def _list_controllers(arguments: Arguments, admin: ClusterAdmin) -> None:
    if arguments.has("include-fenced-brokers"):
        raise ArgumentError("The option --include-fenced-brokers is only supported with --bootstrap-server option")
    controllers = describe_cluster(admin).brokers
    rows = [("ID", "HOST", "PORT", "RACK", "ENDPOINT_TYPE")]
    rows += [
        (str(each.broker_id), each.host, str(each.port), each.rack or "null", "controller") for each in controllers
    ]
    host_width, rack_width = _widths(controllers)
    _print_table(rows, (10, host_width, 10, rack_width, 15))


def _widths(nodes: Sequence[DescribeClusterBroker]) -> tuple[int, int]:
    """The widths of the columns of hosts and of racks."""
    host_width = max((len(node.host) for node in nodes), default=0)
    rack_width = max((len(node.rack or "") for node in nodes), default=0)
    return max(host_width, 9), max(rack_width, 10)


def _print_table(rows: Sequence[tuple[str, ...]], widths: Sequence[int]) -> None:
    for row in rows:
        print(" ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)))


COMMANDS = {
    "cluster-id": ClusterCommand(optional=("config",), run=_cluster_id),
    "unregister": ClusterCommand(required=("id",), optional=("config",), run=_unregister),
    "unregister-controller": ClusterCommand(required=("id",), optional=("config",), run=_unregister_controller),
    "list-endpoints": ClusterCommand(optional=("config", "include-fenced-brokers"), run=_list_endpoints),
    "api-versions": ClusterCommand(optional=("config",), run=_api_versions),
}
