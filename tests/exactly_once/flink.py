"""Flink copies a topic with its Kafka connectors, exactly once, while it is killed with -9; every record must be there
once.

python -m tests.exactly_once.flink [--records 100000] [--kills 10] [--broker kafka] [--seed N]
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.peers import CACHE, Peer, fetch_artifacts, new_peer
from tests.exactly_once.judge import read_committed
from tests.support.talking_process import TalkingProcess

SOURCE, TARGET = "source", "target"
PARTITIONS = 2
PATIENCE_S = 180.0
TRIES = 2
"""On average over all lives of the program: in some it ends by itself before it is killed."""
PROGRAM = Path(__file__).parent / "java" / "FlinkCopy.java"
FLINK = "2.0.1"
ARTIFACTS = (
    f"org.apache.flink:flink-clients:{FLINK}",
    f"org.apache.flink:flink-connector-base:{FLINK}",
    "org.apache.flink:flink-connector-kafka:4.0.1-2.0",
)
# Flink's requirements with Java 17
OPENED = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "util", "time")]


class FlinkCampaign:
    """Lives of the program until it was killed often enough, and a last one that reaches the end."""

    def __init__(self, peer: Peer, folder: Path, records: int, kills: int, seed: int) -> None:
        self.peer, self.records, self.kills = peer, records, kills
        self.choices = random.Random(seed)
        self.libraries = fetch_artifacts(CACHE / f"flink-{FLINK}", ARTIFACTS)
        self.checkpoints = folder / "checkpoints"
        self.fed = 0
        self.killed = 0

    def run(self) -> list[str]:
        """The faults of the copy; empty if every record is there once."""
        self.peer.start()
        try:
            admin = AdminClient({"bootstrap.servers": self.peer.bootstrap_servers})
            for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (SOURCE, TARGET)]).values():
                future.result(timeout=30)
            for number in range(1, TRIES * self.kills + 1):
                if self.killed == self.kills:
                    break
                self.one_life()
                print(f"life {number}: {self.killed} of {self.kills} killed", flush=True)
            missed = self.kills - self.killed
            return [*[f"Flink was not killed {missed} times"] * (missed > 0), *self.finish()]
        finally:
            self.peer.stop()

    def feed(self, count: int) -> None:
        servers = self.peer.bootstrap_servers
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "enable.idempotence": True})
        for number in range(self.fed, self.fed + count):
            producer.produce(SOURCE, b"%d" % number, partition=number % PARTITIONS)
            producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0
        self.fed += count

    def newest_checkpoint(self) -> Path | None:
        """Each life is a separate job with its own directory; a checkpoint is complete once it has this file."""
        found = [path.parent for path in self.checkpoints.glob("*/chk-*/_metadata")]
        return max(found, key=lambda path: path.stat().st_mtime_ns, default=None)

    def program(self) -> TalkingProcess:
        command = ["java", "-Xmx512m", *OPENED, "-cp", f"{self.libraries}/*", str(PROGRAM)]
        command += [self.peer.bootstrap_servers, str(self.checkpoints)]
        newest = self.newest_checkpoint()
        return TalkingProcess([*command, newest.as_uri()] if newest else command)

    def one_life(self) -> None:
        """The program is killed some time after its first checkpoint, with which it commits."""
        self.feed(self.records // (TRIES * self.kills + 1))
        before, program = self.newest_checkpoint(), self.program()
        end_s = time.monotonic() + PATIENCE_S
        try:
            while self.newest_checkpoint() == before:
                if program.live_on(0.05) is not None:
                    return
                assert time.monotonic() < end_s, f"no checkpoint: {program.output[-20:]}"
            program.live_on(self.choices.uniform(0.2, 3.0))
        finally:
            self.killed += program.kill() == -signal.SIGKILL

    def finish(self) -> list[str]:
        self.feed(self.records - self.fed)
        program = self.program()
        end_s = time.monotonic() + PATIENCE_S
        try:
            while True:
                servers = self.peer.bootstrap_servers
                copied = [int(message.value()) for message in read_committed(servers, TARGET, PARTITIONS)]
                numbers = set(copied)
                if len(copied) > len(numbers):
                    return [f"{len(copied) - len(numbers)} records are there twice"]
                if len(numbers) == self.records:
                    return []
                if time.monotonic() > end_s or program.live_on(0.5) is not None:
                    return [f"{self.records - len(numbers)} records are missing: {program.output[-20:]}"]
        finally:
            program.kill()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.exactly_once.flink", description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--broker", choices=("moldau", "kafka"), default="moldau")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="moldau-flink-") as name:
        folder = Path(name)
        peer = new_peer(options.broker, folder / "broker")
        campaign = FlinkCampaign(peer, folder, options.records, options.kills, options.seed)
        faults = campaign.run()
    for fault in faults:
        print(fault)
    print(
        f"{peer.name}: {options.records:,} records, Flink killed {campaign.killed} times, "
        f"{time.monotonic() - began:.0f} s: {'BROKEN' if faults else 'each record is there once'}"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
