"""The state of a group of workers, folded from records that Kafka Connect 4.4 wrote, and the records of requests."""

from __future__ import annotations

import pytest

from moldau.products.connect.core import answers, decisions
from moldau.products.connect.core.back_off import BackOff
from moldau.products.connect.core.configs import (
    ConfigState,
    Record,
    Target,
    connector_record,
    level_record,
    restart_record,
    target_record,
    task_records,
)
from moldau.products.connect.core.offsets import OffsetState, offset_record, without_ranges
from moldau.products.connect.core.refusals import Refusal
from moldau.products.connect.core.shares import share_of_task
from moldau.products.connect.core.statuses import (
    Status,
    StatusState,
    connector_status_record,
    task_status_record,
    topic_record,
)

CONFIG = {"connector.class": "FileStreamSource", "file": "in.txt", "topic": "lines", "name": "source"}
KAFKAS: list[Record] = [
    (b"session-key", b'{"key":"g7p2","algorithm":"HmacSHA256","creation-timestamp":1796103699938}'),
    (
        b"connector-source",
        b'{"properties":{"connector.class":"FileStreamSource","file":"in.txt","topic":"lines","name":"source"}}',
    ),
    (b"task-source-0", b'{"properties":{"connector.class":"FileStreamSource","file":"in.txt","task.class":"a.B"}}'),
    (b"commit-source", b'{"tasks":1}'),
    (b"target-state-source", b'{"state":"PAUSED","state.v2":"STOPPED"}'),
    (b"restart-connector-source", b'{"include-tasks":true,"only-failed":false}'),
    (b"tasks-fencing-source", b'{"tasks":1}'),
    (b"logger-cluster-a.b", b'{"level":"WARN"}'),
]


def folded(records: list[Record]) -> ConfigState:
    state = ConfigState()
    for record in records:
        state.apply(*record)
    return state


def test_the_records_of_kafka_connect_are_read() -> None:
    state = folded(KAFKAS)
    assert state.connectors == {"source": CONFIG}
    assert [task["task.class"] for task in state.tasks["source"]] == ["a.B"]
    assert state.target("source") is Target.STOPPED
    assert (state.restarts["source"].include_tasks, state.restarts["source"].only_failed) == (True, False)
    assert state.levels == {"a.b": "WARN"}


def test_the_records_are_written_as_kafka_connect_writes_them() -> None:
    own = [
        connector_record("source", CONFIG),
        *task_records("source", ({"connector.class": "FileStreamSource", "file": "in.txt", "task.class": "a.B"},)),
        target_record("source", Target.STOPPED),
        restart_record("source", include_tasks=True, only_failed=False),
        level_record("a.b", "WARN"),
    ]
    assert own == [record for record in KAFKAS if not record[0].startswith((b"session", b"tasks-fencing"))]


def test_tasks_count_with_their_commit() -> None:
    first, second = {"n": "0"}, {"n": "1"}
    state = folded([connector_record("a", CONFIG), *task_records("a", (first, second))[:-1]])
    assert state.tasks == {}
    state.apply(*task_records("a", (first, second))[-1])
    assert state.tasks["a"] == (first, second)
    # a commit of three tasks, of which one is unknown, is not a set of tasks
    state.apply(b"commit-a", b'{"tasks":3}')
    assert state.tasks["a"] == (first, second)
    state.apply(*connector_record("a", None))
    assert (state.connectors, state.tasks, state.changes) == ({}, {}, {})


def test_a_connector_whose_name_looks_like_a_task_is_another_one() -> None:
    state = folded([connector_record("a-0", CONFIG), *task_records("a-0", ({}, {"x": "1"}))])
    assert (list(state.connectors), len(state.tasks["a-0"])) == (["a-0"], 2)


@pytest.mark.parametrize(
    "record",
    [
        (b"connector-a", b"{"),
        (b"connector-a", b"[]"),
        (b"connector-a", b'{"properties": 1}'),
        (b"connector-a", b"\xff"),
        (b"commit-a", b'{"tasks": "1"}'),
        (b"target-state-a", b'{"state": "GONE"}'),
        (b"task-a", b'{"properties": {}}'),
        (b"\xff\xfe", b"{}"),
    ],
)
def test_a_record_that_cannot_be_read_changes_nothing(record: Record) -> None:
    state = folded([record])
    assert (state.connectors, state.tasks, state.targets) == ({}, {}, {})
    offsets, statuses = OffsetState(), StatusState()
    offsets.apply(*record)
    statuses.apply(b"status-" + record[0], record[1])
    assert (offsets.of("a"), statuses.connectors, statuses.tasks) == ([], {}, {})


def test_the_states_of_kafka_connect_are_read_and_written() -> None:
    failed = b'{"state":"FAILED","trace":"why","worker_id":"127.0.0.1:20107","generation":2,"version":"4.4.0"}'
    used = b'{"topic":{"name":"lines","connector":"a","task":0,"discoverTimestamp":1796103702572}}'
    records: list[Record] = [
        (b"status-connector-a", failed),
        (b"status-task-a-0", failed),
        (b"status-topic-lines:connector-a", used),
    ]
    state = StatusState()
    for record in records:
        state.apply(*record)
    status = Status("FAILED", "why", "127.0.0.1:20107", 2, "4.4.0")
    assert (state.connectors, state.tasks, state.topics) == ({"a": status}, {("a", 0): status}, {"a": {"lines": 0}})
    assert records == [
        connector_status_record("a", status),
        task_status_record("a", 0, status),
        topic_record("a", "lines", (0, 1796103702572)),
    ]
    for key, _ in records:
        state.apply(key, None)
    assert (state.connectors, state.tasks, state.topics["a"]) == ({}, {}, {})


def test_offsets_are_kept_by_partition() -> None:
    state = OffsetState()
    state.apply(b'["a",{"filename":"in.txt"}]', b'{"position":6}')
    state.apply(*offset_record("a", {"filename": "in.txt"}, {"position": 9}))
    state.apply(*offset_record("a", {"filename": "b"}, {"position": 1}))
    assert state.of("a") == [({"filename": "in.txt"}, {"position": 9}), ({"filename": "b"}, {"position": 1})]
    state.apply(*offset_record("a", {"filename": "in.txt"}, None))
    assert state.of("a") == [({"filename": "b"}, {"position": 1})]


def test_a_batch_after_a_change_of_offsets_has_a_new_number() -> None:
    done = {"id": "4f1c", "batch": 7, "ranges": {"t": {"0": [0, 9]}}}
    changed = without_ranges(done)
    assert changed == {"id": "4f1c", "batch": 8, "ranges": {}}
    assert without_ranges(changed) == changed


def test_a_stopped_connector_has_no_tasks_and_a_resumed_one_is_planned_again() -> None:
    state = folded([connector_record("a", CONFIG), *task_records("a", (CONFIG,))])
    assert decisions.plan(state, "a", [CONFIG]) == []
    for record in decisions.retarget(state, "a", Target.STOPPED):
        state.apply(*record)
    assert (state.tasks["a"], decisions.plan(state, "a", [CONFIG])) == ((), [])
    before = state.changes["a"]
    for record in decisions.retarget(state, "a", Target.STARTED):
        state.apply(*record)
    assert state.changes["a"] > before
    assert decisions.plan(state, "a", [CONFIG]) == task_records("a", (CONFIG,))


def test_a_restart_concerns_what_its_words_say() -> None:
    state = StatusState()
    for record in (
        connector_status_record("a", Status("RUNNING", None, "w")),
        task_status_record("a", 0, Status("FAILED", "why", "w")),
        task_status_record("a", 1, Status("RUNNING", None, "w")),
    ):
        state.apply(*record)
    parts = answers.restarted_parts(state, "a", include_tasks=True, only_failed=True)
    assert parts == {None: False, 0: True, 1: False}
    told = answers.restarting(answers.status(state, "a", "source"), parts)
    assert [one["state"] for one in told["tasks"]] == ["RESTARTING", "RUNNING"]
    assert answers.restarted_parts(state, "a", include_tasks=False, only_failed=False) == {None: True}


def test_offsets_change_only_while_the_connector_is_stopped() -> None:
    state = folded([connector_record("a", CONFIG), *task_records("a", (CONFIG,))])
    with pytest.raises(Refusal, match="must be in the STOPPED state"):
        decisions.require_stopped(state, "a")
    for record in decisions.retarget(state, "a", Target.STOPPED):
        state.apply(*record)
    decisions.require_stopped(state, "a")


def test_tasks_of_a_connector_have_different_shares() -> None:
    for shares in (1, 2, 3, 4, 8, 32, 50, 1000):
        assert len({share_of_task("orders", task, shares) for task in range(shares)}) == shares
    # two workers with a half of the shares each, as a range or as every second one, get half of the tasks
    for name in ("orders", "clicks", "many"):
        tasks = [share_of_task(name, task, 32) for task in range(4)]
        assert 1 <= sum(share < 16 for share in tasks) <= 3
    assert {share_of_task(f"c{number}", 0, 8) for number in range(200)} == set(range(8))


def test_a_failing_task_starts_again_ever_later_and_then_no_more() -> None:
    back_off, waits = BackOff(8), []
    for _ in range(9):
        back_off, wait_s = back_off.after_failure(ran_s=0.1)
        waits.append(wait_s)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, None]
    # a minute without a failure counts
    assert back_off.after_failure(ran_s=60.0)[1] == 1
    assert BackOff(0).after_failure(ran_s=0.0)[1] is None
