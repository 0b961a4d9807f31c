"""Spark copies a topic exactly once while drivers and executors are killed with -9; every record must be there once, in
order.

One query copies on a standalone cluster with two executors. It dies at each of six named points of a batch, 10 times at
random, and 5 times by an executor's death. That takes half an hour on two cores.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.exactly_once.judge import read_committed
from tests.exactly_once.spark_campaign import (
    SOURCE,
    SOURCE_PARTITIONS,
    TARGET,
    campaign_arguments,
    end_cleanly_by_sigterm,
    run_campaign,
)
from tests.exactly_once.spark_driver import POINTS, newest_commit
from tests.exactly_once.tables import KEYS, TARGET_PARTITIONS


class TopicCopy:
    """A query of format("moldau") alone."""

    points = POINTS
    queries = 1

    def __init__(self, folder: Path) -> None:
        self.checkpoint = folder / "checkpoint"

    def begin(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    def command(self) -> list[str]:
        command = [sys.executable, "-m", "tests.exactly_once.spark_driver"]
        command += ["--bootstrap-server", self.bootstrap_servers, "--source", SOURCE, "--target", TARGET]
        return [*command, "--checkpoint", str(self.checkpoint)]

    def noted(self) -> int:
        return newest_commit(self.checkpoint)

    def faults(self, records: int) -> list[str]:
        seen, twice, wrong_key, disorder = bytearray(records), 0, 0, 0
        last: dict[tuple[int, int], int] = {}
        for message in read_committed(self.bootstrap_servers, TARGET, TARGET_PARTITIONS):
            number = int(message.value())
            twice += seen[number]
            seen[number] = 1
            wrong_key += int(message.key()) != number % KEYS
            # records from one source partition to one target partition stay in order
            way = (number % SOURCE_PARTITIONS, message.partition())
            disorder += last.get(way, -1) >= number
            last[way] = number
        found = {"missing": seen.count(0), "twice": twice, "of another key": wrong_key, "out of order": disorder}
        return [f"{count:,} records {what}" for what, count in found.items() if count]


if __name__ == "__main__":
    arguments = campaign_arguments("tests.exactly_once.spark", str(__doc__), records=2_000_000, driver_kills=10)
    options = arguments.parse_args()
    end_cleanly_by_sigterm()
    sys.exit(run_campaign(options, TopicCopy))
