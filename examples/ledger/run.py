"""Runs a broker, the writer and the reader, kills them with -9, and asks for the balances all the time:
`python run.py [--kills 3] [--seed 1]`. Writes out/run.json for the picture.
"""

import argparse
import atexit
import json
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random

from book import ENTRIES, PARTITIONS, SECONDS, TRANSFERS, client, transfers
from confluent_kafka.admin import AdminClient, NewTopic

OUT = Path("out")
START_S, BOUND_S, BOUND_OF_A_KILL_S = 60, 200, 20


class Program:
    """A program, started again when it dies. `lines`: what it printed."""

    def __init__(self, name, *words):
        self.name, self.words, self.lines = name, words, []
        self.start()
        atexit.register(lambda: self.process.kill())

    def start(self):
        command = [sys.executable, *self.words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        threading.Thread(target=self.lines.extend, args=[self.process.stdout], daemon=True).start()

    def revive(self):
        if self.process.poll():
            self.start()

    def kill(self):
        self.process.kill()
        self.process.wait(SECONDS)


class Run:
    def __init__(self, kills, seed):
        self.end = time.monotonic() + BOUND_S + kills * BOUND_OF_A_KILL_S
        draw = Random(seed)
        names = ["writer", "broker", "reader"]
        self.due = [((number + draw.random()) / kills * TRANSFERS, names[number % 3]) for number in range(kills)]
        self.samples, self.kills, self.programs = [], [], {}
        self.held = socket.socket()  # keeps the port while the broker is down: both bind it, the broker listens
        self.held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.held.bind(("127.0.0.1", 0))

    def start(self):
        address = f"127.0.0.1:{self.held.getsockname()[1]}"
        words = ["-m", "moldau", "up", "--listen", address, "--data-dir", str(OUT / "broker"), "--no-console"]
        self.programs["broker"] = Program("broker", *words)
        admin = AdminClient(client(address))
        admin.create_topics([NewTopic(ENTRIES, PARTITIONS)], request_timeout=START_S)[ENTRIES].result(START_S)
        self.programs["reader"] = Program("reader", "reader.py", address, str(OUT / "ledger.db"))
        self.programs["writer"] = Program("writer", "writer.py", address)

    def balances(self):
        """Number of transfers booked, and the cents of each account: one query sees one moment."""
        rows = []
        try:
            with sqlite3.connect(f"file:{OUT / 'ledger.db'}?mode=ro", uri=True, timeout=SECONDS) as database:
                rows = database.execute("select account, transfers, cents from balances order by account").fetchall()
        except sqlite3.OperationalError as error:  # the reader has not made it yet
            if self.samples:
                raise error
        return sum(count for _, count, _ in rows) // 2, {account: cents for account, _, cents in rows}

    def watch(self):
        begin, booked = time.monotonic(), 0
        while self.due or booked < TRANSFERS:
            booked, balances = self.balances()
            if sum(balances.values()) != 0:
                sys.exit(f"the sum of the balances is {sum(balances.values())} after {booked} transfers")
            if balances:
                self.samples.append((time.monotonic() - begin, balances))
            lines = self.programs["writer"].lines
            if self.due and lines and int(lines[-1]) >= self.due[0][0]:
                name = self.due.pop(0)[1]
                self.programs[name].kill()
                self.kills.append((time.monotonic() - begin, name))
                print("kill", name, flush=True)
            for program in self.programs.values():
                program.revive()
            if time.monotonic() > self.end:
                sys.exit("not done in time")
            time.sleep(0.02)

    def check(self):
        expected = Counter()
        for giver, taker, cents in transfers():
            expected[giver] -= cents
            expected[taker] += cents
        booked, balances = self.balances()
        if booked != TRANSFERS or balances != dict(expected):
            sys.exit(f"the balances are {balances} after {booked} transfers, not {dict(expected)}")


parser = argparse.ArgumentParser()
parser.add_argument("--kills", type=int, default=3)
parser.add_argument("--seed", type=int, default=1)
options = parser.parse_args()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
shutil.rmtree(OUT, ignore_errors=True)
OUT.mkdir()
run = Run(options.kills, options.seed)
run.start()
run.watch()
run.check()
(OUT / "run.json").write_text(json.dumps({"samples": run.samples, "kills": run.kills}))
print(f"{TRANSFERS} transfers, each booked once; asked {len(run.samples)} times, the sum was always 0")
