"""Drivers on a standalone Spark cluster do a piece of work while they and their executors are killed with -9.

The cluster has two workers. A driver dies once at each named point of a batch, and a number of times at random: some
moments after any of its batches. An executor dies at such moments too.
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
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.peers import Peer, new_peer
from moldau.columnar.writer import TopicWriter
from tests.exactly_once.spark_cluster import SparkCluster, kill
from tests.exactly_once.spark_driver import AT_END, BATCH, JVM
from tests.exactly_once.tables import KEYS, TARGET_PARTITIONS
from tests.support.talking_process import TalkingProcess

SOURCE, TARGET = "source", "target"
SOURCE_PARTITIONS = 2
"""Record n has the key n % KEYS and the value n, and is in partition n % SOURCE_PARTITIONS."""
BATCHES_OF_A_LIFE = 3
TRIES = 2
"""On average over all victims."""
PATIENCE_S = 600.0
"""A driver that is silent for so long has failed."""
AT_RANDOM, EXECUTOR = "the driver, at random", "an executor"


class Work(Protocol):
    """The drivers' work on the records of SOURCE. `points`: where a driver can kill itself. `queries`: their number."""

    points: Sequence[str]
    queries: int

    @abstractmethod
    def begin(self, bootstrap_servers: str) -> None:
        """Called once, when the broker runs, with the topics SOURCE and TARGET."""

    @abstractmethod
    def command(self) -> list[str]:
        """The command of a driver, which also takes `--setting`, `--records-per-batch`, `--point` and `--batch`, and
        prints the lines of `spark_driver`."""

    @abstractmethod
    def noted(self) -> int:
        """The last batch that Spark has recorded as finished, in every query; -1 before the first."""

    @abstractmethod
    def faults(self, records: int) -> list[str]:
        """The faults after that many records."""


class SparkCampaign:
    """A driver's life for each of `victims`, and a last one that reaches the end. `say` gets a line for each.

    After `minutes` only the last life begins. A life that ended before its kill is tried again: on a busy machine Spark
    gives up processes that are slow to start.
    """

    def __init__(
        self,
        work: Work,
        peer: Peer,
        folder: Path,
        records: int,
        victims: list[str],
        seed: int,
        minutes: float,
        say: Callable[[str], None],
    ) -> None:
        self.work, self.peer, self.folder = work, peer, folder
        self.records, self.victims, self.minutes, self.say = records, victims, minutes, say
        self.most_lives = TRIES * len(victims)
        self.share = records // (self.most_lives + 1)
        self.choices = random.Random(seed)
        self.choices.shuffle(self.victims)
        self.fed = 0
        self.killed = 0

    def run(self) -> list[str]:
        """The faults of the result; empty if every record counts once."""
        self.peer.start()
        try:
            self.make_topics()
            self.work.begin(self.peer.bootstrap_servers)
            self.cluster = SparkCluster(self.folder)
            try:
                end_s = time.monotonic() + 60 * self.minutes
                for number in range(1, self.most_lives + 1):
                    if self.killed == len(self.victims) or time.monotonic() > end_s:
                        break
                    victim, began = self.victims[self.killed], time.monotonic()
                    self.feed(self.fed + self.share)
                    end = self.one_life(victim)
                    done = f"{self.killed} of {len(self.victims)} victims killed"
                    self.say(f"life {number}, {time.monotonic() - began:.0f} s, kill {victim}: {end}; {done}")
                self.feed(self.records)
                self.finish()
            finally:
                self.cluster.stop()
            missed = len(self.victims) - self.killed
            return [*[f"{missed} victims were not killed"] * (missed > 0), *self.work.faults(self.records)]
        finally:
            self.peer.stop()

    def make_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.peer.bootstrap_servers})
        topics = [NewTopic(SOURCE, SOURCE_PARTITIONS, 1), NewTopic(TARGET, TARGET_PARTITIONS, 1)]
        for future in admin.create_topics(topics).values():
            future.result(timeout=30)

    def feed(self, end: int) -> None:
        """Writes the records up to number `end` into the source."""
        numbers = np.arange(self.fed, end)
        columns = {
            "key": pa.array(numbers % KEYS).cast(pa.string()),
            "value": pa.array(numbers).cast(pa.string()),
            "partition": pa.array(numbers % SOURCE_PARTITIONS),
        }
        with TopicWriter(self.peer.bootstrap_servers, SOURCE) as writer:
            writer.write(pa.table(columns))
        self.fed = end

    def driver(self, *arguments: str) -> TalkingProcess:
        command = [*self.work.command(), "--setting", f"spark.master={self.cluster.url}"]
        command += ["--setting", "spark.executor.memory=512m"]
        command += ["--records-per-batch", str(max(1, self.share // BATCHES_OF_A_LIFE)), *arguments]
        return TalkingProcess(command)

    def one_life(self, victim: str) -> str:
        """Gives how it ended."""
        if victim in self.work.points:
            # not the first batch, which may be a repeated one: each life makes progress
            return self.end_of(self.driver("--point", victim, "--batch", str(self.work.noted() + 2)))
        driver = self.driver()
        before = self.choices.randint(1, self.work.queries * (BATCHES_OF_A_LIFE - 1))
        try:
            if all(self.says(driver, BATCH) for _ in range(before)):
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
            return f"killed in batch {self.work.noted() + 1}"
        if is_at_end:
            return f"went on to the end, batch {self.work.noted()}"
        reasons = [line.strip() for line in driver.output if "Error:" in line or "Exception:" in line]
        return f"ended in batch {self.work.noted() + 1}: {(reasons or driver.output)[-1][:200]}"

    def finish(self) -> None:
        # half of the records may be left, if each life died as planned
        end = self.end_of(self.driver("--records-per-batch", str(max(1, self.records // 4))))
        assert self.work.noted() >= 0, end
        self.say(f"the last life {end}")


def end_cleanly_by_sigterm() -> None:
    """From now on SIGTERM ends this program as Ctrl-C does, with the processes that it has started."""

    def end(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # once is enough
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, end)


def campaign_arguments(name: str, what: str, records: int, driver_kills: int) -> argparse.ArgumentParser:
    """Of the program `name`, which does `what`. The numbers are defaults."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {name}", description=what, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=records, help=f"{records:,} if it is not given")
    parser.add_argument("--driver-kills", type=int, default=driver_kills, help="at random, beside the named points")
    parser.add_argument("--executor-kills", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=120.0, help="after these no victim is killed any more")
    parser.add_argument("--broker", choices=("moldau", "kafka"), default="moldau")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    return parser


def run_campaign(options: argparse.Namespace, make_work: Callable[[Path], Work]) -> int:
    """`options`: from `campaign_arguments`. Gives the exit code of the program."""
    print(f"seed {options.seed}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="moldau-spark-") as directory:
        folder = Path(directory)
        peer = new_peer(options.broker, folder / "broker")
        work = make_work(folder)
        victims = [*work.points, *[AT_RANDOM] * options.driver_kills, *[EXECUTOR] * options.executor_kills]
        say = functools.partial(print, flush=True)
        campaign = SparkCampaign(work, peer, folder, options.records, victims, options.seed, options.minutes, say)
        faults = campaign.run()
    for fault in faults:
        print(fault)
    print(
        f"{peer.name}: {options.records:,} records, {campaign.killed} of {len(victims)} victims killed, "
        f"{time.monotonic() - began:.0f} s: {'BROKEN' if faults else 'each record is there once'}"
    )
    return 1 if faults else 0
