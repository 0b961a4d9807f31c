"""Shared by the verbs of `moldau sql`: the flags of an engine in this process, and its settings."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.access import access_of, add_access_arguments
from moldau.cli.arguments import input_path
from moldau.cli.cluster import add_registry_argument, registry_of
from moldau.cli.pipelines.pipeline_files import PACKAGES, add_spark_settings

if TYPE_CHECKING:
    from rich.console import Console

    from moldau.products.sql.engine.engine import EngineSettings

CHECKPOINTS = Path("checkpoints") / "sql"
CLIENT_ID = "moldau-sql"


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of a verb that runs statements in this process."""
    add_access_arguments(parser, whose="any broker of the cluster that has the topics")
    add_settings_arguments(parser)


def add_settings_arguments(parser: argparse.ArgumentParser) -> None:
    """All of them but the cluster."""
    add_registry_argument(parser, "the schema registry of AVRO, PROTOBUF and JSON_SR", "these formats are rejected")
    add_spark_settings(parser)
    add_functions_argument(parser)
    parser.add_argument(
        "--checkpoints",
        type=Path,
        default=CHECKPOINTS,
        metavar="DIR",
        help="where queries keep their checkpoints, in a folder of the run (default: %(default)s)",
    )


def add_functions_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--functions",
        type=input_path,
        action="append",
        default=[],
        metavar="FILE",
        help="a Python file whose functions with @udf, @pandas_udf or @arrow_udf queries may call; repeatable",
    )


def add_server_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--server",
        metavar="URL",
        help="send the statements to this `moldau sql serve`, such as http://localhost:8088; USER:PASSWORD@ may stand "
        "before the host. Spark is not needed then, and the flags of the cluster and of Spark have no effect",
    )


def add_output_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output",
        choices=("text", "json"),
        default="text",
        help="json: one line for each answer and each row (default: text)",
    )


def add_variables_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-D",
        "--define",
        type=_variable,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="the value of ${NAME}, as DEFINE gives it; repeatable",
    )


def has_extra(*, with_spark: bool = True) -> bool:
    """Whether the extra is installed, with those that it needs; prints what is missing."""
    from moldau.extras import MissingExtraError, require_extra

    try:
        require_extra("moldau sql", "sql")
        require_extra("moldau sql", "spark", PACKAGES if with_spark else ("rich",))
    except MissingExtraError as error:
        print(error, file=sys.stderr)
        return False
    return True


def engine_settings(arguments: argparse.Namespace, name: str) -> EngineSettings:
    """`name`: of the run, for its groups, its transactional ids and its folder of checkpoints. Raises CommandError."""
    from moldau.products.pipelines.formats.registry import PATIENCE_MS
    from moldau.products.sql.engine.engine import EngineSettings

    return EngineSettings(
        access=access_of(arguments).named(CLIENT_ID),
        # the JVM keeps the working directory of its start
        directory=(arguments.checkpoints / name).absolute(),
        name=name,
        registry=registry_of(arguments, PATIENCE_MS),
    )


def consoles(arguments: argparse.Namespace) -> tuple[Console, Console]:
    """Of answers, and of errors."""
    from rich.console import Console

    return Console(), Console(stderr=True)


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, not {text!r}")
    return name, value
