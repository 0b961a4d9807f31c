"""Spark copies a topic exactly once while drivers and executors are killed with -9; every record must be there once.

python -m tests.exactly_once.spark [--records 2000000] [--driver-kills 10] [--executor-kills 5] [--broker kafka]
[--seed N]

The queries run on a standalone cluster of Spark with two workers. A driver dies once at each named point of a batch,
and `--driver-kills` times at any moment after it has finished one; an executor dies in the middle of a query.
"""

from __future__ import annotations

import argparse
import functools
import queue
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.peers import CACHE, ApacheKafka, Moldau, Peer, fetch_kafka
from moldau.columnar.writer import TopicWriter
from tests.exactly_once.judge import read_committed
from tests.exactly_once.spark_cluster import SparkCluster, kill
from tests.exactly_once.spark_driver import AT_END, BATCH, JVM, POINTS
from tests.support.talking_process import TalkingProcess

SOURCE, TARGET = "source", "target"
SOURCE_PARTITIONS, TARGET_PARTITIONS = 2, 4
KEYS = 500
BATCHES_OF_A_LIFE = 3
PATIENCE_S = 600.0
"""A driver that says nothing for so long has failed."""
AT_RANDOM, EXECUTOR = "the driver, at random", "an executor"


class SparkCampaign:
    """A life of a driver for each of `victims`, and a last one that comes to the end. `say` gets a line for each."""

    def __init__(
        self, peer: Peer, folder: Path, records: int, victims: list[str], seed: int, say: Callable[[str], None]
    ) -> None:
        self.peer, self.folder, self.records, self.victims, self.say = peer, folder, records, victims, say
        self.checkpoint = folder / "checkpoint"
        self.share = records // (len(victims) + 1)
        self.choices = random.Random(seed)
        self.choices.shuffle(self.victims)
        self.fed = 0
        self.killed = 0

    def run(self) -> list[str]:
        """What is wrong with the copy; nothing if every record is there once, in order."""
        self.peer.start()
        try:
            self.make_topics()
            self.cluster = SparkCluster(self.folder)
            try:
                for number, victim in enumerate(self.victims, 1):
                    began = time.monotonic()
                    self.feed(self.fed + self.share)
                    end = self.one_life(victim)
                    seconds = time.monotonic() - began
                    self.say(f"life {number} of {len(self.victims)}, {seconds:.0f} s, kill {victim}: {end}")
                self.feed(self.records)
                self.finish()
            finally:
                self.cluster.stop()
            return self.judge()
        finally:
            self.peer.stop()

    def make_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.peer.bootstrap_servers})
        topics = [NewTopic(SOURCE, SOURCE_PARTITIONS, 1), NewTopic(TARGET, TARGET_PARTITIONS, 1)]
        for future in admin.create_topics(topics).values():
            future.result(timeout=30)

    def feed(self, end: int) -> None:
        """The source gets the records up to number `end`: number n in partition n % 2."""
        numbers = np.arange(self.fed, end)
        columns = {
            "key": pa.array(numbers % KEYS).cast(pa.string()),
            "value": pa.array(numbers).cast(pa.string()),
            "partition": pa.array(numbers % SOURCE_PARTITIONS),
        }
        with TopicWriter(self.peer.bootstrap_servers, SOURCE) as writer:
            writer.write(pa.table(columns))
        self.fed = end

    def noted(self) -> int:
        """The last batch that Spark has noted as finished; -1 before the first."""
        return max((int(path.name) for path in (self.checkpoint / "commits").glob("[0-9]*")), default=-1)

    def driver(self, *arguments: str) -> TalkingProcess:
        command = [sys.executable, "-m", "tests.exactly_once.spark_driver"]
        command += ["--bootstrap-server", self.peer.bootstrap_servers, "--source", SOURCE, "--target", TARGET]
        command += ["--checkpoint", str(self.checkpoint), "--setting", f"spark.master={self.cluster.url}"]
        command += ["--setting", "spark.executor.memory=512m"]
        command += ["--records-per-batch", str(max(1, self.share // BATCHES_OF_A_LIFE)), *arguments]
        return TalkingProcess(command)

    def one_life(self, victim: str) -> str:
        """How it ended."""
        if victim in POINTS:
            # not in the first batch, which may be one that an earlier life has begun: so each life gets on
            return self.end_of(self.driver("--point", victim, "--batch", str(self.noted() + 2)))
        driver = self.driver()
        try:
            if self.says(driver, BATCH):
                driver.live_on(self.choices.uniform(0.1, 2.0))
                self.kill(victim, driver)
        except BaseException:
            driver.kill()
            raise
        return self.end_of(driver)

    def kill(self, victim: str, driver: TalkingProcess) -> None:
        if victim == EXECUTOR:
            executors = self.cluster.executors()
            if executors and AT_END not in "".join(driver.output):
                kill(self.choices.choice(executors))
                self.killed += 1
            return
        (jvm,) = [int(line.split()[1]) for line in driver.output if line.startswith(JVM)]
        kill(jvm)
        driver.kill()

    def says(self, driver: TalkingProcess, word: str) -> bool:
        """Whether such a line came before the driver ended."""
        try:
            return driver.wait_for(lambda line: line.startswith(word), time.monotonic() + PATIENCE_S)
        except queue.Empty:
            raise AssertionError(f"the driver is silent: {driver.output[-5:]}") from None

    def end_of(self, driver: TalkingProcess) -> str:
        """Waits for the end of a driver."""
        try:
            is_at_end = self.says(driver, AT_END)
        finally:
            code = driver.kill()
        if code == -signal.SIGKILL and not is_at_end:
            self.killed += 1
            return f"killed in batch {self.noted() + 1}"
        if is_at_end:
            return f"went on to the end, batch {self.noted()}"
        reasons = [line.strip() for line in driver.output if "Error:" in line or "Exception:" in line]
        return f"ended in batch {self.noted() + 1}: {(reasons or driver.output)[-1][:200]}"

    def finish(self) -> None:
        end = self.end_of(self.driver())
        assert self.noted() >= 0, end
        self.say(f"the last life {end}")

    def judge(self) -> list[str]:
        seen, twice, wrong_key, disorder = bytearray(self.records), 0, 0, 0
        last: dict[tuple[int, int], int] = {}
        for message in read_committed(self.peer.bootstrap_servers, TARGET, TARGET_PARTITIONS):
            number = int(message.value())
            twice += seen[number]
            seen[number] = 1
            wrong_key += int(message.key()) != number % KEYS
            # what one source partition sends to one target partition stays in order
            way = (number % SOURCE_PARTITIONS, message.partition())
            disorder += last.get(way, -1) >= number
            last[way] = number
        faults = {"missing": seen.count(0), "twice": twice, "of another key": wrong_key, "out of order": disorder}
        return [f"{count:,} records {what}" for what, count in faults.items() if count]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.exactly_once.spark", description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--driver-kills", type=int, default=10)
    parser.add_argument("--executor-kills", type=int, default=5)
    parser.add_argument("--broker", choices=("moldau", "kafka"), default="moldau")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    victims = [*POINTS, *[AT_RANDOM] * options.driver_kills, *[EXECUTOR] * options.executor_kills]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="moldau-spark-") as name:
        folder = Path(name)
        peer: Peer = Moldau("Moldau", folder / "broker")
        if options.broker == "kafka":
            peer = ApacheKafka("Apache Kafka", folder / "broker", libraries=fetch_kafka(CACHE))
        say = functools.partial(print, flush=True)
        campaign = SparkCampaign(peer, folder, options.records, victims, options.seed, say)
        faults = campaign.run()
    for fault in faults:
        print(fault)
    print(
        f"{peer.name}: {options.records:,} records, {campaign.killed} of {len(victims)} victims killed, "
        f"{time.monotonic() - began:.0f} s: {'BROKEN' if faults else 'each record is there once, in order'}"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
