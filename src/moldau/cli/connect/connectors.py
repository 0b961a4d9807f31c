"""`moldau connect list|create|status|pause|resume|restart|stop|delete`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from moldau.cli.arguments import Subparsers, int32, not_empty
from moldau.cli.connect.calls import add_url_arguments, call, call_if_answered
from moldau.cli.connect.files import read_connector
from moldau.cli.output import print_json, print_rows

STATES = ("running", "paused", "stopped")
WATCH_S = 1.0
CLEARED = "\x1b[H\x1b[2J"
"""Clears a terminal (ECMA-48)."""

Row = dict[str, object]


def add_verbs(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    _verb(verbs, "list", "the connectors and their states", list_connectors, ("moldau connect list",), is_of_one=False)
    create = _verb(
        verbs,
        "create",
        "create connectors from files, or change those that are there",
        create_connectors,
        ("moldau connect create orders.json", "moldau connect create orders.properties --state stopped"),
        is_of_one=False,
    )
    create.add_argument("files", nargs="+", metavar="FILE", help="JSON (.json, or - for standard input) or properties")
    create.add_argument("--state", choices=STATES, help="of a new connector (default: running)")
    status = _verb(
        verbs,
        "status",
        "the state of a connector and its tasks, and how far they are",
        show_status,
        ("moldau connect status a", "moldau connect status a --watch"),
    )
    status.add_argument("--trace", action="store_true", help="print the traces of what failed, too")
    status.add_argument("--watch", action="store_true", help="print it again every second, until Ctrl-C")
    for verb, words in (
        ("pause", "pause a connector: its tasks stay, and do nothing"),
        ("resume", "let a paused or stopped connector run"),
        ("stop", "stop a connector: it has no tasks, and its offsets can be changed"),
    ):
        _verb(verbs, verb, words, partial(_put, verb), (f"moldau connect {verb} orders",))
    restart = _verb(
        verbs,
        "restart",
        "restart a connector and its tasks, or one task",
        restart_connector,
        ("moldau connect restart orders", "moldau connect restart orders --only-failed"),
    )
    restart.add_argument("--only-failed", action="store_true", help="leave alone what has not failed")
    restart.add_argument("--task", type=int32, metavar="N", help="this task alone")
    _verb(verbs, "delete", "delete a connector", delete_connector, ("moldau connect delete orders",))


def _verb(
    verbs: Subparsers[argparse.ArgumentParser],
    verb: str,
    words: str,
    run: Callable[[argparse.Namespace], int],
    examples: tuple[str, ...],
    *,
    is_of_one: bool = True,
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(verb, help=words, examples=examples)
    if is_of_one:
        parser.add_argument("name", type=not_empty, metavar="NAME", help="of the connector")
    add_url_arguments(parser)
    parser.set_defaults(run=run)
    return parser


def list_connectors(arguments: argparse.Namespace) -> int:
    found = call(arguments, "GET", "connectors", query="expand=info&expand=status")
    rows = [_listed(name, one) for name, one in sorted(found.items())]
    columns = ("name", "type", "state", "tasks", "class")
    print_rows(rows, columns, as_json=arguments.json, empty="no connectors")
    return 0


def create_connectors(arguments: argparse.Namespace) -> int:
    connectors = [read_connector(path) for path in arguments.files]
    names = set(call(arguments, "GET", "connectors"))
    for connector in connectors:
        name = connector["name"]
        if name in names:
            call(arguments, "PUT", "connectors", name, "config", body=connector["config"])
        else:
            state = {} if arguments.state is None else {"initial_state": arguments.state.upper()}
            call(arguments, "POST", "connectors", body={**connector, **state})
        print(f"{name}: {'changed' if name in names else 'created'}")
    return 0


def show_status(arguments: argparse.Namespace) -> int:
    _show_status(arguments)
    while arguments.watch:
        time.sleep(WATCH_S)
        _show_status(arguments)
    return 0


def _show_status(arguments: argparse.Namespace) -> None:
    from moldau.products.connect.core.traces import problem_of

    found = call(arguments, "GET", "connectors", arguments.name, "status")
    told = call_if_answered(arguments, "connectors", arguments.name, "progress") or {"tasks": []}
    progress = {one["id"]: one["progress"] or {} for one in told["tasks"]}
    if arguments.watch and sys.stdout.isatty():
        print(CLEARED, end="")
    if arguments.json:
        tasks = [{**one, "progress": progress.get(one["id"]) or None} for one in found["tasks"]]
        print_json({**found, "tasks": tasks})
        sys.stdout.flush()
        return
    rows: list[Row] = [_part("connector", found["connector"], {}, problem_of(found["connector"].get("trace")))]
    rows += [
        _part(f"task {one['id']}", one, progress.get(one["id"], {}), problem_of(one.get("trace")))
        for one in found["tasks"]
    ]
    print_rows(rows, ("part", "state", "worker", "records", "records/s", "lag", "error"), as_json=False)
    for row, one in zip(rows, [found["connector"], *found["tasks"]], strict=True) if arguments.trace else ():
        if one.get("trace"):
            print(f"\n{row['part']}:\n{one['trace']}")
    sys.stdout.flush()


def _part(part: str, state: dict[str, Any], progress: dict[str, Any], problem: str) -> Row:
    return {
        "part": part,
        "state": state["state"],
        "worker": state["worker_id"],
        "records": progress.get("records"),
        "records/s": progress.get("records_per_second"),
        "lag": progress.get("lag"),
        "error": problem or None,
    }


def restart_connector(arguments: argparse.Namespace) -> int:
    name = arguments.name
    if arguments.task is not None:
        call(arguments, "POST", "connectors", name, "tasks", str(arguments.task), "restart")
    else:
        failed = str(arguments.only_failed).lower()
        call(arguments, "POST", "connectors", name, "restart", query=f"includeTasks=true&onlyFailed={failed}")
    return 0


def delete_connector(arguments: argparse.Namespace) -> int:
    call(arguments, "DELETE", "connectors", arguments.name)
    return 0


def _put(verb: str, arguments: argparse.Namespace) -> int:
    call(arguments, "PUT", "connectors", arguments.name, verb)
    return 0


def _listed(name: str, found: dict[str, Any]) -> Row:
    info, status = found.get("info", {}), found.get("status", {})
    tasks = status.get("tasks", [])
    running = sum(task["state"] == "RUNNING" for task in tasks)
    return {
        "name": name,
        "type": info.get("type"),
        "state": status.get("connector", {}).get("state"),
        "tasks": f"{running} of {len(tasks)} running",
        "class": info.get("config", {}).get("connector.class"),
    }
