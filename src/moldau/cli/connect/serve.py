"""`moldau connect serve`: a worker, which runs connectors."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moldau.cli.access import access_of
from moldau.cli.arguments import Subparsers, not_empty, origin_of, settings_in
from moldau.cli.cluster import explained
from moldau.cli.connect.files import read_connector
from moldau.cli.output import CommandError
from moldau.cli.services.service import add_service_arguments, address_of, listen_as_told, opening_of

if TYPE_CHECKING:
    from moldau.client.protocol.access import ClusterAccess
    from moldau.products.connect.settings import WorkerSettings
    from moldau.products.connect.worker import Worker

DEFAULT_CONNECT_PORT = 8083
"""That of Kafka Connect."""


def add_verb(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    serve = verbs.add_parser(
        "serve",
        help="run connectors, and take more of them over HTTP",
        description="A worker with Kafka Connect's REST interface. Workers with the same --group-id share the tasks of "
        "the connectors; their configurations, offsets and states are in three topics.",
        examples=(
            "moldau connect serve",
            "moldau connect serve --group-id shop --config worker.properties --port 8084",
            "moldau connect serve --standalone orders.json clicks.properties",
        ),
    )
    add_service_arguments(serve, DEFAULT_CONNECT_PORT)
    serve.add_argument("--group-id", type=not_empty, metavar="ID", help="of the group of workers")
    serve.add_argument(
        "--config",
        type=not_empty,
        metavar="FILE",
        help="settings of the worker by Kafka Connect's names, and those of its client",
    )
    serve.add_argument(
        "--standalone",
        action="store_true",
        help="run alone, with the connectors of the files: configurations and states are in memory",
    )
    serve.add_argument("file", nargs="*", default=[], help="with --standalone: a connector, as JSON or properties")
    serve.set_defaults(run=run_worker)


def run_worker(arguments: argparse.Namespace) -> int:
    """Serves until Ctrl-C or SIGTERM."""
    require_connectors("`moldau connect serve`")
    if arguments.file and not arguments.standalone:
        raise CommandError("files of connectors need --standalone; `moldau connect create` gives them to a group")
    connectors = [read_connector(path) for path in arguments.file]
    arguments, settings = _settings(arguments)
    access = access_of(arguments)
    opening = opening_of(arguments)
    listening = listen_as_told(arguments)
    from moldau.errors import MoldauError
    from moldau.products.connect.rest.served import serve
    from moldau.products.connect.running.programs import PROGRAMS
    from moldau.products.connect.worker import Worker
    from moldau.shell.io.host_name import registered_host

    address = settings.text("rest.advertised.url") or address_of(listening, opening, registered_host)
    try:
        with explained(arguments):
            worker = Worker(access, settings, PROGRAMS, address, is_standalone=arguments.standalone)
        try:
            _create(worker, connectors)
            print(f"connect {address_of(listening, opening)}", flush=True)
            serve(worker, listening, access, opening)
        finally:
            worker.close()
    except MoldauError as error:
        raise CommandError(str(error)) from error
    return 0


def _create(worker: Worker, connectors: list[dict[str, Any]]) -> None:
    """Raises Refusal."""
    from moldau.products.connect.requests import Requests
    from moldau.products.connect.rest.bodies import creation_of

    requests = Requests(worker)
    for connector in connectors:
        requests.create(*creation_of(connector))


def _settings(arguments: argparse.Namespace) -> tuple[argparse.Namespace, WorkerSettings]:
    """The arguments with the access of the file of settings, if it has one. Raises CommandError."""
    from moldau.products.connect.settings import WorkerSettings, WorkerSettingsError, of_client

    given: Mapping[str, str] = {} if arguments.config is None else settings_in(arguments.config)
    try:
        client = of_client(given)
        own = {name: value for name, value in given.items() if name not in client}
        if arguments.group_id is not None:
            own["group.id"] = arguments.group_id
        settings = WorkerSettings(own)
    except WorkerSettingsError as error:
        raise CommandError(f"{arguments.config}: {error}") from error
    if client and arguments.command_config is None and arguments.profile is None:
        return argparse.Namespace(**vars(arguments), access=_access_of_file(arguments, client)), settings
    return arguments, settings


def _access_of_file(arguments: argparse.Namespace, client: Mapping[str, str]) -> ClusterAccess:
    from moldau.cli.access import default_bootstrap_server
    from moldau.client.protocol.access import BOOTSTRAP_SERVERS, AccessError, ClusterAccess

    servers = arguments.bootstrap_server or client.get(BOOTSTRAP_SERVERS) or default_bootstrap_server()
    try:
        return ClusterAccess.from_properties({**client, BOOTSTRAP_SERVERS: servers}, origin=origin_of(arguments.config))
    except AccessError as error:
        raise CommandError(f"{arguments.config}: {error}") from error


def require_connectors(who: str) -> None:
    """Raises CommandError."""
    from moldau.extras import MissingExtraError, require_extra

    try:
        require_extra(who, "connectors")
    except MissingExtraError as error:
        raise CommandError(str(error)) from error
