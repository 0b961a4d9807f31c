"""`moldau pipeline`: runs pipeline files on Spark (`run`), validates them (`check`), and runs their tests (`test`)."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.arguments import Subparsers, at_least_one, int32
from moldau.cli.output import CommandError, print_rows
from moldau.cli.pipelines import runs as pipeline_runs
from moldau.cli.pipelines import warm_up
from moldau.cli.pipelines.pipeline_files import (
    add_file,
    add_files,
    add_parameters,
    add_spark_settings,
    exit_code_of,
    has_extra,
    of_spec,
    parameters_of,
    profile_of,
)
from moldau.cli.services.service import LOOPBACK, add_listen_argument, add_login_argument, opening_of
from moldau.types import hint

if TYPE_CHECKING:
    from moldau.products.pipelines.core.commit_metadata import BoardPlace
    from moldau.products.pipelines.running.runner import Onlooker
    from moldau.products.pipelines.serving.boards import Boards
    from moldau.products.pipelines.spec.spec import PipelineSpec

PREVIEW_ROWS = 20


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Adds the noun `pipeline` to the command line; `run` is set as the parser's default."""
    parser = subparsers.add_parser("pipeline", help="run a pipeline file on Spark")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    _add_runs(verbs)
    check = verbs.add_parser(
        "check",
        help="say what a pipeline file does, or what is wrong with it, without Spark and without a broker",
        description="Prints what each pipeline file does. Reports a mistake with its file, its line and the nearest "
        "known key. Also reports misspelt columns, keys that are not columns, and targets on this machine that cannot "
        "be written to, as far as the pipeline file alone shows that. Rejects pipeline files that share a name, "
        "checkpoint, group, directory or table. Asks no broker, and needs an extra for Python modules only.",
        examples=("moldau pipeline check orders.yaml", "moldau pipeline check pages/*.yaml"),
    )
    add_files(check)
    check.set_defaults(run=check_specs)
    test = verbs.add_parser(
        "test",
        help="run the tests in pipeline files, without a broker",
        description="Runs the section `tests` of pipeline files on Spark. The records of a test replace the topics. "
        "Shows unexpected rows as a diff, with the line of the pipeline file.",
        examples=("moldau pipeline test orders.yaml", "moldau pipeline test pages/*.yaml"),
    )
    add_files(test)
    test.set_defaults(run=test_specs)
    _add_looks(verbs)
    pipeline_runs.add_verbs(verbs)
    warm_up.add_verb(verbs)
    checkpoint = verbs.add_parser(
        "checkpoint",
        help="convert a checkpoint for Spark's Kafka connector",
        description="Removes from the checkpoint of a Spark query what only Moldau's source keeps there. The query "
        "then continues with Spark's own Kafka connector where it stopped. The way back needs no command: "
        "Moldau's source reads the checkpoint of that connector. The query must not run.",
        examples=("moldau pipeline checkpoint --to spark-kafka checkpoints/orders",),
    )
    checkpoint.add_argument("--to", required=True, choices=("spark-kafka",), help="Spark's own Kafka connector")
    checkpoint.add_argument("directory", type=Path, metavar="DIR", help="the query's checkpointLocation")
    checkpoint.set_defaults(run=move_checkpoint)


def _add_runs(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    """Adds the verbs that run pipelines until they are stopped."""
    run = verbs.add_parser(
        "run",
        help="run it until Ctrl-C, showing progress, rate and lag",
        description="Runs a pipeline file on Spark: on this machine, without an installed Java, or with --spark on a "
        "cluster. Readers of committed records see each record of a target topic exactly once: each batch is one "
        "transaction.",
        examples=(
            "moldau pipeline run orders.yaml",
            "moldau pipeline run orders.yaml --once",
            "moldau pipeline run orders.yaml --set LEAST=100",
            "moldau pipeline run orders.yaml --spark spark.master=spark://10.0.0.1:7077",
        ),
    )
    add_file(run)
    add_spark_settings(run)
    run.add_argument("--once", action="store_true", help="process the records that exist now, then stop")
    ways = run.add_mutually_exclusive_group()
    ways.add_argument(
        "--port",
        type=int32,
        metavar="PORT",
        help="serve the pipeline board, which shows the run, on http://127.0.0.1:PORT/ (0: a free port), with "
        "/metrics for Prometheus and /status.json; default: not at all",
    )
    add_listen_argument(ways, "serve the board there")
    add_login_argument(run)
    run.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="when the run is over, draw its rate, its lag and the time of its batches (.png, .svg or .pdf)",
    )
    run.set_defaults(run=run_spec)
    serve = verbs.add_parser(
        "serve",
        help="run every pipeline file of a directory, and follow changes of the files",
        description="Runs each pipeline file of a directory (*.yaml, *.yml, *.py; not names that begin with a dot or "
        "an underscore) in its own process. When a file changes, its pipeline finishes the current batch and is "
        "started again. If the changed file cannot be run, or its checkpoint rejects it, the error names the file, "
        "and the old pipeline continues. A process that fails is started again after 1 s, then 2 s, at most 60 s. "
        "SIGTERM and Ctrl-C stop all of them.",
        examples=(
            "moldau pipeline serve pages",
            "moldau pipeline serve pages --boards",
            "moldau pipeline serve pages --shared-session",
            "moldau pipeline serve pages --listen 0.0.0.0:4040 --login people.toml",
        ),
    )
    serve.add_argument("directory", type=Path, metavar="DIR", help="where the pipeline files are")
    serve.add_argument(
        "--boards",
        action="store_true",
        help="serve the board of each pipeline on a free port of 127.0.0.1; `moldau console` links the boards",
    )
    serve.add_argument(
        "--shared-session",
        action="store_true",
        help="run all of them in one Spark session of one process: many small pipelines then cost one JVM; --spark "
        "applies to all, and the log is checkpoints/driver.log in DIR",
    )
    add_listen_argument(serve, "serve the boards there, each on its own port from PORT on (0: free ones)")
    add_login_argument(serve)
    add_parameters(serve)
    add_spark_settings(serve)
    serve.set_defaults(run=serve_specs)


def _add_looks(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    """Adds the verbs that inspect a pipeline through Spark."""
    plan = verbs.add_parser(
        "plan",
        help="say what a run would do, with the columns of each target; nothing is changed",
        description="Asks the clusters and Spark. Says of each query whether it begins, continues, or is rejected "
        "because it changed, and which columns its rows have. Takes the seconds that Spark needs to start.",
        examples=("moldau pipeline plan orders.yaml",),
    )
    add_file(plan)
    add_spark_settings(plan)
    plan.set_defaults(run=lambda arguments: _through_spark(arguments, show_plan))
    preview = verbs.add_parser(
        "preview",
        help="show the first rows of a source or flow",
        description="Reads the topics from their earliest offsets and shows the first rows of a source or flow. Of a "
        "flow that groups rows, every change of a group is a row. Groups and checkpoints are not touched.",
        examples=("moldau pipeline preview orders.yaml big --rows 5",),
    )
    add_file(preview)
    add_spark_settings(preview)
    preview.add_argument("name", metavar="NAME", help="a source or flow of the pipeline")
    preview.add_argument("--rows", type=at_least_one, default=PREVIEW_ROWS, metavar="N", help="how many; default: 20")
    preview.add_argument("--json", action="store_true", help="one JSON array")
    preview.set_defaults(run=lambda arguments: _through_spark(arguments, show_preview))


def run_spec(arguments: argparse.Namespace) -> int:
    """The exit code: 0 after a clean end, 1 when the pipeline failed, 2 for a pipeline that cannot be run."""

    def run(spec: PipelineSpec, arguments: argparse.Namespace) -> int:
        from moldau.products.pipelines.running.runner import run_pipeline

        with ExitStack() as stack:
            onlookers: list[Onlooker] = []
            place: BoardPlace | None = None
            if arguments.port is not None or arguments.listen is not None:
                from moldau.products.pipelines.looking.board.board import Board

                opening = opening_of(arguments)
                host, port = arguments.listen or (LOOPBACK, arguments.port)
                board = stack.enter_context(Board(spec, port, host, opening))
                print(f"board {board.address}", flush=True)
                onlookers.append(board)
                place = board.place
            if arguments.report is not None:
                from moldau.products.pipelines.looking.report import RunReport

                onlookers.append(stack.enter_context(RunReport(spec.name, arguments.report)))
            run_pipeline(
                spec,
                once=arguments.once,
                onlookers=onlookers,
                board=place,
                settings=dict(arguments.spark),
            )
        return 0

    return of_spec(arguments, run)


def serve_specs(arguments: argparse.Namespace) -> int:
    """The exit code: 0 after a clean end, 2 for a missing directory."""

    def serve() -> int:
        from moldau.products.pipelines.serving.directory import SpecDirectory
        from moldau.products.pipelines.serving.supervisor import serve_directory

        given = {"--set": arguments.set, "--spark": arguments.spark}
        words = [word for flag, pairs in given.items() for name, value in pairs for word in (flag, f"{name}={value}")]
        if arguments.profile is not None:
            words += ["--profile", arguments.profile]
        found = SpecDirectory(arguments.directory, parameters_of(arguments), profile=profile_of(arguments))
        if not arguments.shared_session:
            return serve_directory(found, command_with(words), boards)
        from moldau.products.pipelines.running.runner import DRIVER_LOG
        from moldau.products.pipelines.serving.shared_session import serve_shared

        opening = None if boards is None else opening_of(arguments)
        log = arguments.directory / "checkpoints" / DRIVER_LOG
        return serve_shared(found, log, dict(arguments.spark), boards=boards, opening=opening)

    boards = _boards_of(arguments)
    if not arguments.directory.is_dir():
        print(f"moldau pipeline: {arguments.directory} is no directory", file=sys.stderr)
        return 2
    return exit_code_of(serve)


def command_with(words: Sequence[str]) -> Callable[[Path], Sequence[str]]:
    """The command that runs a file of the served directory. `words`: further arguments of each run."""
    return lambda file: (sys.executable, "-m", "moldau.cli.pipelines.served", str(file), *words)


def _boards_of(arguments: argparse.Namespace) -> Boards | None:
    """The boards for the pipeline files of a directory. Raises CommandError, before a pipeline runs, if the boards
    would be open to others."""
    from moldau.products.pipelines.serving.boards import Boards

    if not arguments.boards and arguments.listen is None:
        if arguments.login is not None:
            raise CommandError("--login is for the boards: add --boards, or --listen HOST:PORT")
        return None
    opening = opening_of(arguments)
    host, port = arguments.listen or (LOOPBACK, 0)
    login = [] if arguments.login is None else ["--login", str(arguments.login)]
    return Boards(host, port, opening.scheme, login)


def _through_spark(arguments: argparse.Namespace, action: Callable[[PipelineSpec, argparse.Namespace], int]) -> int:
    """As `of_spec`, with the logs of Spark and of the client kept off the terminal."""

    def look(spec: PipelineSpec, arguments: argparse.Namespace) -> int:
        from moldau.products.pipelines.running.logs import logs_to

        with logs_to(Path(os.devnull)):
            return action(spec, arguments)

    return of_spec(arguments, look)


def show_plan(spec: PipelineSpec, arguments: argparse.Namespace) -> int:
    """The exit code: 1 if a query would be rejected."""
    from moldau.products.pipelines.looking.outlook import plan_of

    outlooks = plan_of(spec, dict(arguments.spark))
    for outlook in outlooks:
        behind = "?" if outlook.standing.lag is None else f"{outlook.standing.lag:,}"
        print(f"{outlook.standing.name}: {outlook.standing.next_run}; {behind} records wait")
        print(f"  {', '.join(f'{name} {kind}' for name, kind in outlook.columns)}")
        for line in outlook.details():
            print(f"  {line}")
    return 1 if any(outlook.standing.is_refused for outlook in outlooks) else 0


def show_preview(spec: PipelineSpec, arguments: argparse.Namespace) -> int:
    from moldau.products.pipelines.looking.outlook import preview

    names = [*spec.sources(), *(flow.name for flow in spec.plan.flows)]
    if arguments.name not in names:
        near = hint(arguments.name, names)
        there = ", ".join(names)
        print(f"moldau pipeline: {arguments.name!r} is no source and no flow; {there} are{near}", file=sys.stderr)
        return 2
    rows = preview(spec, arguments.name, arguments.rows, dict(arguments.spark))
    print_rows(rows, list(dict.fromkeys(name for row in rows for name in row)), as_json=arguments.json, are_names=True)
    return 0


def check_specs(arguments: argparse.Namespace) -> int:
    """The exit code: 0 if every pipeline file is valid, else 2."""
    if any(file.suffix == ".py" for file in arguments.files) and not has_extra():
        return 2
    from moldau.products.pipelines.core.section import SpecError
    from moldau.products.pipelines.spec.conflicts import find_conflicts
    from moldau.products.pipelines.spec.offline import NOT_LOOKED_AT, check_offline
    from moldau.products.pipelines.spec.spec import describe, load_spec

    specs: dict[Path, PipelineSpec] = {}
    problems: list[str] = []
    for file in arguments.files:
        try:
            spec = load_spec(file, parameters_of(arguments), profile=profile_of(arguments))
            check_offline(spec)
            specs[file] = spec
        except SpecError as error:
            problems.append(str(error))
    problems += find_conflicts(specs)
    for file, spec in specs.items():
        print(f"{file}:")
        facts = {**describe(spec), "not checked": NOT_LOOKED_AT}
        width = max(map(len, facts))
        for name, fact in facts.items():
            print(f"  {name:<{width}} {fact}")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 2 if problems else 0


def test_specs(arguments: argparse.Namespace) -> int:
    """The exit code: 0 if every test passes, 1 if one fails, 2 for a pipeline that cannot be run."""

    def test() -> int:
        from moldau.products.pipelines.looking.testing import run_cases
        from moldau.products.pipelines.spec.spec import load_spec

        is_failed = False
        parameters, profile = parameters_of(arguments), profile_of(arguments)
        specs = [load_spec(file, parameters, profile=profile) for file in arguments.files]
        for spec in specs:
            if not spec.cases:
                print(f"{spec.file_name}: the pipeline file has no `tests`")
        cases = [(spec, case) for spec in specs for case in spec.cases]
        for (spec, case), (failures, seconds) in zip(cases, run_cases(cases) if cases else (), strict=True):
            verdict = "failed" if failures else "passed"
            print(f"{spec.file_name}: {case.name}: {verdict} ({seconds:.1f} s)", flush=True)
            for failure in failures:
                print(failure, flush=True)
            is_failed = is_failed or bool(failures)
        return 1 if is_failed else 0

    return exit_code_of(test)


def move_checkpoint(arguments: argparse.Namespace) -> int:
    """The exit code: 0 also if nothing had to change, 1 if the directory is no checkpoint or a driver runs on it."""

    def move() -> int:
        from moldau.products.pipelines.checkpoints.checkpoint import check_checkpoint, move_to_spark_kafka
        from moldau.products.pipelines.checkpoints.lease import Lease

        directory: Path = arguments.directory
        check_checkpoint(directory)
        with Lease(directory):
            changed = move_to_spark_kafka(directory)
        print(f"{directory}: {changed} files changed; Spark's own Kafka connector can continue the checkpoint")
        return 0

    return exit_code_of(move)
