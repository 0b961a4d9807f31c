"""Kafka Streams counts words with exactly_once_v2 while it and the broker are killed with -9; the counts must be right.

python -m tests.exactly_once.streams [--words 50000] [--kills 10] [--seed N]
"""

from __future__ import annotations

import argparse
import queue
import random
import signal
import struct
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.peers import CACHE, fetch_jars
from tests.exactly_once.judge import read_committed
from tests.support.revived_broker import RevivedBroker
from tests.support.talking_process import TalkingProcess

SOURCE, COUNTS = "words", "counts"
PARTITIONS = 2
VOCABULARY = 200
PATIENCE_S = 180.0
TRIES = 2
"""On average over all lives of the program: in some it ends by itself before it is killed."""
PROGRAM = Path(__file__).parent / "java" / "WordCount.java"


class WordCount:
    """The program and the broker are killed `kills` times each, the broker in the middle of the program's life."""

    def __init__(self, words: int, kills: int, seed: int, folder: Path) -> None:
        self.words, self.kills = words, kills
        self.choices = random.Random(seed)
        self.libraries = fetch_jars(CACHE, "streams", ("kafka-streams",))
        self.folder = folder
        self.broker = RevivedBroker(folder / "data")
        self.fed: Counter[str] = Counter()
        self.killed = 0

    def run(self) -> list[str]:
        """The faults; empty if the program was killed often enough, and each count is right."""
        try:
            admin = AdminClient({"bootstrap.servers": self.broker.address})
            for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (SOURCE, COUNTS)]).values():
                future.result(timeout=30)
            for number in range(1, TRIES * self.kills + 1):
                if self.killed == self.kills:
                    break
                self.one_life()
                print(f"life {number}: {self.killed} of {self.kills} killed", flush=True)
            missed = self.kills - self.killed
            return [*[f"the program was not killed {missed} times"] * (missed > 0), *self.finish()]
        finally:
            self.broker.stop()

    def feed(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.broker.address, "linger.ms": 20, "enable.idempotence": True})
        for _ in range(count):
            word = f"word-{self.choices.randrange(VOCABULARY)}"
            self.fed[word] += 1
            producer.produce(SOURCE, word.encode(), partition=self.choices.randrange(PARTITIONS))
            producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0

    def program(self) -> TalkingProcess:
        command = ["java", "-Xmx256m", "-cp", f"{self.libraries}/*", str(PROGRAM)]
        return TalkingProcess([*command, self.broker.address, str(self.folder / "state")])

    def one_life(self) -> None:
        self.feed(self.words // (TRIES * self.kills + 1))
        program = self.program()
        seconds, has_counted = self.choices.uniform(0.2, 3.0), False
        try:
            has_counted = program.wait_for(lambda line: line == "counted", time.monotonic() + PATIENCE_S)
            if has_counted:
                program.live_on(seconds / 2)
                self.broker.kill()
                program.live_on(seconds / 2)
        except queue.Empty:
            raise AssertionError(f"the program is silent: {program.output[-5:]}") from None
        finally:
            self.killed += program.kill() == -signal.SIGKILL and has_counted

    def finish(self) -> list[str]:
        self.feed(self.words - sum(self.fed.values()))
        program = self.program()
        end_s = time.monotonic() + PATIENCE_S
        try:
            while True:
                counted = self.counted()
                wrong = [
                    f"{word}: {counted.get(word, 0)} instead of {count}"
                    for word, count in sorted(self.fed.items())
                    if counted.get(word, 0) != count
                ]
                # a count that is too high stays wrong
                is_too_high = any(counted.get(word, 0) > count for word, count in self.fed.items())
                if not wrong or is_too_high or time.monotonic() > end_s:
                    return wrong
        finally:
            program.kill()

    def counted(self) -> dict[str, int]:
        """The last committed count of each word."""
        return {
            message.key().decode(): struct.unpack(">q", message.value())[0]
            for message in read_committed(self.broker.address, COUNTS, PARTITIONS)
        }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.exactly_once.streams", description=__doc__)
    parser.add_argument("--words", type=int, default=50_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="moldau-streams-") as folder:
        count = WordCount(options.words, options.kills, options.seed, Path(folder))
        faults = count.run()
    for fault in faults[:10]:
        print(fault)
    print(
        f"{options.words:,} words, program and broker killed {count.killed} times each, "
        f"{time.monotonic() - began:.0f} s: {'BROKEN' if faults else 'each count is right'}"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
