"""Builds version 2 from the first event, while commands come in and version 1 goes on and serves; then swaps them."""

import sqlite3
import subprocess
import threading
import time

from project import FILE, PROJECTIONS, consumer_of, events_projected, events_written

PATIENCE_S = 120
stop = threading.Event()


def follow(version: int) -> None:
    with consumer_of(version) as consumer:
        while not stop.is_set():
            consumer.poll(PROJECTIONS[version], 0.2)


projectors = [threading.Thread(target=follow, args=(version,)) for version in PROJECTIONS]
commands = subprocess.Popen(["bash", "-o", "pipefail", "-c", "python commands.py tuesday | python decide.py"])
for projector in projectors:
    projector.start()
connection = sqlite3.connect(FILE, timeout=30, isolation_level=None)
end = time.monotonic() + PATIENCE_S
try:
    while commands.poll() is None or any(events_projected(connection, each) < events_written() for each in PROJECTIONS):
        assert connection.execute("select count(*) from shows").fetchone()[0] == 6  # what a reader asks all the time
        if time.monotonic() > end or commands.poll():
            raise SystemExit("the read models do not catch up")
        stop.wait(0.05)
finally:
    stop.set()
    for projector in projectors:
        projector.join(PATIENCE_S)
connection.execute("begin immediate")
first, second = (
    connection.execute(f"select show, taken from shows_{version} order by show").fetchall() for version in PROJECTIONS
)
if first != second:
    raise SystemExit(f"they differ, and version 1 stays: {first} and {second}")
connection.execute("drop view shows")
connection.execute("create view shows as select * from shows_2")
connection.execute("commit")
print(f"version 2 has {events_projected(connection, 2)} events and the seats of version 1")
