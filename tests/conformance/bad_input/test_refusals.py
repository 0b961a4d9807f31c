"""The simulation's table of rejected requests: each case in every served version."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau.simulation.workloads.refusals.case import (
    COMPACTED,
    GROUP,
    PACKED,
    PLAIN,
    POSITION,
    Case,
    FrameCase,
    Ground,
    refusals_in,
    topics_to_create,
)
from moldau.simulation.workloads.refusals.frame_cases import frame_cases
from moldau.simulation.workloads.refusals.group_cases import commit
from moldau.simulation.workloads.refusals.looks import LOOKS
from moldau.simulation.workloads.refusals.record_cases import produce
from moldau.simulation.workloads.refusals.scenes import Scene, all_scenes
from moldau.simulation.workloads.refusals.table import all_cases, batches_to_write
from moldau.types import Uuid
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.protocol.messages.log_dirs import DescribeLogDirsRequest
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.offsets import OffsetCommitRequestPartition
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from moldau.wire.protocol.messages.topics import CreateTopicsRequest, DeleteTopicsRequest
from tests.support.wire import RawConnection, row_of
from tests.support.wire_log_admin import WAIT_S, wait_for_leader

PLANNED = Ground({PLAIN: Uuid(bytes(16)), COMPACTED: Uuid(bytes(16)), PACKED: Uuid(bytes(16))}, (0, 1), 0, "")
APIS = list(dict.fromkeys(case.name.split()[0] for case in all_cases(PLANNED)))
FRAMES = list(frame_cases(random.Random(1)))
ANSWERED_OTHERWISE = (
    "DeleteTopics of no name twice",
    "CreatePartitions by 10,001",
    "IncrementalAlterConfigs 4 '01'",
    "AlterConfigs 4 '01'",
    "AlterConfigs of one topic twice",
    "AlterClientQuotas (('user', 'refused'),) producer_byte_rate=nan",
    "Produce twice to a partition",
    "Produce to many, acks=9",
    "Produce no batch",
    "Produce attributes=128",
    "Produce wrong offset deltas",
    "JoinGroup with a large metadata",
    "OffsetCommit of no group",
    "OffsetCommit of an unknown generation",
    "OffsetCommit of an unknown epoch",
    "DeleteGroups 2",
    "OffsetDelete 'refused.nobody'",
    "DescribeGroups of one twice",
    "FindCoordinator x 7 of many",
    "FindCoordinator x 2 of many",
    "FindCoordinator g:t:0 2 of many",
    "ApiVersions -1",
    "ApiVersions 6",
    "ApiVersions 32767",
    "ConsumerGroup",
    "UnregisterBroker 1",
)
"""Name prefixes of cases that Apache Kafka accepts, answers with another code, or does not answer."""
SERVER_ERROR = "UNKNOWN_SERVER_ERROR"
"""Apache Kafka's answer to several requests that Moldau rejects with another error."""
ATTEMPTS = 500
"""To see a change that a node has answered, and applies a moment later."""


@pytest.fixture(scope="module")
def ground(bootstrap_servers: str) -> Iterator[Ground]:
    """Creates the topics, records and producers that the cases name."""
    with RawConnection(bootstrap_servers) as raw:
        created = raw.ask(CreateTopicsRequest(topics_to_create(), 10_000), 7)
        assert not refusals_in(created)
        for name in (PLAIN, COMPACTED, PACKED):
            wait_for_leader(raw, name)
        now_ms = int(time.time() * 1000)
        first, second = (accepted(raw, InitProducerIdRequest(None), 4).producer_id for _ in range(2))
        assert first != second
        for batch in batches_to_write((first, second), now_ms):
            assert not refusals_in(raw.ask(produce(PLAIN, Uuid(bytes(16)), (0, batch)), 12))
        request = commit(GROUP, PLAIN, Uuid(bytes(16)), OffsetCommitRequestPartition(0, POSITION))
        accepted(raw, request, 9)
        ids = {topic.name or "": topic.topic_id for topic in raw.ask(MetadataRequest(None), 12).topics}
        directory = raw.ask(DescribeLogDirsRequest(None), 4).results[0].log_dir
        topic_ids = {name: ids[name] for name in (PLAIN, COMPACTED, PACKED)}
        yield Ground(topic_ids, (first, second), now_ms, directory)
        raw.ask(DeleteTopicsRequest(topic_names=(PLAIN, COMPACTED, PACKED), timeout_ms=10_000), 5)


def accepted(raw: RawConnection, request: Any, version: int) -> Any:
    """Its response without an error: a coordinator may still be loading."""
    end = time.monotonic() + WAIT_S
    while refusals := refusals_in(answer := raw.ask(request, version)):
        assert time.monotonic() < end, f"{type(request).__name__}: {refusals}"
    return answer


@pytest.fixture(scope="module")
def shown_first(bootstrap_servers: str, ground: Ground) -> dict[str, object]:
    with RawConnection(bootstrap_servers) as raw:
        return shown(raw)


def shown(raw: RawConnection) -> dict[str, object]:
    return {name: look(raw.ask(request, version)) for name, version, request, look in LOOKS}


@pytest.fixture(scope="module")
def newest(bootstrap_servers: str) -> dict[int, int]:
    """The newest version of each API that the broker serves."""
    with RawConnection(bootstrap_servers) as raw:
        return {row.api_key: row.max_version for row in raw.ask(ApiVersionsRequest("raw", "1"), 3).api_keys}


def versions_of(case: Case, newest: dict[int, int]) -> range:
    key, row = row_of(case.request)
    return range(max(case.versions[0], row.min_version), min(case.versions[1], newest[key]) + 1)


def fault_of(case: Case, answer: Any, *, accepts_server_errors: bool = False) -> str:
    """The fault of a response, or ""."""
    found = refusals_in(answer)
    if set(found) == {SERVER_ERROR}:
        return "" if accepts_server_errors else f"a server error instead of {case.refusals[:3]}"
    if found in (case.refusals, case.otherwise):
        return case.fault(answer)
    return f"expected {case.refusals[:3]}, got {found[:3]}"


@pytest.mark.parametrize("api", APIS)
def test_rejected_in_every_version(
    raw: RawConnection,
    ground: Ground,
    shown_first: dict[str, object],
    newest: dict[int, int],
    is_moldau: bool,
    api: str,
) -> None:
    """Lists the responses that differ from the table. Nothing has changed in the end."""
    cases = [case for case in all_cases(ground) if case.name.split()[0] == api]
    if not is_moldau:
        cases = [case for case in cases if not case.name.startswith(ANSWERED_OTHERWISE)]
    faults = [
        (case.name[:100], version, fault)
        for case in cases
        for version in versions_of(case, newest)
        if (fault := fault_of(case, raw.ask(case.request, version), accepts_server_errors=not is_moldau))
    ]
    assert faults == []
    if is_moldau:  # Apache Kafka creates a group for a JoinGroup that it rejects
        assert shown(raw) == shown_first


@pytest.mark.parametrize("scene", list(all_scenes()), ids=lambda scene: scene.name)
def test_scenes(raw: RawConnection, ground: Ground, newest: dict[int, int], scene: Scene) -> None:
    """A set value is described; a live group rejects unknown members."""
    steps = scene.begin(ground, 0)
    answer: Any = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration:
            return
        answer = None
        if isinstance(step, float):
            continue
        answer = answer_of(raw, step, versions_of(step, newest)[-1])


def answer_of(raw: RawConnection, case: Case, version: int) -> Any:
    for _ in range(ATTEMPTS):
        answer = raw.ask(case.request, version)
        fault = fault_of(case, answer)
        if not fault:
            return answer
    raise AssertionError(f"{case.name}: {fault}")


@pytest.mark.parametrize("case", FRAMES, ids=lambda case: case.name)
def test_bytes_that_are_no_request(
    connect: Callable[[], RawConnection], ground: Ground, is_moldau: bool, case: FrameCase
) -> None:
    if not is_moldau and case.name.startswith(ANSWERED_OTHERWISE):
        return
    raw = connect()
    raw.send(case.data)
    if case.answer:
        assert raw.receive_frame() == case.answer[4:]
    if case.is_closed:
        raw.assert_closed()
    else:
        raw.assert_alive()
