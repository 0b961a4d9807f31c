"""What nouns that talk to a cluster share: the address option, and confluent-kafka clients that fail in words."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from moldau.cli.output import CommandError

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

T = TypeVar("T")
DEFAULT_BOOTSTRAP_SERVER = "127.0.0.1:9092"
TIMEOUT_S = 10.0


def add_cluster_arguments(parser: argparse.ArgumentParser, *, json: bool = True) -> None:
    parser.add_argument(
        "--bootstrap-server",
        "-b",
        default=DEFAULT_BOOTSTRAP_SERVER,
        metavar="HOST:PORT",
        help="any broker of the cluster (default %(default)s)",
    )
    if json:
        parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def client_settings(arguments: argparse.Namespace, **extra: object) -> dict[str, object]:
    """Settings of a confluent-kafka client: quiet, because a failure becomes one sentence of ours."""
    return {"bootstrap.servers": arguments.bootstrap_server, "log_level": 0, "client.id": "moldau-cli", **extra}


def open_admin(arguments: argparse.Namespace) -> AdminClient:
    from confluent_kafka.admin import AdminClient

    return AdminClient(client_settings(arguments))


@contextmanager
def explained(arguments: argparse.Namespace) -> Iterator[None]:
    """Turns what confluent-kafka raises into a CommandError."""
    from confluent_kafka import KafkaError, KafkaException

    try:
        yield
    except KafkaException as exception:
        error = exception.args[0]
        if error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT):
            raise CommandError(f"no broker answers at {arguments.bootstrap_server}") from exception
        raise CommandError(error.str()) from exception


def results_of(futures: Mapping[Any, Future[T]], describe: Callable[[Any, T | None, str | None], None]) -> bool:
    """Waits for each future and describes its outcome; gives whether all succeeded."""
    from confluent_kafka import KafkaException

    all_succeeded = True
    for key, future in futures.items():
        try:
            describe(key, future.result(timeout=TIMEOUT_S + 5), None)
        except KafkaException as exception:
            all_succeeded = False
            describe(key, None, exception.args[0].str())
    return all_succeeded
