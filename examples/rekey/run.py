"""Moves `orders` under load, kills programs with -9, and checks every record: `python run.py [--kills 3] [--seed 1]`.

Writes out/run.json for the picture.
"""

import argparse
import atexit
import json
import signal
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from pathlib import Path
from random import Random

from confluent_kafka import KafkaError
from orders import ORDERS
from shop import INVOICES, NEW, OLD, SECONDS, partitions_of, reader, source_of

TILLS, MEMBERS = 2, 2
TOTAL = TILLS * ORDERS
BOUND_S, BOUND_OF_A_KILL_S = 200, 20


class Program:
    """A program of this folder, started again when it dies. `lines`: when it printed what."""

    def __init__(self, *words):
        self.name = words[0].removesuffix(".py")
        self.lines = []
        self.start(*words)
        atexit.register(lambda: self.process.kill())

    def start(self, *words):
        self.words = words
        command = [sys.executable, *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        threading.Thread(target=self.read, args=[self.process], daemon=True).start()

    def read(self, process):
        for line in process.stdout:
            self.lines.append((time.time(), line.strip()))

    def revive(self):
        code = self.process.poll()
        if code:
            error = self.process.stderr.read().splitlines()
            print(self.name, "died:", error[-1] if error else f"signal {-code}", flush=True)
            self.start(*self.words)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()


class Records:
    """What a reader of ended transactions has seen of a topic."""

    def __init__(self, topic):
        self.topic, self.all, self.ended = topic, [], set()
        self.consumer = reader("check", **{"auto.offset.reset": "earliest", "enable.partition.eof": True})
        self.partitions = partitions_of(self.consumer, topic)
        self.consumer.assign(self.partitions)

    def read(self):
        for message in self.consumer.consume(1000, timeout=0.1):
            if not message.error():
                self.all.append(message)
                self.ended.discard(message.partition())
            elif message.error().code() == KafkaError._PARTITION_EOF:
                self.ended.add(message.partition())

    def read_to_end(self):
        self.ended.clear()
        self.consumer.assign(self.consumer.position(self.partitions))  # says again where each partition ends
        while len(self.ended) < len(self.partitions):
            self.read()
        return self.all

    def check(self):
        """Each order once, those of a customer in their order."""
        last = {}
        for message in self.read_to_end():
            order = json.loads(message.value())
            customer, number = order["customer"], order["number"]
            if number <= last.get(customer, -1):
                sys.exit(f"{self.topic}: {customer} has order {number} after order {last[customer]}")
            last[customer] = number
        if len(self.all) != TOTAL:
            sys.exit(f"{self.topic} has {len(self.all)} records of {TOTAL} orders")


class Move:
    def __init__(self, kills, seed):
        self.end = time.time() + BOUND_S + kills * BOUND_OF_A_KILL_S
        self.events, self.tills = [], []
        self.copier = Program("copier.py")
        self.members = [Program("billing.py", str(member), OLD) for member in range(MEMBERS)]
        while not all(member.lines for member in self.members):
            self.revive()
            time.sleep(0.05)
        self.begin = time.time()
        self.tills = [Program("orders.py", str(till), OLD) for till in range(TILLS)]
        self.records = {topic: Records(topic) for topic in (OLD, NEW, INVOICES)}
        draw = Random(seed)
        kinds = [[self.copier], self.tills, self.members]
        acts = [(0.4, lambda: self.switch(0)), (0.55, lambda: self.switch(1)), (0.75, self.follow)]
        for number in range(kills):
            victim = draw.choice(kinds[number % len(kinds)])
            acts.append(((number + draw.random()) / kills, lambda victim=victim: self.kill(victim)))
        self.acts = sorted(acts, key=lambda act: act[0])

    def say(self, event):
        self.events.append((time.time() - self.begin, event))
        print(event, flush=True)

    def kill(self, program):
        self.say(f"kill {program.name}")
        program.process.kill()
        program.process.wait(SECONDS)

    def switch(self, till):
        """The deployment of a till that writes the new topic."""
        self.tills[till].stop()
        self.tills[till].start("orders.py", str(till), NEW)
        self.say(f"till {till} writes the new topic")

    def follow(self):
        for member in self.members:
            member.stop()
        subprocess.run([sys.executable, "follow.py"], check=True, timeout=SECONDS * 2)
        for number, member in enumerate(self.members):
            member.start("billing.py", str(number), NEW)
        self.say("billing reads the new topic")

    def run(self):
        while self.acts or any(len(self.records[topic].all) < TOTAL for topic in (NEW, INVOICES)):
            written = sum(int(till.lines[-1][1]) if till.lines else 0 for till in self.tills)
            if self.acts and written >= self.acts[0][0] * TOTAL:
                self.acts.pop(0)[1]()
            for records in self.records.values():
                records.read()
            self.revive()
        self.stop()
        for topic in (NEW, INVOICES):
            self.records[topic].check()

    @property
    def programs(self):
        return [self.copier, *self.members, *self.tills]

    def revive(self):
        for program in self.programs:
            program.revive()
        if time.time() > self.end:
            sys.exit("not done in time")

    def stop(self):
        for program in self.programs:
            program.stop()

    def seen(self, messages):
        return sorted(message.timestamp()[1] / 1000 - self.begin for message in messages)

    def story(self):
        """Times in seconds: of each order and invoice, and of each transaction of the copier with its total."""
        old = self.records[OLD].read_to_end()
        offsets = [
            sorted(m.offset() for m in old if m.partition() == p.partition) for p in self.records[OLD].partitions
        ]
        copies = [
            (at - self.begin, sum(bisect_left(offsets[int(p)], offset) for p, offset in json.loads(position).items()))
            for at, position in self.copier.lines
        ]
        invoices = self.records[INVOICES].all
        return {
            "orders": self.seen(old),
            "new orders": self.seen(m for m in self.records[NEW].all if source_of(m) is None),
            "copies": copies,
            "invoices": self.seen(m for m in invoices if dict(m.headers())["from"] == OLD.encode()),
            "new invoices": self.seen(m for m in invoices if dict(m.headers())["from"] == NEW.encode()),
            "events": self.events,
        }


parser = argparse.ArgumentParser()
parser.add_argument("--kills", type=int, default=3)
parser.add_argument("--seed", type=int, default=1)
options = parser.parse_args()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
move = Move(options.kills, options.seed)
move.run()
Path("out").mkdir(exist_ok=True)
Path("out/run.json").write_text(json.dumps(move.story()))
print(f"{TOTAL} orders, each once in {NEW} and in {INVOICES}, those of a customer in their order")
