"""`kafka-broker-api-versions`: which versions of each request each broker serves."""

from __future__ import annotations

from moldau.cli.kafka.connection import run_on_cluster
from moldau.cli.kafka.options import Arguments, bootstrap_server, check_required, command_config
from moldau.client.admin.brokers import describe_cluster, versions_of
from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.error_texts import as_java_says
from moldau.errors import KafkaError
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey

SUMMARY = "This tool helps to retrieve broker version information."

OPTIONS = (bootstrap_server(), command_config())


def run(arguments: Arguments) -> int:
    check_required(arguments, "bootstrap-server")
    return run_on_cluster(arguments, print_versions)


def print_versions(admin: ClusterAdmin) -> None:
    """Prints the versions of each broker, or of each controller if `admin` asks controllers."""
    for broker in describe_cluster(admin).brokers:
        node = f"id: {broker.broker_id} rack: {broker.rack or 'null'} isFenced: false"
        name = f"{broker.host}:{broker.port} ({node})"
        served = versions_of(admin, broker)
        if isinstance(served, KafkaError):
            print(f"{name} -> ERROR: {as_java_says(served)}")
        else:
            print(f"{name} -> (\n" + ",\n".join(_rows(served)) + "\n)")


def _rows(served: dict[int, tuple[int, int]]) -> list[str]:
    """A row for each API key: the versions that the broker serves, and APIs that only this client knows."""
    return [_row(key, served.get(key)) for key in sorted({*served, *map(int, API_VERSIONS)})]


def _row(key: int, served: tuple[int, int] | None) -> str:
    is_known = key in _NAMES
    name = f"\t{_NAMES.get(key, 'UNKNOWN')}({key}): "
    if served is None:
        return name + "UNSUPPORTED"
    lowest, highest = served
    versions = str(lowest) if lowest == highest else f"{lowest} to {highest}"
    ours = API_VERSIONS.get(ApiKey(key)) if is_known else None
    if ours is None:
        return f"{name}{versions} [unusable: this client never asks it]"
    if lowest > ours.max_version:
        return f"{name}{versions} [unusable: node too new]"
    if highest < ours.min_version:
        return f"{name}{versions} [unusable: node too old]"
    return f"{name}{versions} [usable: {min(highest, ours.max_version)}]"


_NAMES = {int(key): key.name.title().replace("_", "") for key in ApiKey}
