"""`python -m benchmarks.full_load [--minutes 10]`: does the controller fence a live node of three under full load from
two producers?

A fenced broker leaves two traces: its partitions get another leader with a new leader epoch, and metadata omits it
while it is fenced. Exits with 1 if either is seen.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.run import say
from benchmarks.three_nodes import NODE_IDS, MoldauNode, ThreeNodes
from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.configs import alter_configs, as_changes
from moldau.core.metadata.image import ResourceType
from moldau.errors import KafkaError
from moldau.wire.protocol.messages.metadata import MetadataRequest

TOPIC, PARTITIONS, PRODUCERS, VALUE_BYTES = "load", 12, 2, 1_000
KEPT = {"retention.bytes": str(64 << 20), "segment.bytes": str(32 << 20), "file.delete.delay.ms": "5000"}
KEPT_BY_NODES = {"log.retention.check.interval.ms": "10000"}
"""With KEPT the disk holds seconds of this load, not the 100 GB of ten minutes."""
LOOK_EVERY_S = 0.5


def leader_epochs(admin: ClusterAdmin) -> dict[int, int]:
    answer = admin.ask(MetadataRequest(topics=None))
    (topic,) = (topic for topic in answer.topics if topic.name == TOPIC)
    return {row.partition_index: row.leader_epoch for row in topic.partitions}


def produce(bootstrap_servers: str, seconds: float) -> None:
    """Sends as fast as acknowledgements arrive, and prints the numbers of acknowledged and failed records."""
    settings = {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
    producer = Producer(settings | {"queue.buffering.max.messages": 200_000})
    counts = [0, 0]

    def told(error: object, _: object) -> None:
        counts[error is not None] += 1

    value, end_s = os.urandom(VALUE_BYTES), time.monotonic() + seconds
    while time.monotonic() < end_s:
        try:
            producer.produce(TOPIC, value, on_delivery=told)
        except BufferError:
            producer.poll(0.1)
        producer.poll(0)
    producer.flush(120)
    print(*counts)


def load(cluster: ThreeNodes, minutes: float) -> int:
    """Prints the findings. Gives the exit code."""
    cluster.create_topic(TOPIC, PARTITIONS)
    cluster.wait_for(lambda admin: cluster.is_whole(admin, TOPIC))
    with cluster.admin() as admin:
        alter_configs(admin, ResourceType.TOPIC, TOPIC, as_changes(KEPT, ()))
        before = leader_epochs(admin)
    words = [sys.executable, "-m", "benchmarks.full_load", "--produce", cluster.bootstrap_servers]
    words += ["--minutes", str(minutes)]
    producers = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(PRODUCERS)]
    looks = shrunk = unanswered = fenced = 0
    while any(producer.poll() is None for producer in producers):
        time.sleep(LOOK_EVERY_S)
        looks += 1
        try:
            with cluster.admin() as admin:
                fenced += admin.cluster().broker_ids() != list(NODE_IDS)
                shrunk += any(len(each.isr) < len(NODE_IDS) for each in cluster.topic(admin, TOPIC).partitions)
        except KafkaError:
            unanswered += 1
    with cluster.admin() as admin:
        moved = sum(epoch != before[index] for index, epoch in leader_epochs(admin).items())
    counts = [list(map(int, producer.communicate()[0].split())) for producer in producers]
    records, failed = (sum(column) for column in zip(*counts, strict=True))
    say(
        f"{records:,} records of {VALUE_BYTES} B in {minutes:g} min "
        f"({records / minutes / 60:,.0f}/s), {failed} failed; "
        f"{looks} looks: {fenced} without a broker, {shrunk} with a smaller ISR, {unanswered} unanswered; {moved} of "
        f"{PARTITIONS} partitions have another leader epoch (load average {os.getloadavg()[0]:.1f})"
    )
    return 1 if fenced or moved or failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.full_load", description="No false fencing.")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--produce", metavar="SERVERS", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.produce:
        produce(arguments.produce, arguments.minutes * 60)
        return 0
    with tempfile.TemporaryDirectory(prefix="moldau-load-") as folder:
        nodes = {node_id: MoldauNode("Moldau", Path(folder) / str(node_id)) for node_id in NODE_IDS}
        cluster = ThreeNodes("Moldau", dict(nodes), KEPT_BY_NODES)
        try:
            cluster.start()
            return load(cluster, arguments.minutes)
        finally:
            cluster.stop()


if __name__ == "__main__":
    sys.exit(main())
