"""Shared by the verbs of `moldau pipeline`: the extra, a pipeline file, and its parameters."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.cli.access import PROFILE_VARIABLE
from moldau.cli.arguments import input_path, not_empty

if TYPE_CHECKING:
    from moldau.products.pipelines.spec.spec import PipelineSpec

PACKAGES = ("numpy", "pyarrow", "pyspark", "pandas", "rich")


def add_file(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that name a pipeline file and its parameters."""
    parser.add_argument(
        "file",
        type=input_path,
        metavar="FILE",
        help="a pipeline file in YAML (- is standard input), or a Python module that ends in .py",
    )
    add_parameters(parser)


def add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        type=input_path,
        nargs="+",
        metavar="FILE",
        help="pipeline files, YAML or Python; - is standard input",
    )
    add_parameters(parser)


def add_parameters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        type=_assignment,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="the value of ${NAME} in a pipeline file; repeatable, and takes precedence over the environment",
    )
    parser.add_argument(
        "--profile",
        type=not_empty,
        metavar="NAME",
        help="the cluster of a pipeline that names none: a profile of ~/.config/moldau/profiles.toml "
        f"(default: {PROFILE_VARIABLE} of the environment)",
    )


def add_spark_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--spark",
        type=_assignment,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of Spark, such as spark.master=spark://HOST:7077 for a cluster; may be given often",
    )


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, not {text!r}")
    return name, value


def parameters_of(arguments: argparse.Namespace) -> dict[str, str]:
    return {**os.environ, **dict(arguments.set)}


def profile_of(arguments: argparse.Namespace) -> str | None:
    return arguments.profile or os.environ.get(PROFILE_VARIABLE) or None


def of_spec(
    arguments: argparse.Namespace,
    action: Callable[[PipelineSpec, argparse.Namespace], int],
    *,
    needs_spark: bool = True,
) -> int:
    """As `exit_code_of`, with the pipeline that the arguments name. A pipeline in a Python module always needs
    Spark."""

    def act() -> int:
        from moldau.products.pipelines.spec.spec import load_spec

        spec = load_spec(arguments.file, parameters_of(arguments), profile=profile_of(arguments))
        return action(spec, arguments)

    return exit_code_of(act, needs_spark=needs_spark or arguments.file.suffix == ".py")


def exit_code_of(action: Callable[[], int], *, needs_spark: bool = True) -> int:
    """The result of the action; 1 if it fails, 2 for a pipeline that cannot be run, or a missing extra."""
    from moldau.errors import MoldauError

    if needs_spark and not has_extra():
        return 2
    from moldau.products.pipelines.core.section import SpecError
    from moldau.products.service.look.words import visible

    try:
        return action()
    except SpecError as error:
        print(visible(str(error)), file=sys.stderr)
        return 2
    except MoldauError as error:  # the message may quote a record or a server
        print(f"moldau pipeline: {visible(str(error))}", file=sys.stderr)
        return 1


def has_extra(*packages: str) -> bool:
    """Whether these packages of the extra are installed, or all of it; prints what is missing."""
    from moldau.extras import MissingExtraError, require_extra

    try:
        require_extra("moldau pipeline", "spark", packages or PACKAGES)
    except MissingExtraError as error:
        print(error, file=sys.stderr)
        return False
    return True
