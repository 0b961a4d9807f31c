"""Producers, while the leader of their partitions is killed again and again.

Each program writes to a topic of one partition with three replicas; all have the same leader. The controller is a node
of its own and lives. In every tenth kill both followers die first; the leader writes alone for a while and dies too,
and a follower takes over (unclean.leader.election.enable=true)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.delivery.counting import Outcome, judge
from tests.delivery.programs import Program, numbers_in
from tests.support.cluster_of_three import ClusterOfThree, cluster_of_three, moldau_command

MIN_IN_SYNC = {
    **dict.fromkeys(("acks_0", "acks_1", "acks_all"), 1),
    **dict.fromkeys(("acks_all_two", "retries", "idempotence"), 2),
}
"""The programs, and min.insync.replicas of their topics."""
BROKERS = (2, 3, 4)
CONTROLLER = 1
SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "3",
    "auto.leader.rebalance.enable": "false",
}
BETWEEN_S = (0.1, 0.6)
ALONE_S = 0.5
"""How long the leader writes alone, at least."""
ALONE_REPORTS = 20
"""So many records it acknowledges meanwhile, at least."""
WAIT_S = 120.0
STILL_S = 2.0
"""How long followers stand still at most: their session of 4 s must not end."""

Say = Callable[[str], None]


def is_alone(kill: int) -> bool:
    """Whether the followers die before the leader in this kill, counted from 0."""
    return kill % 10 == 1


class Producers:
    def __init__(self, cluster: ClusterOfThree, folder: Path, choices: random.Random, say: Say) -> None:
        self._cluster, self._folder, self._choices, self._say = cluster, folder, choices, say
        self._address = ",".join(f"127.0.0.1:{cluster.ports_of(broker)[0]}" for broker in BROKERS)
        self._admin = AdminClient(
            {"bootstrap.servers": self._address, "log_level": 0, "topic.metadata.refresh.interval.ms": 500}
        )
        self._kills = dict.fromkeys(MIN_IN_SYNC, 0)
        """The kills of each topic's leader."""

    def run(self, kills: int) -> list[Outcome]:
        self._make_topics()
        programs = {name: Program(name, name, self._address, self._output(name)) for name in MIN_IN_SYNC}
        try:
            self._wait_for(lambda: all(program.has_spoken for program in programs.values()), "the first records")
            for kill in range(kills):
                began_s = time.monotonic()
                self._kill_leader(alone=is_alone(kill))
                self._say(f"leader killed: {kill + 1} of {kills}, {time.monotonic() - began_s:.1f} s")
            self._wait_whole()
            for program in programs.values():
                program.terminate()
            for name, program in programs.items():
                assert program.finish() == 0, self._output(name).with_suffix(".errors").read_text()[-2_000:]
        finally:
            for program in programs.values():
                program.kill()
        return [self._judge(name) for name in MIN_IN_SYNC]

    def _output(self, name: str) -> Path:
        return self._folder / f"{name}.out"

    def _reports(self, name: str, sign: str) -> int:
        return self._output(name).read_text().count(sign)

    def _make_topics(self) -> None:
        topics = [
            NewTopic(
                name,
                1,
                replica_assignment=[list(BROKERS)],
                config={"min.insync.replicas": str(least), "unclean.leader.election.enable": "true"},
            )
            for name, least in MIN_IN_SYNC.items()
        ]
        for future in self._admin.create_topics(topics).values():
            future.result(WAIT_S)

    def _kill_leader(self, *, alone: bool) -> None:
        self._wait_whole()
        time.sleep(self._choices.uniform(*BETWEEN_S))
        leader = self._leaders()["idempotence"]
        followers = [broker for broker in BROKERS if broker != leader]
        if alone:
            self._kill_at_once(leader, followers)
            self._wait_for(lambda: all(isr == [leader] for isr in self._in_sync().values()), "a leader that is alone")
            written, rejected = self._reports("acks_all", "+"), self._reports("acks_all_two", "-")
            time.sleep(ALONE_S)
            self._wait_for(lambda: self._reports("acks_all", "+") >= written + ALONE_REPORTS, "records of one replica")
            self._wait_for(lambda: self._reports("acks_all_two", "-") > rejected, "rejected records")
        leaders = self._leaders()
        self._cluster.kill(leader)
        for name, one in leaders.items():
            self._kills[name] += one == leader
        if alone:
            for broker in followers:
                self._cluster.start(broker)
        self._wait_for(lambda: not {-1, leader} & set(self._leaders().values()), "other leaders")
        self._cluster.start(leader)

    def _kill_at_once(self, leader: int, followers: list[int]) -> None:
        """Both stand still first, in sync: if one died or fell behind before the other, the leader and the other one
        would acknowledge records that the first does not have, and the first may take over."""
        self._wait_for(lambda: self._killed_in_sync(leader, followers), "followers that stand still in sync")

    def _killed_in_sync(self, leader: int, followers: list[int]) -> bool:
        if not self._is_whole():
            return False
        with ExitStack() as stack:
            for broker in followers:
                stack.enter_context(self._cluster.standing_still(broker))
            if not self._is_whole_by(leader):
                return False
            for broker in followers:
                self._cluster.kill(broker)
        return True

    def _is_whole_by(self, broker: int) -> bool:
        """As this broker says: another one may stand still. A new client asks the broker that it is given."""
        address = f"127.0.0.1:{self._cluster.ports_of(broker)[0]}"
        topics = AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=STILL_S).topics
        return all(len(topics[name].partitions[0].isrs) == len(BROKERS) for name in MIN_IN_SYNC)

    def _is_whole(self) -> bool:
        return all(len(isr) == len(BROKERS) for isr in self._in_sync().values())

    def _wait_whole(self) -> None:
        """Waits until all replicas are in sync; then all topics have the same leader."""
        self._wait_for(self._is_whole, "replicas in sync")
        if len(set(self._leaders().values())) > 1:
            partitions = [TopicPartition(name, 0) for name in MIN_IN_SYNC]
            self._admin.elect_leaders(ElectionType.PREFERRED, partitions).result(WAIT_S)
            self._wait_for(lambda: len(set(self._leaders().values())) == 1, "one leader")

    def _leaders(self) -> dict[str, int]:
        return {name: partition.leader for name, partition in self._partitions().items()}

    def _in_sync(self) -> dict[str, list[int]]:
        return {name: list(partition.isrs) for name, partition in self._partitions().items()}

    def _partitions(self) -> dict:
        topics = self._admin.list_topics(timeout=5).topics
        return {name: topics[name].partitions[0] for name in MIN_IN_SYNC}

    def _wait_for(self, condition: Callable[[], bool], named: str) -> None:
        end_s = time.monotonic() + WAIT_S
        while time.monotonic() < end_s:
            try:
                if condition():
                    return
            except (KafkaException, KeyError):
                pass  # no broker answered in time
            time.sleep(0.05)
        raise AssertionError(f"{named}: not in {WAIT_S:.0f} s: {self._cluster.told()}")

    def _judge(self, name: str) -> Outcome:
        lines = self._output(name).read_text().split()
        numbers = {sign: [int(line[1:]) for line in lines if line[0] == sign] for sign in "+-"}
        found = numbers_in(self._address, name)
        return judge(name, self._kills[name], numbers["+"], found, numbers["-"])


def run_producers(folder: Path, kills: int, seed: int, say: Say) -> list[Outcome]:
    """`folder`: of the nodes' data and the programs' output."""
    commands = dict.fromkeys((CONTROLLER, *BROKERS[:2]), moldau_command)
    roles = {CONTROLLER: "controller", **dict.fromkeys(BROKERS, "broker")}
    with cluster_of_three(folder, commands, roles=roles, settings=SETTINGS) as cluster:
        cluster.add_broker(BROKERS[2], moldau_command)
        return Producers(cluster, folder, random.Random(seed), say).run(kills)
