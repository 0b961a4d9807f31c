"""`moldau events`: changes of a cluster as each broker learns them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from moldau.cli.arguments import Subparsers
from moldau.cli.cluster import add_cluster_arguments, cluster_admin
from moldau.cli.output import print_json
from moldau.types import counted

if TYPE_CHECKING:
    from moldau.client.admin.client import ClusterAdmin

POLL_MS = 50
"""Pause between two polls of all brokers. A change is shown at most this much later, plus the time of a poll."""

Facts = dict[str, str]
"""What a broker knows of the cluster: a sentence for each object, by its name."""


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "events",
        help="show changes of brokers, topics and leaders as each broker learns them",
        description="Prints the brokers, topics and leaders that each broker knows. With --follow it prints each "
        "change when a broker learns it.",
        examples=("moldau events --follow", "moldau events --follow --json"),
    )
    parser.add_argument("--follow", action="store_true", help="until Ctrl-C")
    add_cluster_arguments(parser, follow)


def follow(arguments: argparse.Namespace) -> int:
    known: dict[int, Facts] = {}
    with cluster_admin(arguments) as admin:
        admin.cluster()  # if no broker answers at the start, the address is wrong
        while True:
            now = _facts_of_all(admin)
            for broker in sorted({*known, *now}):
                for event in changes(known.get(broker), now.get(broker)):
                    _print(arguments, broker, event)
            known = now
            if not arguments.follow:
                return 0
            time.sleep(POLL_MS / 1_000)


def _facts_of_all(admin: ClusterAdmin) -> dict[int, Facts]:
    """The facts of each broker that answers."""
    from moldau.errors import KafkaError
    from moldau.wire.protocol.messages.metadata import MetadataRequest

    found: dict[int, Facts] = {}
    try:
        brokers = admin.cluster().broker_ids()
    except KafkaError:
        return found
    for broker in brokers:
        try:
            answer = admin.client.connection_to(broker).request(MetadataRequest(topics=None))
        except KafkaError:
            continue
        facts = {f"broker {row.node_id}": f"serves {row.host}:{row.port}" for row in answer.brokers}
        for topic in answer.topics:
            facts[f"topic {topic.name}"] = f"has {counted(len(topic.partitions), 'partition')}"
            for row in topic.partitions:
                leader = "none" if row.leader_id < 0 else str(row.leader_id)
                in_sync = ", ".join(map(str, sorted(row.isr_nodes)))
                facts[f"{topic.name}-{row.partition_index}"] = f"is led by {leader}, in sync {in_sync or 'none'}"
        found[broker] = facts
    return found


def changes(before: Mapping[str, str] | None, now: Mapping[str, str] | None) -> Iterator[str]:
    """The changes as sentences. A broker that is seen for the first time gives only a sentence that it is present."""
    if now is None:
        yield "does not answer"
        return
    if before is None:
        yield f"answers, and knows {counted(sum(name.startswith('topic ') for name in now), 'topic')}"
        return
    for name, fact in now.items():
        if before.get(name) != fact:
            yield f"{name} {fact}"
    for name in before:
        if name not in now:
            yield f"{name} is gone"


def _print(arguments: argparse.Namespace, broker: int, event: str) -> None:
    now_ms = time.time_ns() // 1_000_000
    if arguments.json:
        print_json({"time_ms": now_ms, "broker": broker, "event": event})
    else:
        moment = time.strftime("%H:%M:%S", time.gmtime(now_ms // 1_000))
        print(f"{moment}.{now_ms % 1_000:03d}  broker {broker}  {event}", flush=True)
