"""The clients of a campaign: idempotent producers, a group of readers, a transactional copier. All are recorded."""

from __future__ import annotations

import queue
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.history import Recorder
from tests.exactly_once.copier import AT_END
from tests.support.talking_process import TalkingProcess

TOPICS = ("orders", "payments", "source", "target")
WRITTEN = {"orders": 0.49, "payments": 0.49, "source": 0.02}
"""With their shares of the rate: the copier commits every twenty records, and must keep up."""
READ = ("orders", "payments")
PARTITIONS = 3
TURN_S = 0.05
FLUSH_S = 300.0
COPIER_S = 1_200.0
"""The copier fails if it has not reached the end of its source by then."""
QUIET: dict[str, Any] = {"log_level": 0, "reconnect.backoff.max.ms": 500}


def make_topics(bootstrap_servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in TOPICS]).values():
        future.result(timeout=60)


class Clients:
    """From `start` to `finish`. `problems`: errors that a client with default retries should never see.
    `ended_copiers`: how often the copier ended by itself, which `check` finds. `copies`: whether the copier runs."""

    def __init__(
        self,
        bootstrap_servers: str,
        recorder: Recorder,
        history: Path,
        rate: int,
        choices: random.Random,
        *,
        copies: bool = True,
    ) -> None:
        self.acknowledged = 0
        self.problems: list[str] = []
        self.ended_copiers = 0
        self._address = bootstrap_servers
        self._recorder = recorder
        self._history = history
        self._choices = choices
        self._has_to_stop = threading.Event()
        self._writers = [
            threading.Thread(target=self._write, args=(topic, rate * share), name=f"writer of {topic}")
            for topic, share in WRITTEN.items()
            if copies or topic in READ
        ]
        self._readers = [threading.Thread(target=self._read, name=f"reader {number}") for number in (1, 2)]
        self._lock = threading.Lock()
        self._copier = self._new_copier() if copies else None

    def start(self) -> None:
        for thread in (*self._writers, *self._readers):
            thread.start()

    def kill_copier(self) -> None:
        if self._copier is None:
            return
        self._recorder.fault("kill -9 of the copier")
        self._copier.kill()
        self._copier = self._new_copier()

    def _new_copier(self) -> TalkingProcess:
        names = [self._address, "source", "target", "copiers", str(self._history)]
        return TalkingProcess([sys.executable, "-m", "tests.exactly_once.copier", *names, "--member"])

    def check(self) -> None:
        """Restarts a copier that has ended by itself, as a supervisor would, and prints that."""
        if self._copier is not None and self._copier.live_on(0) is not None:
            self.ended_copiers += 1
            last = "".join(self._copier.output[-3:]).strip()
            self._recorder.fault(f"the copier ended by itself: {last[-200:]}")
            self._copier.kill()
            self._copier = self._new_copier()

    def finish(self) -> None:
        """Writers end, then readers; the copier reads to the end of its source."""
        self._has_to_stop.set()
        for thread in (*self._writers, *self._readers):
            thread.join(FLUSH_S + 60)
            if thread.is_alive():
                self.problems.append(f"{thread.name} hangs")
        if self._copier is None:
            return
        self._copier.kill()
        self._copier = self._new_copier()
        try:
            is_at_end = self._copier.wait_for(lambda line: line.startswith(AT_END), time.monotonic() + COPIER_S)
        except queue.Empty:
            is_at_end = False
        if not is_at_end:
            self.problems.append(f"the copier does not come to the end of its source: {self._copier.output[-3:]}")
        self._copier.kill()

    # -- threads

    def _write(self, topic: str, rate: float) -> None:
        settings = {"bootstrap.servers": self._address, "enable.idempotence": True, "linger.ms": 5, **QUIET}
        producer = self._recorder.producer({**settings, "error_cb": self._fatal})
        number = 0

        def delivered(error: KafkaError | None, message: Message) -> None:
            with self._lock:
                if error is None:
                    self.acknowledged += 1
                else:
                    self.problems.append(f"record {message.value()!r} of {topic}: {error}")

        while not self._has_to_stop.is_set():
            begin_s = time.monotonic()
            for _ in range(max(1, int(rate * TURN_S))):
                value = b"%s %d " % (topic.encode(), number) + b"." * (number % 120)
                try:
                    producer.produce(topic, value, partition=number % PARTITIONS, on_delivery=delivered)
                    number += 1
                except BufferError:
                    producer.poll(0.1)
                    break
            producer.poll(0)
            self._has_to_stop.wait(max(0.0, TURN_S - (time.monotonic() - begin_s)))
        if left := producer.flush(FLUSH_S):
            self.problems.append(f"{left} records of {topic} were not acknowledged {FLUSH_S:.0f} s after the end")

    def _fatal(self, error: KafkaError) -> None:
        if error.fatal():
            self.problems.append(f"a producer ended: {error}")

    def _read(self) -> None:
        settings = {
            "bootstrap.servers": self._address,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 10_000,
            **QUIET,
        }
        consumer = self._recorder.consumer(settings)
        consumer.subscribe(list(READ))
        while not self._has_to_stop.is_set():
            if consumer.consume(2_000, timeout=0.5):
                try:
                    consumer.commit(asynchronous=False)
                except KafkaException:
                    continue  # another member owns it now, or no member can: the next one commits
        consumer.close()
