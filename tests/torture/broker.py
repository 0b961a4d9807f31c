"""The tortured broker: one data directory and one address through many lives."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.torture.ledger import Ledger

READY_WITHIN_S = 120
STOPS_WITHIN_S = 120
SETTINGS = {
    "log.segment.bytes": 4 << 20,
    "log.retention.hours": -1,
    "log.cleaner.backoff.ms": 1000,
    "log.cleaner.min.cleanable.ratio": 0.01,
    "log.segment.delete.delay.ms": 1000,
    "offsets.topic.segment.bytes": 1 << 20,
}


def port_below_the_ephemeral_ones(choices: random.Random) -> int:
    """A port that the kernel gives to no outgoing connection: a client of the run cannot take it between two lives."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for _ in range(100):
        port = choices.randrange(10_000, lowest)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise OSError("no free port was found in 100 tries")


class TorturedBroker:
    """`moldau up`, killed, stopped, frozen and started again. `output` holds the lines of all lives."""

    def __init__(self, folder: Path, choices: random.Random, ledger: Ledger) -> None:
        self.choices, self.ledger = choices, ledger
        self.output = folder / "broker.log"
        self.port = port_below_the_ephemeral_ones(choices)
        self.address = f"127.0.0.1:{self.port}"
        self.command = [sys.executable, "-m", "moldau.cli.main", "up", "--no-console"]
        self.command += ["--data-dir", str(folder / "data"), "--listen", self.address]
        for name, value in SETTINGS.items():
            self.command += ["--set", f"{name}={value}"]
        self.process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(self.command, stdout=output, stderr=output)

    def start(self) -> None:
        """Returns when the broker accepts connections. A start that fails or hangs is a problem and is tried again."""
        for _ in range(5):
            self.launch()
            assert self.process is not None
            deadline = time.monotonic() + READY_WITHIN_S
            while self.process.poll() is None and time.monotonic() < deadline:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                        return
                time.sleep(0.005)
            how = "hung" if self.process.poll() is None else f"ended with {self.process.returncode}"
            self.ledger.problem(f"a start {how}; last line: {self.last_line()}")
            self.kill()
        raise RuntimeError(f"the broker does not start any more: see {self.output}")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(STOPS_WITHIN_S)

    def last_line(self) -> str:
        lines = self.output.read_text(errors="replace").splitlines()
        return lines[-1] if lines else ""

    def kill_and_start(self) -> None:
        self.kill()
        self.start()

    def kill_inside_starts(self) -> None:
        self.kill()
        for _ in range(self.choices.randrange(1, 4)):
            self.launch()
            time.sleep(self.choices.uniform(0.05, 0.6))
            self.kill()
            self.ledger.count("kills inside a start")
        self.start()

    def stop_and_start(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.ledger.problem(f"a SIGTERM was not obeyed within {STOPS_WITHIN_S} s")
            self.kill()
        else:
            if code:
                self.ledger.problem(f"a SIGTERM ended with exit code {code}; last line: {self.last_line()}")
        self.start()

    def freeze(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)
        time.sleep(self.choices.uniform(0.5, 8))
        os.kill(self.process.pid, signal.SIGCONT)

    def torment(self) -> str:
        """One random act of violence. Gives its name."""
        acts = {
            "kill -9": self.kill_and_start,
            "kill -9 inside starts": self.kill_inside_starts,
            "SIGTERM": self.stop_and_start,
            "SIGSTOP": self.freeze,
        }
        name = self.choices.choice(list(acts))
        acts[name]()
        return name
