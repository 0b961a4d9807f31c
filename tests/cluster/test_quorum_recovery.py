"""Two of three nodes are lost: one command lets the third serve its data, and reports what it may lack."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from moldau.client.admin.topics import list_topics
from moldau.client.protocol.access import ClusterAccess
from moldau.core.log.files.checkpoint import HIGH_WATERMARK_CHECKPOINT, decode_offsets
from moldau.errors import KafkaError
from moldau.transport.access import open_admin
from tests.support.cluster_of_three import (
    NODE_IDS,
    PARTITIONS,
    TOPIC,
    ClusterOfThree,
    cluster_of_three,
    moldau_command,
)

WAIT_S = 60
SETTINGS = {
    "replica.lag.time.max.ms": "3000",
    "replica.high.watermark.checkpoint.interval.ms": "100",
    "replica.fetch.max.bytes": "65536",
}

Placed = dict[tuple[int, int], str]
"""Acknowledged values by partition and offset."""


def recover(config: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "moldau.cli.main", "quorum", "recover", str(config), *flags]
    return subprocess.run(words, capture_output=True, text=True, timeout=WAIT_S, stdin=subprocess.DEVNULL, check=False)


@pytest.mark.slow
def test_the_survivor_of_three_has_every_acknowledged_record_that_was_in_sync(tmp_path: Path) -> None:
    with cluster_of_three(tmp_path, dict.fromkeys(NODE_IDS, moldau_command)) as cluster:
        cluster.create_topic()
        cluster.wait_in_sync()
        written = cluster.produce("before", 2_000)
        refused = recover(cluster.config_of(1), "--yes")
        assert (refused.returncode, "is in use" in refused.stderr) == (1, True), refused.stderr
        for node_id in NODE_IDS:
            cluster.kill(node_id)
        cluster.lose_directory(2)
        cluster.lose_directory(3)

        shown = recover(cluster.config_of(1))
        assert shown.returncode == 1
        assert "not in sync        no partition" in shown.stdout
        assert "--yes does it" in shown.stderr
        done = recover(cluster.config_of(1), "--yes")
        assert done.returncode == 0, done.stderr
        cluster.start(1)
        assert sorted(cluster.read_all(len(written))) == sorted(written)


def asked(cluster: ClusterOfThree, *words: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "moldau.cli.main", "quorum", *words, "-b", cluster.bootstrap_servers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    return done.returncode, done.stderr


@pytest.mark.slow
def test_static_voters_and_a_lost_majority_are_reported_in_a_sentence(tmp_path: Path) -> None:
    with cluster_of_three(tmp_path, dict.fromkeys(NODE_IDS, moldau_command)) as cluster:
        code, told = asked(cluster, "remove", "3")
        assert (code, "the voters are those of controller.quorum.voters" in told) == (1, True), told
        for node_id in (2, 3):
            cluster.kill(node_id)
        deadline = time.monotonic() + WAIT_S
        # a leader that loses its followers leads until it notices
        while asked(cluster, "describe")[0] == 0:
            assert time.monotonic() < deadline
        code, told = asked(cluster, "describe")
        assert (code, "no controller is active: a majority of the voters must run" in told) == (1, True), told


def answer(config: Path, letter: str) -> subprocess.CompletedProcess[str]:
    """Answers the question that the command asks at a terminal."""
    words = [sys.executable, "-m", "moldau.cli.main", "quorum", "recover", str(config)]
    keyboard, terminal = pty.openpty()
    try:
        os.write(keyboard, letter.encode() + b"\n")
        return subprocess.run(words, capture_output=True, text=True, timeout=WAIT_S, stdin=terminal, check=False)
    finally:
        os.close(keyboard)
        os.close(terminal)


def rows_of(told: str) -> dict[int, tuple[str, int, int]]:
    """The command's report of each partition of the topic: in sync, may lack from, log end."""
    found = re.findall(rf"^{TOPIC}-(\d+) +(yes|no) +(\d+) +(\d+)$", told, re.MULTILINE)
    return {int(index): (state, int(lacks_from), int(end)) for index, state, lacks_from, end in found}


def ends_of(placed: Placed) -> dict[int, int]:
    return {index: 1 + max(offset for number, offset in placed if number == index) for index in range(PARTITIONS)}


def wait_until_noted(cluster: ClusterOfThree, node_id: int, ends: dict[int, int]) -> None:
    """Waits until the node has stored that all in-sync replicas have every record below `ends`."""

    def is_noted() -> bool:
        noted = decode_offsets((cluster.data_of(node_id) / HIGH_WATERMARK_CHECKPOINT).read_bytes())
        return {place.partition: offset for place, offset in noted.items() if place.topic == TOPIC} == ends

    cluster.wait_until(is_noted)


def lose(cluster: ClusterOfThree, *node_ids: int) -> None:
    for node_id in node_ids:
        cluster.kill(node_id)
        cluster.lose_directory(node_id)


def check_that_it_serves_what_it_said(cluster: ClusterOfThree, told: str, state: str, placed: Placed) -> None:
    """After the recovery, exactly the records from the reported log end on are missing."""
    rows = rows_of(told)
    assert [rows[index][0] for index in range(PARTITIONS)] == [state] * PARTITIONS, told
    kept = [value for (index, offset), value in placed.items() if offset < rows[index][2]]
    cluster.start(1)
    assert sorted(cluster.read_all(len(kept))) == sorted(kept)
    for index, (_, lacks_from, end) in rows.items():
        missing = [offset for number, offset in placed if number == index and offset >= end]
        assert missing, "the case is none where nothing is missing"
        assert lacks_from <= end == min(missing)


@pytest.mark.slow
def test_records_written_while_the_survivor_was_frozen_are_missing_as_it_says(tmp_path: Path) -> None:
    """The survivor never learns that it is out of sync: its own metadata says the contrary. A live broker knows
    more."""
    with cluster_of_three(tmp_path, dict.fromkeys(NODE_IDS, moldau_command), settings=SETTINGS) as cluster:
        cluster.create_topic()
        cluster.wait_in_sync()
        placed = cluster.produce_placed("before", 1_000)
        ends = ends_of(placed)
        wait_until_noted(cluster, 1, ends)
        cluster.wait_in_sync()  # on a busy machine a follower may have been late, and the survivor would know
        with cluster.standing_still(1):
            cluster.wait_out_of_sync(1)
            placed |= cluster.produce_placed("without", 500)
            lose(cluster, 2)
            cluster.kill(1)

        refused = answer(cluster.config_of(1), "n")
        assert (refused.returncode, "nothing was changed" in refused.stdout) == (1, True), refused.stdout
        assert "  not answering      broker 2\n" in refused.stdout
        words = " ".join(refused.stdout.split())
        assert "and is in sync in 3 partitions in which this node is not: orders-0, orders-1, orders-2." in words
        assert "broker 3 answers at 127.0.0.1:" in words
        lose(cluster, 3)
        done = answer(cluster.config_of(1), "y")
        assert (done.returncode, rows_of(done.stdout)) == (0, rows_of(refused.stdout)), done.stderr
        assert rows_of(done.stdout) == {index: ("yes", end, end) for index, end in ends.items()}
        assert "what they took without it is missing" in done.stdout
        assert "  not answering      broker 2, 3\n" in done.stdout
        check_that_it_serves_what_it_said(cluster, done.stdout, "yes", placed)


def alter(cluster: ClusterOfThree, kind: ConfigResource.Type, name: str, setting: str, value: str) -> None:
    change = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[change])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)


@pytest.mark.slow
def test_a_survivor_that_lagged_says_where_its_partitions_may_lack_records(tmp_path: Path) -> None:
    """It is back in the cluster, but copies too slowly to be in sync when the others are lost."""
    with cluster_of_three(tmp_path, dict.fromkeys(NODE_IDS, moldau_command), settings=SETTINGS) as cluster:
        cluster.create_topic()
        cluster.wait_in_sync()
        alter(cluster, ConfigResource.Type.BROKER, "1", "follower.replication.throttled.rate", "1")
        alter(cluster, ConfigResource.Type.TOPIC, TOPIC, "follower.replication.throttled.replicas", "*")
        placed = cluster.produce_placed("before", 1_000)
        wait_until_noted(cluster, 1, ends_of(placed))
        cluster.kill(1)
        cluster.wait_out_of_sync(1)
        placed |= cluster.produce_placed("without", 600, size=10_000)
        cluster.start(1)
        address = cluster.bootstrap_servers.split(",")[0]

        def is_back() -> bool:
            try:
                with open_admin(ClusterAccess(address, client_id="test")) as admin:
                    is_out = all(1 not in row.isr for row in list_topics(admin)[TOPIC].partitions)
                    return admin.cluster().broker_ids() == list(NODE_IDS) and is_out
            except KafkaError:
                return False

        cluster.wait_until(is_back)
        lose(cluster, 2, 3)
        cluster.kill(1)

        done = answer(cluster.config_of(1), "y")
        assert done.returncode == 0, done.stderr
        named = ", ".join(f"{TOPIC}-{index}" for index in range(PARTITIONS))
        assert f"not in sync        {named}: their newest records may be missing here" in done.stdout
        check_that_it_serves_what_it_said(cluster, done.stdout, "no", placed)


@pytest.mark.slow
def test_where_controllers_are_lost_and_the_brokers_are_left_these_lead_again(tmp_path: Path) -> None:
    roles = {1: "controller", 2: "controller", 3: "broker"}
    commands = dict.fromkeys(NODE_IDS, moldau_command)
    with cluster_of_three(tmp_path, commands, roles=roles, settings={"min.insync.replicas": "1"}) as cluster:
        cluster.create_topic()
        written = cluster.produce("before", 300)
        cluster.kill(1)
        lose(cluster, 2)

        done = recover(cluster.config_of(1), "--yes")
        assert done.returncode == 0, done.stderr
        named = ", ".join(f"{TOPIC}-{index}" for index in range(PARTITIONS))
        assert f"without a replica  {named}: where a broker is left that has them in sync" in done.stdout
        living = r"^  broker 3 +answers at 127\.0\.0\.1:\d+ and has no record that would be lost$"
        assert re.search(living, done.stdout, re.MULTILINE), done.stdout
        assert "min.insync.replicas" not in done.stdout
        cluster.start(1)
        # the broker is fenced until it has heard from its controller
        cluster.wait_until(lambda: len(cluster.replicas_of_new_topic("later", factor=1)) == PARTITIONS)
        written += cluster.produce("after", 300)
        assert sorted(cluster.read_all(len(written))) == sorted(written)
