"""The programs of examples/delivery as processes, and the records that they leave."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, TopicPartition

FOLDER = Path(__file__).parents[2] / "examples" / "delivery"
STOP_S = 120
READ_S = 60


def command(program: str, topic: str, address: str, *more: str) -> list[str]:
    return [sys.executable, str(FOLDER / f"{program}.py"), topic, "--bootstrap-server", address, *more]


class Program:
    """One life of a program; `output` gets its lines."""

    def __init__(self, program: str, topic: str, address: str, output: Path, *more: str) -> None:
        self._output = output
        self._seen = output.stat().st_size if output.exists() else 0
        with output.open("ab") as file, output.with_suffix(".errors").open("ab") as errors:
            self._process = subprocess.Popen(
                command(program, topic, address, *more),
                stdout=file,
                stderr=errors,
                cwd=output.parent,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def has_spoken(self) -> bool:
        return self._output.stat().st_size > self._seen

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.wait(STOP_S)

    def terminate(self) -> None:
        """SIGTERM."""
        self._process.terminate()

    def finish(self) -> int:
        """Waits for its end; gives the exit code."""
        return self._process.wait(STOP_S)


def numbers_in(address: str, topic: str) -> list[int]:
    """The numbers in partition 0 of a topic, for a reader of committed records. Raises AssertionError if its end is not
    reached in time."""
    settings = {"bootstrap.servers": address, "group.id": "judge", "enable.auto.commit": False}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    try:
        end_s = time.monotonic() + READ_S
        while time.monotonic() < end_s:
            for message in consumer.consume(1_000, 0.1):
                error = message.error()
                if error is None:
                    found.append(int(message.value() or b""))
                elif error.code() == KafkaError._PARTITION_EOF:
                    return found
        raise AssertionError(f"the end of {topic} was not reached in {READ_S} s")
    finally:
        consumer.close()
