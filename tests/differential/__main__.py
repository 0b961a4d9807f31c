"""Random legal request sequences to two brokers, compared: `python -m tests.differential --sequences 2000`.

Apache Kafka is started from its jars (MOLDAU_KAFKA_LIBS, or fetched from Maven Central) unless --theirs names one that
runs. Ends with 1 if any answer differs and no row of exemptions.py covers it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from moldau.testing import Cluster
from tests.differential.answers import differences
from tests.differential.brokers import OUR_SETTINGS, Broker
from tests.differential.exemptions import exemption
from tests.differential.oracle import running_kafka
from tests.differential.step import Bindings
from tests.differential.steps import Sequence

STEPS = 12
BASE_BEFORE_NOW_MS = 3_600_000
SETTLE_S = 0.02


def compare(seed: int, ours: Broker, theirs: Broker, found: Counter[str], run: int) -> int:
    """Runs one sequence; counts its differences by API and path. Gives how many are not exempt."""
    sequence = Sequence(seed, f"s{run}x{seed}")
    base_ms = int(time.time() * 1000) - BASE_BEFORE_NOW_MS
    mine, other = Bindings(base_ms), Bindings(base_ms)
    bad = 0
    for number, step in enumerate(sequence.random_steps(STEPS)):
        answers = ours.take(step, mine, sequence.prefix), theirs.take(step, other, sequence.prefix)
        if step.key.name.startswith(("DESCRIBE_", "LIST_")) and differences(*answers):
            theirs.settle()
            answers = ours.take(step, mine, sequence.prefix), theirs.take(step, other, sequence.prefix)
        for path, a, b in differences(*answers):
            reason = exemption(step.key.name, path, a, b)
            found[f"{step.key.name}{path}: {reason or 'DIFFERS'}"] += 1
            if reason is None:
                bad += 1
                print(f"seed {seed} step {number} {step.key.name} v{step.version} {path}: ours {a!r}, theirs {b!r}")
                print(f"    {step.make(mine)!r}"[:600])
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential")
    parser.add_argument("--sequences", type=int, default=2000)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--theirs", help="HOST:PORT of an Apache Kafka that runs")
    arguments = parser.parse_args()
    found: Counter[str] = Counter()
    bad = 0
    run = int(time.time())
    with Cluster(settings=OUR_SETTINGS) as cluster, running_kafka(arguments.theirs) as theirs_at:
        ours, theirs = Broker(cluster.bootstrap_servers), Broker(theirs_at, settle_s=SETTLE_S)
        for broker in (ours, theirs):
            broker.wait_for_coordinator("any")
        last = arguments.first_seed + arguments.sequences
        for seed in range(arguments.first_seed, last):
            bad += compare(seed, ours, theirs, found, run)
            if (seed - arguments.first_seed + 1) % 100 == 0:
                print(f"{seed - arguments.first_seed + 1} sequences, {bad} differences", flush=True)
    for row, count in found.most_common():
        print(f"{count:7} {row}")
    print(f"{arguments.sequences} sequences of {STEPS + 6} requests: {bad} differences that no exemption covers")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
