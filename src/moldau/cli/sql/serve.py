"""`moldau sql serve`: statements that run for good, sent over HTTP."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from moldau.cli.arguments import Subparsers
from moldau.cli.cluster import explained
from moldau.cli.output import CommandError
from moldau.cli.services.service import add_service_arguments, address_of, listen_as_told, opening_of
from moldau.cli.sql.engines import add_settings_arguments, engine_settings, has_extra

if TYPE_CHECKING:
    from moldau.products.sql.catalog.deciding import Change
    from moldau.products.sql.catalog.journal import Journal
    from moldau.products.sql.engine.engine import Engine
    from moldau.spark import SparkSession

DEFAULT_SQL_PORT = 8088
"""That of ksqlDB."""
DEFAULT_ID = "default"


def add_verb(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    serve = verbs.add_parser(
        "serve",
        help="run statements for good, and take more of them over HTTP",
        description="Keeps the statements in the topic _moldau_sql_ID, and runs them again after a restart. Several "
        "instances may have one ID, with the same directory of checkpoints: one runs the statements, and another takes "
        "over when it ends.",
        examples=(
            "moldau sql serve --id shop",
            "moldau sql serve --id shop -b kafka.example.org:9092 --checkpoints /srv/shop --port 8089",
            """curl localhost:8088/ksql -d '{"ksql": "SHOW STREAMS;"}'""",
        ),
    )
    add_service_arguments(serve, DEFAULT_SQL_PORT)
    serve.add_argument(
        "--id",
        type=_service_id,
        default=DEFAULT_ID,
        metavar="ID",
        help="of the service: the statements belong to it (default: %(default)s)",
    )
    add_settings_arguments(serve)
    serve.set_defaults(run=run_service)


def run_service(arguments: argparse.Namespace) -> int:
    """Serves until Ctrl-C or SIGTERM. 2 for a missing extra or a wrong file of functions."""
    if not has_extra():
        return 2
    settings = engine_settings(arguments, arguments.id)
    opening = opening_of(arguments)
    listening = listen_as_told(arguments)
    import msgspec

    from moldau.errors import MoldauError
    from moldau.products.pipelines.running.logs import logs_to
    from moldau.products.pipelines.running.runner import DRIVER_LOG
    from moldau.products.sql.engine.engine import Engine
    from moldau.products.sql.engine.function_files import load_functions
    from moldau.products.sql.serving.served import serve
    from moldau.products.sql.serving.service import SqlService
    from moldau.shell.io.host_name import registered_host
    from moldau.spark import open_session
    from moldau.spark.definitions.python_functions import FunctionFileError

    directory = settings.directory
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"--checkpoints {arguments.checkpoints}: {error.strerror or error}") from error
    log = directory / DRIVER_LOG
    sessions: list[SparkSession] = []

    def open_engine(journal: Journal, kept: Sequence[Change]) -> Engine:
        return Engine(sessions[0], settings, journal, kept)

    say = partial(print, "sql", flush=True)
    try:
        with explained(arguments), logs_to(log), ExitStack() as stack:
            reached_at = address_of(listening, opening, registered_host)
            sql = SqlService(settings.access, arguments.id, reached_at, open_engine, say)
            stack.callback(sql.close)
            sessions.append(open_session(f"moldau-sql-{arguments.id}", dict(arguments.spark), log_path=log))
            stack.callback(sessions[0].stop)
            settings = msgspec.structs.replace(settings, functions=load_functions(sessions[0], arguments.functions))
            say(address_of(listening, opening))
            serve(sql, listening, settings.access, opening)
    except FunctionFileError as error:
        print(f"moldau sql: {error}", file=sys.stderr)
        return 2
    except MoldauError as error:
        raise CommandError(str(error)) from error
    return 0


def _service_id(text: str) -> str:
    from moldau.products.sql.serving.service_ids import check_service_id

    try:
        return check_service_id(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
