"""Runs the three services. The stock is killed in the middle, as by `kill -9`, and started again."""

import subprocess
import sys
import time

from confluent_kafka import Consumer, TopicPartition
from service import SERVERS

PATIENCE_S = 120
watcher = Consumer({"bootstrap.servers": SERVERS, "group.id": "watcher", "isolation.level": "read_committed"})


def start(service: str) -> subprocess.Popen:
    """Returns when it reads its topic."""
    process = subprocess.Popen([sys.executable, service], stdout=subprocess.PIPE)
    process.stdout.readline()
    return process


def wait_for_records(topic: str, count: int, process: subprocess.Popen) -> None:
    """Markers of transactions count as records."""
    end = time.monotonic() + PATIENCE_S
    while watcher.get_watermark_offsets(TopicPartition(topic, 0), 10)[1] < count:
        if process.poll() or time.monotonic() > end:
            raise SystemExit(f"{topic} does not get its records")
        watcher.poll(0.02)


def lag(group: str, topic: str, partitions: int) -> int:
    """Records that the group has not finished."""
    reader = Consumer({"bootstrap.servers": SERVERS, "group.id": group})
    committed = reader.committed([TopicPartition(topic, partition) for partition in range(partitions)], 10)
    ends = [reader.get_watermark_offsets(TopicPartition(topic, place.partition), 10)[1] for place in committed]
    reader.close()
    return sum(end - max(0, place.offset) for place, end in zip(committed, ends, strict=True))


stock, shipping = start("stock.py"), start("shipping.py")
orders = subprocess.Popen([sys.executable, "orders.py"])
try:
    wait_for_records("stock-replies", 150, stock)
    stock.kill()
    stock.wait(30)
    stock = start("stock.py")
    if orders.wait(PATIENCE_S) != 0:
        raise SystemExit("the orders did not end well")
    end = time.monotonic() + PATIENCE_S
    while lag("shipping", "order-events", 3) and time.monotonic() < end:
        watcher.poll(0.1)
finally:
    for process in (stock, shipping, orders):
        process.kill()
        process.wait(30)
