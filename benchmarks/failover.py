"""`python -m benchmarks.failover [--kills 10]`: how long a producer waits when one node of three is killed with -9.

Three nodes of Moldau and three of Apache Kafka run at once and are killed in turn: both meet the same machine. Before
each kill all replicas are in sync and each node leads a third of the partitions. The time ends when every partition has
acknowledged (acks=all) a record that the producer got after the kill. The producer is librdkafka's. It and the brokers
have default settings, except `min.insync.replicas=2`.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.peers import CACHE, PeerError, fetch_kafka
from benchmarks.run import say
from benchmarks.three_nodes import NODE_IDS, KafkaNode, MoldauNode, ThreeNodes

TOPIC = "failover"
PARTITIONS = 6
PACE_S = 0.02
"""The pause between two records of a partition."""
SETTLED_S = 5.0
"""The time of writing before each kill: clients know the leaders, brokers have sent heartbeats."""
PATIENCE_S = 120.0
CONTROLLER, OTHER = "the active controller's node", "another node"


class Writer:
    """One idempotent producer that writes to every partition all the time."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "log_level": 0})
        self._acknowledged = [0.0] * PARTITIONS
        """By partition: when the producer got its last acknowledged record."""

    def turn(self) -> None:
        """Writes one record to each partition, and handles acknowledgements."""
        sent_s = time.perf_counter()
        for partition in range(PARTITIONS):

            def acknowledged(error: KafkaError | None, message: Message, sent_s: float = sent_s) -> None:
                if error is not None:
                    raise PeerError(f"a record was refused: {error}")
                self._acknowledged[message.partition()] = sent_s

            self._producer.produce(TOPIC, b"x" * 100, partition=partition, on_delivery=acknowledged)
        while (left_s := sent_s + PACE_S - time.perf_counter()) > 0:
            self._producer.poll(left_s)

    def write_for(self, seconds: float) -> None:
        end_s = time.perf_counter() + seconds
        while time.perf_counter() < end_s:
            self.turn()

    def wait_since(self, begin_s: float) -> float:
        """The seconds from `begin_s` until every partition has acknowledged a record from after `begin_s`."""
        while min(self._acknowledged) < begin_s:
            if time.perf_counter() - begin_s > PATIENCE_S:
                raise PeerError(f"nothing was acknowledged for {PATIENCE_S:.0f} s")
            self.turn()
        return time.perf_counter() - begin_s


def kill_one(cluster: ThreeNodes, writer: Writer, victim: int) -> tuple[str, float]:
    """Gives the kind of kill and the seconds without produce. On return the node is back and in sync."""
    cluster.wait_for(lambda admin: cluster.is_whole(admin, TOPIC), writer.turn)
    writer.write_for(SETTLED_S)
    kind = CONTROLLER if cluster.active_controller() == victim else OTHER
    begin_s = time.perf_counter()
    cluster.nodes[victim].kill()
    took_s = writer.wait_since(begin_s)
    cluster.nodes[victim].start()
    return kind, took_s


def percentile(figures: list[float], share: float) -> float:
    ordered = sorted(figures)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def tell(name: str, seen: list[tuple[str, float]]) -> None:
    for kind in (OTHER, CONTROLLER, "all"):
        figures = [took_s for of, took_s in seen if kind in (of, "all")]
        if figures:
            line = f"p50 {statistics.median(figures):.2f} s, p99 {percentile(figures, 0.99):.2f} s"
            say(f"{name:12} {kind:30} {len(figures):3} kills: {line}, least {min(figures):.2f} s")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.failover", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=10, help="of nodes of each cluster")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without-apache", action="store_true")
    arguments = parser.parse_args()
    turns = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="moldau-failover-") as name:
        folder = Path(name)
        clusters = [ThreeNodes("Moldau", {each: MoldauNode("Moldau", folder / f"moldau-{each}") for each in NODE_IDS})]
        if not arguments.without_apache:
            libraries = fetch_kafka(CACHE)
            nodes = {each: KafkaNode("Kafka", folder / f"kafka-{each}", libraries=libraries) for each in NODE_IDS}
            clusters.append(ThreeNodes("Apache Kafka", nodes))
        seen: dict[str, list[tuple[str, float]]] = {cluster.name: [] for cluster in clusters}
        try:
            for cluster in clusters:
                cluster.start()
                cluster.create_topic(TOPIC, PARTITIONS)
            writers = {cluster.name: Writer(cluster.bootstrap_servers) for cluster in clusters}
            for number in range(1, arguments.kills + 1):
                for cluster in clusters:
                    kind, took_s = kill_one(cluster, writers[cluster.name], turns.choice(NODE_IDS))
                    seen[cluster.name].append((kind, took_s))
                    load = os.getloadavg()[0]
                    say(f"{number:3} {cluster.name:12} {kind:30} {took_s:6.2f} s   (load average {load:.1f})")
        finally:
            for cluster in clusters:
                cluster.stop()
        for cluster_name, figures in seen.items():
            tell(cluster_name, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
