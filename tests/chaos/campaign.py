"""A cluster under clients, with faults meanwhile, and the check of what the clients saw."""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from moldau.testing import history
from tests.chaos.clients import TOPICS, Clients, make_topics
from tests.chaos.nodes import NODE_IDS

JUDGED = ("records acknowledged", "reads of records", "transactions", "commits of offsets")
"""The subject of every campaign, by names of the verdict."""


class Options(argparse.Namespace):
    """The options of every campaign. `folder` exists."""

    rate: int
    seed: int
    folder: Path


def parse_options(parser: argparse.ArgumentParser, rate: int) -> Options:
    """Parses the command line; prints the seed and the folder. `rate`: the default."""
    parser.add_argument("--rate", type=int, default=rate, help="records per second of all producers")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--folder", type=Path, help="empty; a temporary one if not given")
    options = parser.parse_args(namespace=Options())
    options.folder = options.folder or Path(tempfile.mkdtemp(prefix="moldau-chaos-"))
    options.folder.mkdir(parents=True, exist_ok=True)
    print(f"seed {options.seed}, {options.folder}", flush=True)
    return options


Act = Callable[[history.Recorder, Clients], list[str]]
"""Runs while the clients run; gives the reason of an early end."""


class Judged(Protocol):
    """The nodes of a campaign, with the interface of `Nodes`."""

    @property
    def bootstrap_servers(self) -> str: ...
    def format(self) -> None: ...
    def start(self, *node_ids: int) -> None: ...
    def wait_whole(self) -> None: ...
    def keep(self) -> None: ...
    def close(self) -> None: ...


def judged(
    folder: Path, nodes: Judged, rate: int, choices: random.Random, act: Act, *, copies: bool = True
) -> list[str]:
    """Gives what is wrong; empty if every guarantee was kept. Ends the nodes. `rate`: records per second of all
    producers. `copies`: whether a transactional copier also runs."""
    path = folder / "history.jsonl"
    try:
        nodes.format()
        nodes.start(*NODE_IDS)
        nodes.wait_whole()
        make_topics(nodes.bootstrap_servers)
        nodes.wait_whole()
        with history.record(path) as recorder:
            clients = Clients(nodes.bootstrap_servers, recorder, path, rate, choices, copies=copies)
            clients.start()
            failures = act(recorder, clients)
            clients.finish()
            try:
                nodes.wait_whole()
            except AssertionError as error:
                failures.append(str(error))
            for _ in recorder.read_to_end({"bootstrap.servers": nodes.bootstrap_servers}, TOPICS):
                pass
            failures += clients.problems
    finally:
        nodes.close()
    told = history.HistoryFile(path)
    verdict = history.judge(told, copies=[history.Copy("source", "target")] if copies else [])
    (folder / "chaos.svg").write_text(history.timeline(told, verdict), encoding="utf-8")
    print(verdict)
    problems = failures + [str(finding) for finding in verdict.findings]
    # idle clients prove nothing
    expected = [name for name in JUDGED if copies or name != "transactions"]
    problems += [f"no {name} in the history" for name in expected if not verdict.judged[name]]
    if problems:
        nodes.keep()
    return problems


def tell(problems: list[str]) -> int:
    """Prints the verdict; gives the exit code."""
    for problem in problems[:50]:
        print(problem)
    print("BROKEN" if problems else "every promise was kept", flush=True)
    return 1 if problems else 0
