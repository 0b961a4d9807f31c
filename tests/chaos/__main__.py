"""`make chaos`: brokers fail in many ways while clients write, read and copy; then every guarantee is checked. Three
brokers are killed, frozen, cut off from each other and restarted; they get other replicas, other voters and failing
disks.

    python -m tests.chaos [--minutes 30] [--rate 1500] [--seed N] [--folder DIR] [--root]

With `--root` (`make chaos ROOT=1`) each node has its own network namespace: packets are lost, where proxies would hold
them, and cables are pulled. One node has a small disk, which is filled and freed again.

Prints the seed of the order of faults, a line of progress twice a minute, and the verdict. The folder keeps the
history, the logs of the nodes and a timeline of the faults. Exit code 1 if a guarantee was broken. Linux only.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

from moldau.testing import history
from tests.chaos.campaign import judged, parse_options, tell
from tests.chaos.clients import Clients
from tests.chaos.namespaces import Namespaces, enter_own
from tests.chaos.nodes import LISTENERS, NODE_IDS, Nodes
from tests.chaos.operator import Operator
from tests.chaos.proxies import Proxies

SAY_EVERY_S = 30.0
COPIER_LIVES_S = 45.0
SMALL = NODE_IDS[-1]
"""The node with a small disk."""
ROOM_BYTES = 128 << 20
BYTES_FOR_RECORD = 300
"""The size of a small disk: it has room for all records of the campaign."""


def main() -> int:
    if "--root" in sys.argv:
        enter_own("tests.chaos")
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--root", action="store_true", help="namespaces and a small disk, for which one must be root")
    options = parse_options(parser, rate=1_500)
    return tell(run(options.folder, options.minutes * 60, options.rate, options.seed, as_root=options.root))


def run(folder: Path, duration_s: float, rate: int, seed: int, *, as_root: bool = False) -> list[str]:
    """Gives what is wrong; empty if every guarantee was kept. `as_root`: see `enter_own`, which is called before."""
    choices = random.Random(seed)
    links = Namespaces(NODE_IDS) if as_root else Proxies(NODE_IDS, len(LISTENERS))
    nodes = Nodes(folder, links, is_dynamic=True)
    size_bytes = ROOM_BYTES + int(duration_s * rate * BYTES_FOR_RECORD)
    small_disks = {SMALL: nodes.make_small_disk(SMALL, size_bytes)} if as_root else {}

    def trouble(recorder: history.Recorder, clients: Clients) -> list[str]:
        operator = Operator(nodes, recorder, choices, small_disks)
        ended = trouble_for(operator, clients, duration_s)
        counts = ", ".join(f"{kind} {count}" for kind, count in operator.faults.items())
        print(f"{operator.faults.total()} troubles: {counts}")
        return ended

    return judged(folder, nodes, rate, choices, trouble)


def trouble_for(operator: Operator, clients: Clients, duration_s: float) -> list[str]:
    """One fault after the other, for that time. Gives the reason of an early end."""
    begin_s = said_s = copier_s = time.monotonic()
    while time.monotonic() - begin_s < duration_s:
        try:
            operator.act()
        except AssertionError as error:
            return [str(error)]
        clients.check()
        now_s = time.monotonic()
        if now_s - copier_s > COPIER_LIVES_S:
            copier_s = now_s
            clients.kill_copier()
        if now_s - said_s > SAY_EVERY_S:
            said_s = now_s
            print(
                f"{now_s - begin_s:5.0f} s: {operator.faults.total()} troubles, {clients.acknowledged:,} acknowledged, "
                f"{len(clients.problems)} problems",
                flush=True,
            )
    return []


if __name__ == "__main__":
    sys.exit(main())
