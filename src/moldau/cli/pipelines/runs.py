"""The verbs of `moldau pipeline` that need no Spark: `init`, `graph`, `status`, `stop`, `reset`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.arguments import TIMES, Subparsers, seconds, time_ms
from moldau.cli.output import print_json, print_rows
from moldau.cli.pipelines.pipeline_files import add_file, of_spec

if TYPE_CHECKING:
    from moldau.products.pipelines.core.start import Start
    from moldau.products.pipelines.spec.spec import PipelineSpec

STOP_WITHIN_S = 150.0
"""Longer than a run itself waits for the batches that are being written."""
_LOOK_EVERY_S = 0.1


def add_verbs(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    """Each verb runs `of_spec` with the pipeline file."""
    init = verbs.add_parser(
        "init",
        help="write a first pipeline file, with comments, that runs",
        description="Writes a pipeline file that reads the topic `orders`, with tests for `moldau pipeline test`. Does "
        "not overwrite an existing file.",
        examples=("moldau pipeline init orders.yaml",),
    )
    init.add_argument("file", type=Path, metavar="FILE", help="the pipeline file to write")
    init.set_defaults(run=write_first_spec)
    graph = verbs.add_parser(
        "graph",
        help="show sources, flows and targets, as a tree or as a picture",
        description="Shows what reads what. No broker is asked, and no Spark is started.",
        examples=("moldau pipeline graph orders.yaml", "moldau pipeline graph orders.yaml --svg orders.svg"),
    )
    add_file(graph)
    graph.add_argument("--svg", type=Path, metavar="FILE", help="write a picture for a browser or a document instead")
    graph.set_defaults(run=lambda arguments: of_spec(arguments, show_graph, needs_spark=False))
    status = verbs.add_parser(
        "status",
        help="say whether a pipeline runs, how far each of its queries is, and what a run would do",
        description="Reads the pipeline's checkpoint and asks the clusters. Changes nothing. While a cluster does not "
        "answer, the lag is missing.",
        examples=("moldau pipeline status orders.yaml", "moldau pipeline status orders.yaml --json"),
    )
    add_file(status)
    status.add_argument("--json", action="store_true", help="one JSON object")
    status.set_defaults(run=lambda arguments: of_spec(arguments, show_status))
    stop = verbs.add_parser(
        "stop",
        help="stop the process that runs a pipeline, and wait for its end",
        description="Sends SIGTERM to the process on this machine that runs the pipeline. It finishes the current "
        "batches, and begins no other.",
        examples=("moldau pipeline stop orders.yaml",),
    )
    add_file(stop)
    stop.add_argument(
        "--timeout", type=seconds, default=STOP_WITHIN_S, metavar="SECONDS", help="how long to wait; default: 150"
    )
    stop.set_defaults(run=lambda arguments: of_spec(arguments, stop_pipeline))
    reset = verbs.add_parser(
        "reset",
        help="begin a pipeline again, at offsets that you choose",
        description="Says where the pipeline would begin, and which rows each target would hold twice. With --execute, "
        "makes a new version of the checkpoint, which begins at the offsets of --to, and commits these offsets to the "
        "groups. The old version is kept next to it. The pipeline must not run. A source that is not a topic begins at "
        "its first row.",
        examples=(
            "moldau pipeline reset orders.yaml --to earliest              # what it would do",
            "moldau pipeline reset orders.yaml --to earliest --execute",
            "moldau pipeline reset orders.yaml --to 2026-01-31T12:00:00 --execute",
            """moldau pipeline reset orders.yaml --to '{"orders": {"0": 23, "1": 7}}' --execute""",
        ),
    )
    add_file(reset)
    reset.add_argument(
        "--to",
        type=_start,
        required=True,
        metavar="WHERE",
        help="earliest, latest, a time (2026-01-31, 2026-01-31T12:00:00, or 2h before now), or the offset of every "
        "partition as JSON",
    )
    reset.add_argument("--execute", action="store_true", help="reset the pipeline; without it, nothing changes")
    reset.set_defaults(run=lambda arguments: of_spec(arguments, reset_pipeline))


def _start(text: str) -> Start:
    from moldau.products.pipelines.core.start import EARLIEST, LATEST, parse_offsets

    if text in (EARLIEST, LATEST):
        return text
    if text.startswith("{"):
        try:
            return parse_offsets(text)
        except (ValueError, TypeError) as error:
            raise argparse.ArgumentTypeError(f"no offsets: {error}") from None
    try:
        return time_ms(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"takes earliest, latest, a time ({TIMES}), or the offset of every partition as JSON, not {text!r}"
        ) from None


def write_first_spec(arguments: argparse.Namespace) -> int:
    text = Path(__file__).parents[2].joinpath("products", "pipelines", "first_pipeline.yaml").read_text("utf-8")
    try:
        with open(arguments.file, "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        print(f"moldau pipeline: {arguments.file}: {error.strerror}", file=sys.stderr)
        return 1
    print(f"{arguments.file} is written. Next:")
    print(f"  moldau pipeline test {arguments.file}          # its tests, without a broker")
    print("  moldau topics create orders spenders      # on a broker (moldau up), for it to read and write")
    print(f"  moldau pipeline run {arguments.file} --once    # what is there now")
    return 0


def show_graph(spec: PipelineSpec, arguments: argparse.Namespace) -> int:
    from moldau.products.pipelines.looking.graph import graph_of
    from moldau.products.pipelines.looking.picture import STYLE, boxes_and_edges
    from moldau.products.service.look.plan import draw_plan

    if arguments.svg is not None:
        try:
            arguments.svg.write_text(draw_plan(*boxes_and_edges(spec), style=STYLE), "utf-8")
        except OSError as error:
            print(f"moldau pipeline: {arguments.svg}: {error.strerror}", file=sys.stderr)
            return 1
        print(f"{arguments.svg} is written")
        return 0
    for line in graph_of(spec):
        print(line)
    return 0


def show_status(spec: PipelineSpec, arguments: argparse.Namespace) -> int:
    """The exit code: 1 if a cluster does not answer; prints the rest all the same."""
    from moldau.products.pipelines.looking.standing import standing_of

    holder, queries = standing_of(spec)
    rows = [{"query": one.name, "batch": one.batch, "lag": one.lag, "next_run": one.next_run} for one in queries]
    if arguments.json:
        process, host = (None, None) if holder is None else (holder.process, holder.host)
        print_json({"pipeline": spec.name, "process": process, "host": host, "queries": rows})
    else:
        print(f"{spec.name}: {'does not run' if holder is None else f'{holder} runs it'}")
        print_rows(rows, ("query", "batch", "lag", "next_run"), as_json=False)
    troubles = dict.fromkeys(one.trouble for one in queries if one.trouble is not None)
    for trouble in troubles:
        print(f"moldau pipeline: {trouble}", file=sys.stderr)
    return 1 if troubles else 0


def stop_pipeline(spec: PipelineSpec, arguments: argparse.Namespace) -> int:
    from moldau.products.pipelines.checkpoints.lease import holder_of

    holder = holder_of(spec.checkpoint)
    if holder is None:
        print(f"{spec.name} does not run")
        return 0
    if holder.host is not None:
        print(f"moldau pipeline: {holder} runs {spec.name}: stop it there", file=sys.stderr)
        return 1
    if holder.is_shared:
        print(
            f"moldau pipeline: {holder} runs {spec.name} beside other pipelines, in one session: move its file out of "
            "the served directory",
            file=sys.stderr,
        )
        return 1
    try:
        os.kill(holder.process, signal.SIGTERM)
    except ProcessLookupError:
        pass  # it has just ended
    except PermissionError:
        print(f"moldau pipeline: {holder} is not yours to stop: ask as its user", file=sys.stderr)
        return 1
    deadline = time.monotonic() + arguments.timeout
    while holder_of(spec.checkpoint) == holder:
        if time.monotonic() > deadline:
            print(f"moldau pipeline: {holder} still runs after {arguments.timeout:g} s", file=sys.stderr)
            return 1
        time.sleep(_LOOK_EVERY_S)
    print(f"{spec.name} has stopped ({holder})")
    return 0


def reset_pipeline(spec: PipelineSpec, arguments: argparse.Namespace) -> int:
    from moldau.products.pipelines.looking.resetting import outcome_of
    from moldau.products.pipelines.running.checkpoint_versions import look_at_reset, reset

    chosen = look_at_reset(spec, arguments.to)
    starts = {one: offset for start in chosen.values() for one, offset in start.offsets.items()}
    outcome = list(outcome_of(spec, starts))
    kept = None
    if arguments.execute:
        kept, starts = reset(spec, arguments.to)
    for partition, offset in sorted(starts.items()):
        print(f"{partition} begins at {offset}")
    topics = {name for query in spec.queries for name in query.streams()}
    for source in spec.plan.sources:
        if source.is_stream and source.name not in topics:
            print(f"`{source.place}` begins at its first row: only a topic can begin elsewhere")
    for line in outcome:
        print(line)
    if kept is None:
        print("nothing was changed: --execute resets the pipeline", file=sys.stderr)
    else:
        print(f"The old checkpoint is kept in {kept}; delete it when it is no longer needed: rm -r {kept}")
    return 0
