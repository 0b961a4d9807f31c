"""Runs a device and a centre, lets the line between them die twice, and kills programs with -9:
`python run.py [--kills 3] [--seed 1]`. Writes out/run.json for the picture.
"""

import argparse
import atexit
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from settings import ON_THE_DEVICE, SECONDS, TOPIC, client

OUT = Path("out")
PHASES = [(6_000, True), (12_000, False), (14_000, True), (36_000, False), (40_000, True)]
"""Up to which reading the line lives or is dead."""
READINGS = PHASES[-1][0]
LONG_OUTAGE = PHASES[-2][0]
"""It lasts until retention on the device has deleted readings that were not forwarded."""
RETENTION = ["--set", "log.retention.check.interval.ms=500", "--set", "log.initial.task.delay.ms=500"]
START_S, BOUND_S, BOUND_OF_A_KILL_S = 60, 250, 20


class Program:
    """A program, started again when it dies. `lines`: what it printed."""

    def __init__(self, *words):
        self.words, self.lines = words, []
        self.start()
        atexit.register(lambda: self.process.kill())

    def start(self):
        command = [sys.executable, *self.words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        threading.Thread(target=self.lines.extend, args=[self.process.stdout], daemon=True).start()

    def revive(self):
        if self.process.poll():
            self.start()

    @property
    def count(self):
        return int(self.lines[-1]) if self.lines else 0


def held_port():
    """A socket that keeps a port while its server is down: both bind it, the server listens."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


def broker(name, address, *settings):
    return Program("-m", "moldau", "up", "--listen", address, "--data-dir", str(OUT / name), "--no-console", *settings)


def topic(address, **settings):
    admin = AdminClient(client(address))
    admin.create_topics([NewTopic(TOPIC, 1, config=settings)], request_timeout=START_S)[TOPIC].result(START_S)


class Run:
    def __init__(self, kills, seed):
        self.end = time.monotonic() + BOUND_S + kills * BOUND_OF_A_KILL_S
        self.held = [held_port() for _ in range(3)]
        ports = [held.getsockname()[1] for held in self.held]
        self.device, self.line_end, centre = [f"127.0.0.1:{port}" for port in ports]
        advertised = ["--set", f"advertised.listeners=PLAINTEXT://{self.line_end}"]
        self.line = Program("line.py", *(str(port) for port in ports[1:]))
        self.programs = {
            "device's broker": broker("device", self.device, *RETENTION),
            "centre's broker": broker("centre", centre, *advertised),
        }
        topic(self.device, **ON_THE_DEVICE)
        topic(self.line_end)
        self.programs["forwarder"] = Program("forward.py", self.device, self.line_end)
        draw = Random(seed)
        names = ["forwarder", "device's broker", "centre's broker"]
        self.due = [((number + draw.random()) / kills, names[number % 3]) for number in range(kills)]
        self.written = 0
        self.begin = time.monotonic()
        self.samples, self.kills, self.outages = [], [], []

    def seconds(self):
        return time.monotonic() - self.begin

    def first_kept(self):
        """The first reading of the oldest segment on the device."""
        return min((int(path.stem) for path in (OUT / "device").glob(f"{TOPIC}-0/*.log")), default=0)

    def tend(self):
        """Looks at all programs, starts dead ones, and kills one if that is due."""
        forwarded = self.programs["forwarder"].count
        kept = sum(path.stat().st_size for path in (OUT / "device").glob(f"{TOPIC}-0/*.log"))
        self.samples.append((self.seconds(), self.written, forwarded, kept))
        if self.due and (self.written + forwarded) / (2 * READINGS) > self.due[0][0]:
            name = self.due.pop(0)[1]
            print("kill", name, flush=True)
            self.kills.append((self.seconds(), name))
            self.programs[name].process.kill()
            self.programs[name].process.wait(SECONDS)
        for program in self.programs.values():
            program.revive()
        if time.monotonic() > self.end:
            sys.exit("not done in time")
        time.sleep(0.05)

    def phase(self, end, is_alive):
        if not is_alive:
            self.line.process.send_signal(signal.SIGSTOP)
            self.outages.append([self.seconds(), None])
        device = Program("device.py", self.device, str(end))
        while device.process.poll() != 0:
            device.revive()
            self.written = max(self.written, device.count)
            self.tend()
        self.written = end
        while end == LONG_OUTAGE and self.first_kept() <= self.programs["forwarder"].count:
            self.tend()
        if not is_alive:
            self.line.process.send_signal(signal.SIGCONT)
            self.outages[-1][1] = self.seconds()
        while self.programs["forwarder"].count < end:
            self.tend()

    def records(self):
        consumer = Consumer(
            client(self.line_end)
            | {"group.id": "check", "isolation.level": "read_committed", "enable.partition.eof": True}
        )
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        while True:
            for message in consumer.consume(1000, timeout=0.2):
                if not message.error():
                    yield json.loads(message.value())
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    return

    def check(self):
        """The number of readings that are missing. Each other one is there once and in order, each missing one said."""
        next_number = missing = 0
        for record in self.records():
            begin, end = record.get("missing") or (record["number"], record["number"] + 1)
            if begin != next_number:
                sys.exit(f"reading {next_number} should follow, and {record} does")
            if "missing" in record:
                missing += end - begin
                print(f"missing: readings {begin} to {end - 1}")
            next_number = end
        if next_number != READINGS:
            sys.exit(f"the last reading is {next_number - 1}")
        if not missing:
            sys.exit("the second outage was to be longer than the disk of the device lasts")
        return missing


parser = argparse.ArgumentParser()
parser.add_argument("--kills", type=int, default=3)
parser.add_argument("--seed", type=int, default=1)
options = parser.parse_args()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
shutil.rmtree(OUT, ignore_errors=True)
OUT.mkdir()
run = Run(options.kills, options.seed)
for end, is_alive in PHASES:
    run.phase(end, is_alive)
while run.due:
    run.tend()
missing = run.check()
story = {"samples": run.samples, "kills": run.kills, "outages": run.outages, "missing": missing, "readings": READINGS}
(OUT / "run.json").write_text(json.dumps(story))
print(
    f"{READINGS - missing} of {READINGS} readings at the centre, each once; the {missing} others are said to be missing"
)
