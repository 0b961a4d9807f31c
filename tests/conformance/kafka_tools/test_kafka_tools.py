"""`moldau kafka-topics` and the like have the output and exit codes of Kafka's own tools.

Everywhere: our tools with Moldau give the recorded output of Kafka's tools with Apache Kafka. With Java and Kafka's
jars (`pytest -m java`): both tools with both brokers give the same.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.core.groups.group_partitions import partition_for_group
from moldau.core.metadata.snapshot import BOOTSTRAP_CHECKPOINT, decode_snapshot
from moldau.testing import Cluster
from moldau.types import ZERO_UUID, uuid_to_text
from tests.conformance.kafka_tools.cases import CASES
from tests.conformance.kafka_tools.runner import ORACLES_RELEASE, RECORDED, Tool, run_case, run_kafkas, run_ours
from tests.conformance.kafka_tools.storage_cases import node_files
from tests.support.apache_kafka import apache_kafka

_numbers = itertools.count()


@pytest.fixture(scope="module")
def recorded() -> dict[str, list[dict[str, object]]]:
    answers: dict[str, list[dict[str, object]]] = json.loads(RECORDED.read_text())
    return answers


@pytest.fixture(scope="module")
def moldau_servers() -> Iterator[str]:
    with Cluster() as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture(scope="module")
def apache_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("apache") / "data"


@pytest.fixture(scope="module")
def apache_servers(apache_data: Path) -> Iterator[str]:
    with apache_kafka(apache_data.parent, apache_data, release=ORACLES_RELEASE) as servers:
        yield servers


def check(name: str, tool: Tool, servers: str, scratch: Path, recorded: dict[str, list[dict[str, object]]]) -> None:
    expected = recorded[name]
    assert run_case(CASES[name], tool, servers, f"k{next(_numbers):05d}", scratch, expected) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_our_tools_print_and_exit_as_kafkas_did(
    name: str, recorded: dict[str, list[dict[str, object]]], moldau_servers: str, tmp_path: Path
) -> None:
    check(name, run_ours, moldau_servers, tmp_path, recorded)


@pytest.mark.java
@pytest.mark.skipif("MOLDAU_KAFKA_LIBS" not in os.environ, reason="MOLDAU_KAFKA_LIBS names no Apache Kafka")
class TestBesideKafkasTools:
    @pytest.mark.parametrize("name", CASES)
    def test_the_recording_still_holds(
        self, name: str, recorded: dict[str, list[dict[str, object]]], apache_servers: str, tmp_path: Path
    ) -> None:
        check(name, run_kafkas, apache_servers, tmp_path, recorded)

    @pytest.mark.parametrize("name", CASES)
    def test_our_tools_read_apache_kafka(
        self, name: str, recorded: dict[str, list[dict[str, object]]], apache_servers: str, tmp_path: Path
    ) -> None:
        check(name, run_ours, apache_servers, tmp_path, recorded)

    @pytest.mark.parametrize("name", CASES)
    def test_kafkas_tools_read_moldau(
        self, name: str, recorded: dict[str, list[dict[str, object]]], moldau_servers: str, tmp_path: Path
    ) -> None:
        check(name, run_kafkas, moldau_servers, tmp_path, recorded)

    @pytest.mark.parametrize("release", ["4.4", "4.3", "4.1", "3.7"])
    def test_what_a_format_writes_for_a_new_cluster_is_kafkas_own(self, tmp_path: Path, release: str) -> None:
        salted = 'SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]'
        flags = ["--standalone", "--release-version", release, "--feature", "kraft.version=1", "--add-scram", salted]
        written = []
        for tool in (run_kafkas, run_ours):
            directory = tmp_path / tool.__name__
            config = tmp_path / f"{tool.__name__}.properties"
            config.write_text(node_files()["n0.properties"].replace("{tmp}/{p}n0", str(directory)))
            words = ["kafka-storage", "format", "-t", uuid_to_text(ZERO_UUID), "-c", str(config), *flags]
            assert tool(words, "")[0] == 0
            written.append(decode_snapshot((directory / BOOTSTRAP_CHECKPOINT).read_bytes()).records)
        assert written[0] == written[1]
        assert len(written[0]) >= 2

    def test_our_dump_of_apache_kafkas_files_is_kafkas_own(self, apache_servers: str, apache_data: Path) -> None:
        prefix = f"k{next(_numbers):05d}"
        steps = [*CASES["console-keys-and-headers"], *CASES["groups-reset"]]
        run_case(steps, run_ours, apache_servers, prefix, apache_data.parent / "files")
        kept = partition_for_group(f"{prefix}g", 50)
        check_dump(apache_data / f"{prefix}t-0", "--print-data-log")
        check_dump(apache_data / f"__consumer_offsets-{kept}", "--offsets-decoder")

    def test_our_dump_of_apache_kafkas_transactions_is_kafkas_own(self, apache_servers: str, apache_data: Path) -> None:
        prefix = f"k{next(_numbers):05d}"
        run_case(CASES["transactions-open"], run_ours, apache_servers, prefix, apache_data.parent / "files")
        kept = partition_for_group(f"{prefix}id", 50)
        check_dump(apache_data / f"__transaction_state-{kept}", "--transaction-log-decoder")
        check_dump(apache_data / f"{prefix}t-0", "--print-data-log")
        check_dump(apache_data / f"{prefix}t-0", "--print-data-log", "00000000000000000000.txnindex")


def check_dump(folder: Path, flag: str, file: str = "00000000000000000000.log") -> None:
    path = str(folder / file)
    theirs = run_kafkas(["kafka-dump-log", flag, "--files", path], "")
    assert theirs[1].count("\n") >= 2
    for words in (["log", "dump", flag, path], ["kafka-dump-log", flag, "--files", path]):
        ours = run_ours(words, "")
        assert (ours[0], ours[1]) == (0, theirs[1])
