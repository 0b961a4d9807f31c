"""Recorded responses of Apache Kafka 4.4.0 to every version of every API that we serve, for comparison everywhere.

Record again after a change of steps.py: `MOLDAU_KAFKA_LIBS=... python -m tests.differential.exchanges`.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.differential.brokers import Broker
from tests.differential.oracle import running_kafka
from tests.differential.step import Bindings, Step
from tests.differential.steps import ROUNDS, Sequence

RECORDED = Path(__file__).parent / "exchanges.json.gz"
BASE_BEFORE_NOW_MS = 3_600_000
SETTLE_S = 0.1


def round_of(number: int, prefix: str) -> list[Step]:
    return Sequence(number, prefix).covering_steps(number)


def answers_of(broker: Broker, number: int) -> list[Any]:
    """With unique names of the run; in the responses these become the names of the round."""
    now_ms = int(time.time() * 1000)
    prefix = f"run{now_ms}-round{number}"
    bindings = Bindings(now_ms - BASE_BEFORE_NOW_MS)
    answers = [broker.take(step, bindings, prefix) for step in round_of(number, prefix)]
    text = json.dumps(answers).replace(prefix, f"round{number}")
    # in the subscriptions of members it is bytes
    told: list[Any] = json.loads(text.replace(prefix.encode().hex(), f"round{number}".encode().hex()))
    return told


def recorded() -> list[list[Any]]:
    """The responses of each round, in the order of its steps."""
    rounds: list[list[Any]] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return rounds


def main() -> int:
    with running_kafka(sys.argv[1] if len(sys.argv) > 1 else None) as bootstrap_servers:
        broker = Broker(bootstrap_servers, settle_s=SETTLE_S)
        broker.wait_for_coordinator("any")
        rounds = [answers_of(broker, number) for number in range(ROUNDS)]
    # without the time of day: the same recording gives the same file
    RECORDED.write_bytes(gzip.compress(json.dumps(rounds).encode(), mtime=0))
    print(f"{sum(len(answers) for answers in rounds)} answers in {RECORDED.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
