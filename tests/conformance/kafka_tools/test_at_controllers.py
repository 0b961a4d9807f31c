"""Kafka's tools and ours with `--bootstrap-controller`: three nodes of Moldau answer as three of Kafka do."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.kafka_tools.controller_cases import AT_CONTROLLERS, ONLY_KAFKAS_TOOLS
from tests.conformance.kafka_tools.runner import PREFIX, Tool, run_case, run_kafkas, run_ours
from tests.conformance.kafka_tools.step import Step
from tests.support.apache_kafka import NEEDS_APACHE_KAFKA
from tests.support.cluster_of_three import (
    NODE_IDS,
    ClusterOfThree,
    apache_command,
    cluster_of_three,
    moldau_command,
)

pytestmark = [*NEEDS_APACHE_KAFKA, pytest.mark.timeout(600)]

KAFKA, MOLDAU, OUR_TOOLS = "kafka", "moldau", "our tools"
Answers = list[dict[str, Any]]

_NOT_SHOWN = re.compile(r"Feature: (group|share|streams)\.version ")
"""Features that Moldau does not serve."""
_OF_ONE_RUN = (
    (r"Local controller \d+", "Local controller N"),
    (r"Epoch: \d+", "Epoch: N"),
    (r"((LeaderId|MaxFollowerLag|MaxFollowerLagTimeMs): +)-?\d+", r"\1N"),
)


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ClusterOfThree]]:
    """One cluster of each kind for Kafka's tools, and one of Moldau for ours: changes persist."""
    kafka = dict.fromkeys(NODE_IDS, apache_command(os.environ["MOLDAU_KAFKA_LIBS"]))
    ours = dict.fromkeys(NODE_IDS, moldau_command)
    folders = [tmp_path_factory.mktemp(name) for name in ("kafka", "moldau", "tools")]
    with (
        cluster_of_three(folders[0], kafka, NODE_IDS, voters_in_log=True) as first,
        cluster_of_three(folders[1], ours, voters_in_log=True) as second,
        cluster_of_three(folders[2], ours, voters_in_log=True) as third,
    ):
        found = {KAFKA: first, MOLDAU: second, OUR_TOOLS: third}
        for cluster in found.values():
            cluster.create_topic()
        yield found


def answers(steps: Sequence[Step], tool: Tool, cluster: ClusterOfThree, scratch: Path) -> Answers:
    """The output of each step, without the parts that differ between runs of a cluster."""
    ran = run_case(steps, tool, cluster.bootstrap_controllers, PREFIX, scratch)
    for answer in ran:
        lines = [comparable(line) for line in answer.get("output", ())]
        answer["output"] = [line for line in lines if not _NOT_SHOWN.match(line)]
        answer["says"] = comparable(answer.get("says", ""))
    return ran


def comparable(line: str) -> str:
    for pattern, replacement in _OF_ONE_RUN:
        line = re.sub(pattern, replacement, line)
    # the voters come in the order of a Java HashSet
    return re.sub(
        r"(?<=voters \[).*(?=\])", lambda found: ", ".join(sorted(re.findall(r"\w+\([^)]*\)", found[0]))), line
    )


def check(steps: Sequence[Step], clusters: dict[str, ClusterOfThree], scratch: Path, *, also_ours: bool) -> None:
    with ThreadPoolExecutor() as pool:
        by_kafka = pool.submit(answers, steps, run_kafkas, clusters[KAFKA], scratch / KAFKA)
        by_moldau = pool.submit(answers, steps, run_kafkas, clusters[MOLDAU], scratch / MOLDAU)
        expected = by_kafka.result()
        assert by_moldau.result() == expected
    if also_ours:
        assert answers(steps, run_ours, clusters[OUR_TOOLS], scratch / OUR_TOOLS) == expected


@pytest.mark.parametrize("name", AT_CONTROLLERS)
def test_all_tools_say_the_same_at_controllers_of_both_kinds(
    name: str, clusters: dict[str, ClusterOfThree], tmp_path: Path
) -> None:
    check(AT_CONTROLLERS[name], clusters, tmp_path, also_ours=True)


@pytest.mark.parametrize("name", ONLY_KAFKAS_TOOLS)
def test_kafkas_tools_say_the_same_at_controllers_of_both_kinds(
    name: str, clusters: dict[str, ClusterOfThree], tmp_path: Path
) -> None:
    check(ONLY_KAFKAS_TOOLS[name], clusters, tmp_path, also_ours=False)
