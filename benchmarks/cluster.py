"""`python -m benchmarks.cluster [--rounds 3] [--warm-memory]`: compares three nodes of Moldau with three of Apache
Kafka.

Topics have three replicas, two of which must be in sync, and records are produced with acks=all. Both clusters run all
the time, and each round measures both, in alternating order. At the end a node of each is killed, misses a gigabyte,
and returns. Then each cluster creates a topic of 2,000 partitions, and idles with its 6,000 replicas. Last, without a
peer: how soon `moldau events --follow` shows a change at each of our brokers.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from benchmarks import followed_events, warm_memory
from benchmarks.loaders import latency, produce
from benchmarks.peers import CACHE, Peer, PeerError, fetch_kafka
from benchmarks.run import Figures, in_turn, say, short
from benchmarks.three_nodes import NODE_IDS, KafkaNode, MoldauNode, ThreeNodes
from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.topics import list_topics

PARTITIONS = 3
SETTINGS: dict[str, object] = {"acks": "all", "enable.idempotence": True}
SIZES = {100: 1_000_000, 1_000: 200_000}
"""Records in a round, by value size in bytes."""
PACED = {"rate": 1_000, "records": 10_000, "warm_up": 15_000, "value_bytes": 100}
"""As in the workload of one broker: a JVM needs so many records to become fast."""
MISSED = 1_000_000
MANY_PARTITIONS = 2_000
SETTLING_S = 15.0
IDLE_S = 30.0
WRITTEN_WITHIN_S = 300.0


@dataclass
class AllNodes(Peer):
    """The nodes of one cluster as a single peer for the loaders: CPU and memory are sums."""

    cluster: ThreeNodes | None = None

    @property
    def bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    def cpu_seconds(self) -> float:
        return sum(node.cpu_seconds() for node in self._cluster.nodes.values() if node.process is not None)

    def pss_mib(self) -> float:
        return sum(node.pss_mib() for node in self._cluster.nodes.values())

    @property
    def _cluster(self) -> ThreeNodes:
        assert self.cluster is not None
        return self.cluster


def whole(cluster: ThreeNodes, topic: str) -> None:
    cluster.wait_for(lambda admin: cluster.is_whole(admin, topic))


def round_of(peer: AllNodes, cluster: ThreeNodes, number: int) -> Figures:
    figures: Figures = {}
    for value_bytes, records in SIZES.items():
        topic = f"produce-{value_bytes}-{number}"
        cluster.create_topic(topic, PARTITIONS)
        whole(cluster, topic)
        seen = produce.produce(peer, topic, records=records, value_bytes=value_bytes, settings=SETTINGS)
        figures[f"rate {value_bytes} B"] = seen["rate"]
        figures[f"CPU s per GB, {value_bytes} B"] = seen["cpu_per_gb"]
    topic = f"paced-{number}"
    cluster.create_topic(topic, 1)
    whole(cluster, topic)
    seen = latency.measure(peer, topic, **PACED)
    figures["p50 ms at 1,000/s"], figures["p99 ms at 1,000/s"] = seen["p50_ms"], seen["p99_ms"]
    return figures


def catch_up(peer: AllNodes, cluster: ThreeNodes) -> Figures:
    """The time a returning node needs to replicate the records that it missed."""
    cluster.create_topic("missed", PARTITIONS)
    whole(cluster, "missed")
    away = cluster.nodes[NODE_IDS[-1]]
    away.kill()
    seen = produce.produce(peer, "missed", records=MISSED, value_bytes=1_000, settings=SETTINGS)
    begin_s = time.perf_counter()
    away.start()
    cluster.wait_for(lambda admin: all(len(each.isr) == 3 for each in cluster.topic(admin, "missed").partitions))
    return {"rate without a node, 1000 B": seen["rate"], "s until 1 GB is caught up": time.perf_counter() - begin_s}


def many_partitions(peer: AllNodes, cluster: ThreeNodes) -> Figures:
    """The cost to create 6,000 replicas, and to keep them idle."""
    begin_s = time.perf_counter()
    cluster.create_topic("many", MANY_PARTITIONS)

    def are_led(admin: ClusterAdmin) -> bool:
        found = list_topics(admin).get("many")
        return found is not None and all(
            each.leader_id in NODE_IDS and len(each.isr) == len(NODE_IDS) for each in found.partitions
        )

    cluster.wait_for(are_led)
    made_s = time.perf_counter() - begin_s
    missing = write_to_each(cluster.bootstrap_servers, "many", MANY_PARTITIONS)
    serve_s = time.perf_counter() - begin_s
    if missing:
        raise PeerError(f"{missing} of {MANY_PARTITIONS} new partitions took no record")
    time.sleep(SETTLING_S)
    cpu_before = peer.cpu_seconds()
    time.sleep(IDLE_S)
    idle = (peer.cpu_seconds() - cpu_before) / IDLE_S
    return {
        "s to make 2,000 partitions x 3": made_s,
        "s until each took a record": serve_s,
        "idle CPU cores": idle,
        "PSS MiB": peer.pss_mib(),
    }


def write_to_each(bootstrap_servers: str, topic: str, partitions: int) -> int:
    """Writes one record to each partition with acks=all, because metadata names leaders before they lead. Gives the
    number of failures."""
    taken: list[Message] = []
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 50, **SETTINGS})

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            taken.append(message)

    for index in range(partitions):
        producer.produce(topic, b"x", partition=index, on_delivery=delivered)
    producer.flush(WRITTEN_WITHIN_S)
    return partitions - len(taken)


def table(seen: dict[str, list[Figures]]) -> None:
    """Medians of the rounds, and the ratio of Moldau to Apache Kafka."""
    ours, theirs = (seen[name] for name in ("Moldau", "Apache Kafka"))
    for figure in ours[0]:
        one, other = (statistics.median(each[figure] for each in rounds) for rounds in (ours, theirs))
        ratios = [a[figure] / b[figure] for a, b in zip(ours, theirs, strict=True) if b[figure]]
        spread = ", ".join(f"{ratio:.2f}" for ratio in sorted(ratios))
        say(f"{figure:32} {one:12,.4g} {other:12,.4g}   ratio {statistics.median(ratios):.2f}   ({spread})")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    warm_memory.add_option(parser)
    arguments = parser.parse_args()
    temporary = tempfile.TemporaryDirectory(prefix="moldau-cluster-bench-")
    with temporary as name, warm_memory.asked_for(arguments) as memory:
        folder, libraries = Path(name), fetch_kafka(CACHE)
        make: dict[str, Callable[[int], MoldauNode | KafkaNode]] = {
            "Moldau": lambda node_id: MoldauNode("Moldau", folder / f"moldau-{node_id}"),
            "Apache Kafka": lambda node_id: KafkaNode("Kafka", folder / f"kafka-{node_id}", libraries=libraries),
        }
        clusters = [ThreeNodes(kind, {node_id: new(node_id) for node_id in NODE_IDS}) for kind, new in make.items()]
        peers = [AllNodes(cluster.name, folder, cluster=cluster) for cluster in clusters]
        both = list(zip(peers, clusters, strict=True))
        seen: dict[str, list[Figures]] = {peer.name: [] for peer in peers}
        idle: dict[str, list[Figures]] = {}
        try:
            for peer, cluster in both:
                cluster.start()
                round_of(peer, cluster, -1)  # warm-up
            for number in range(arguments.rounds):
                for peer, cluster in in_turn(both, number):
                    if memory:
                        memory.take()
                    seen[peer.name].append(round_of(peer, cluster, number))
                    load = os.getloadavg()[0]
                    say(f"round {number + 1} {peer.name}: {short(seen[peer.name][-1])} (load average {load:.1f})")
            for peer, cluster in both:
                idle[peer.name] = [catch_up(peer, cluster) | many_partitions(peer, cluster)]
                say(f"{peer.name}: {short(idle[peer.name][0])}")
            shown = followed_events.measure(clusters[0])
        finally:
            for cluster in clusters:
                cluster.stop()
        say("")
        for figures in (seen, idle):
            table(figures)
        for figure, value in shown.items():
            say(f"{figure:32} {value:12,.4g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
