"""`kafka-cluster`: the id of a cluster, its brokers, and forgetting one that is gone."""

from __future__ import annotations

from functools import partial

from moldau.cli.kafka.connection import run_on_cluster
from moldau.cli.kafka.options import ArgumentError, Arguments, Option, bootstrap_server, command_config
from moldau.cli.kafka.subcommands import ClusterCommand, chosen_command
from moldau.client.admin.brokers import describe_cluster, unregister_broker
from moldau.client.admin.client import ClusterAdmin

SUMMARY = (
    "The Kafka cluster tool.\n\nusage: kafka-cluster COMMAND --bootstrap-server HOST:PORT ...\n\n"
    "commands: cluster-id, unregister, list-endpoints"
)

OPTIONS = (
    bootstrap_server(short="b"),
    command_config(),
    Option("id", "unregister: the id of the broker.", "id", kind="int", short="i"),
    Option("include-fenced-brokers", "list-endpoints: also brokers that do not serve."),
)


def run(arguments: Arguments) -> int:
    command = chosen_command(arguments, _COMMANDS, SUMMARY)
    if not arguments.has("bootstrap-server"):
        raise ArgumentError("the argument --bootstrap-server/-b is required")
    return run_on_cluster(arguments, partial(command.run, arguments))


def _cluster_id(_: Arguments, admin: ClusterAdmin) -> None:
    print(f"Cluster ID: {describe_cluster(admin).cluster_id}")


def _unregister(arguments: Arguments, admin: ClusterAdmin) -> None:
    broker_id = arguments.integer("id")
    unregister_broker(admin, -1 if broker_id is None else broker_id)
    print(f"Broker {broker_id} is no longer registered.")


def _list_endpoints(arguments: Arguments, admin: ClusterAdmin) -> None:
    brokers = describe_cluster(admin, with_fenced=arguments.has("include-fenced-brokers")).brokers
    host_width = max((len(broker.host) for broker in brokers), default=0)
    rack_width = max((len(broker.rack or "") for broker in brokers), default=0)
    widths = 10, max(host_width, 9), 10, max(rack_width, 10), 10, 15
    rows = [("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")]
    for broker in brokers:
        state = "fenced" if broker.is_fenced else "unfenced"
        rows.append((str(broker.broker_id), broker.host, str(broker.port), broker.rack or "null", state, "broker"))
    for row in rows:
        print(" ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)))


_COMMANDS = {
    "cluster-id": ClusterCommand(run=_cluster_id),
    "unregister": ClusterCommand(required=("id",), run=_unregister),
    "list-endpoints": ClusterCommand(optional=("include-fenced-brokers",), run=_list_endpoints),
}
