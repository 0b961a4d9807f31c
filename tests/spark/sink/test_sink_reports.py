"""The task reports with which a batch may commit, and the sink's use of a checkpoint. Without a session."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace

import msgspec
import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.client.protocol.metadata import PartitionLeader, TopicMetadata
from moldau.client.protocol.transactions import TransactionalProducer
from moldau.columnar.writer import Written
from moldau.errors import kafka_error
from moldau.spark.options import OptionError, SinkOptions
from moldau.spark.sink.checkpoint_offsets import CheckpointUnreadableError, batch_ends, query_id
from moldau.spark.sink.transactions import (
    BatchAbortedError,
    SinkError,
    SinkTransaction,
    TaskReport,
    begin_transaction,
    commit_transaction,
    offsets_here,
    why_it_ended,
)
from moldau.spark.source.offsets import StreamOffset
from moldau.spark.source.source import TopicDataSource, register
from moldau.types import ZERO_UUID, TopicPartition, Uuid, uuid_to_text
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from moldau.wire.protocol.messages.coordinators import FindCoordinatorResponse
from tests.support.answering_node import AnsweringNode

NOWHERE = SinkOptions(access=ClusterAccess("127.0.0.1:1", first_contact_timeout_ms=1, retry_timeout_ms=1))
TRANSACTION = SinkTransaction(TransactionalProducer("job", 1, 0), "job", 60_000, began_ms=0, query="q")
ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)
HERE, THERE = Uuid(b"h" * 16), Uuid(b"t" * 16)


def report(task: int, *partitions: TopicPartition) -> TaskReport:
    written = dict.fromkeys(partitions, Written(0, 1, 1))
    return TaskReport(TRANSACTION, stage_id=3, partition_id=task, attempt=0, query="q", batch_id=5, written=written)


@pytest.mark.parametrize(
    ("messages", "kind", "reason"),
    [
        ([report(0, ONE), None], BatchAbortedError, "1 of 2 tasks gave no report"),
        ([report(0, ONE), replace(report(1), attempt=1)], BatchAbortedError, r"task 1 ran again \(attempt 1\)"),
        ([report(0, ONE), replace(report(1, TWO), stage_id=4)], BatchAbortedError, "of several stages"),
        ([report(0, ONE), replace(report(1), is_skipped=True)], BatchAbortedError, "of several stages"),
        ([report(0, ONE), report(1, TWO, ONE)], SinkError, r"two tasks wrote to t-0.*by_target_partition\(df"),
        ([replace(report(0), error="too large"), None], SinkError, "^too large$"),
    ],
)
def test_a_batch_with_a_task_unaccounted_for_is_not_committed(messages, kind, reason):
    with pytest.raises(kind, match=reason):
        commit_transaction(NOWHERE, messages, 5)


def test_a_batch_that_every_task_skipped_needs_no_commit():
    commit_transaction(NOWHERE, [replace(report(task), is_skipped=True) for task in range(2)], 5)
    commit_transaction(NOWHERE, [], 5)


def test_a_batch_is_skipped_where_the_group_has_it_of_the_same_query():
    known = replace(TRANSACTION, by_query={"q": {"batch": 5}})
    assert [known.has("q", batch) for batch in (4, 5, 6, None)] == [True, True, False, False]
    assert not known.has("another", 5)


def test_a_transaction_that_was_open_too_long_is_told_from_one_that_was_fenced():
    fenced = kafka_error("INVALID_PRODUCER_EPOCH", "write to t-0: refused")
    assert "set write_id for a transaction of each task, or set delivery" in why_it_ended(TRANSACTION, fenced)
    newer = replace(TRANSACTION, began_ms=2**62)
    assert "another driver has taken over the transactional id 'job'" in why_it_ended(newer, fenced)


class OlderNode(AnsweringNode):
    """Like Apache Kafka 3: its transactions are those before KIP-890."""

    port = 0

    def answer(self, api_key: int, version: int) -> msgspec.Struct:
        if api_key == ApiKey.API_VERSIONS:
            served = (ApiVersion(ApiKey.FIND_COORDINATOR, 0, 4), ApiVersion(ApiKey.END_TXN, 0, 3))
            return ApiVersionsResponse(api_keys=served)
        return FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=self.port)


def test_a_cluster_without_such_transactions_is_rejected_with_a_possible_delivery():
    node = OlderNode()

    async def begin() -> None:
        async with await asyncio.get_running_loop().create_server(node.accept, "127.0.0.1", 0) as server:
            node.port = server.sockets[0].getsockname()[1]
            options = SinkOptions(
                access=ClusterAccess(f"127.0.0.1:{node.port}"), topic="t", transaction_timeout_ms=1_000
            )
            await asyncio.to_thread(begin_transaction, options, is_streaming=False)

    with pytest.raises(OptionError, match=r"need transaction.version 2 .* set delivery to at_least_once"):
        asyncio.run(begin())


def test_speculation_is_refused_unless_records_may_be_doubled():
    speculative = type("Speculative", (TopicDataSource,), {"is_speculative": True})
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}
    with pytest.raises(OptionError, match=r"^spark\.speculation is true"):
        speculative(options).streamWriter(None, False)
    assert speculative({**options, "delivery": "at_least_once"})._sink_options().delivery == "at_least_once"


@pytest.mark.parametrize(("said", "meant"), [("true", True), (" TRUE", True), ("False", False), (None, False)])
def test_speculation_is_known_in_whatever_case_the_setting_is_written(said, meant):
    """As Spark reads its booleans. The test replaces the session by the values that are read from it."""
    formats: list[type[TopicDataSource]] = []
    register(
        SimpleNamespace(
            conf={} if said is None else {"spark.speculation": said},
            sparkContext=SimpleNamespace(defaultParallelism=1),
            dataSource=SimpleNamespace(register=formats.append),
        )
    )
    assert [kind.is_speculative for kind in formats] == [meant]


def test_the_end_of_a_batch_is_read_of_every_source_that_is_a_topic(tmp_path):
    """Spark accepts a directory's address as it is."""
    tmp_path = tmp_path / "a directory%20"
    tmp_path.mkdir()
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_text('{"id":"abc"}\n')
    ours = {"t": {"0": 7, "1": 4}, "@topic_ids": {"t": uuid_to_text(HERE)}}
    lines = ["v1", "{}", json.dumps(ours), json.dumps({"t": {"0": 6}, "u": {"0": 1}}), '{"logOffset":3}', "12", "-"]
    (tmp_path / "offsets" / "5").write_text("\n".join(lines))
    expected = [
        StreamOffset({ONE: 7, TWO: 4}, {"t": HERE}),
        StreamOffset({ONE: 6, TopicPartition("u", 0): 1}, {}),
    ]
    # of a query whose sources have names
    named = ["v2", "{}", *(f"source_{number}:{line}" for number, line in enumerate(lines[2:]))]
    (tmp_path / "offsets" / "4").write_text("\n".join(named))
    for location in (str(tmp_path), f"file:{tmp_path}", f"file://{tmp_path}"):
        assert query_id(location) == "abc"
        assert batch_ends(location, 5) == batch_ends(location, 4) == expected
        with pytest.raises(CheckpointUnreadableError, match="offsets/6"):
            batch_ends(location, 6)
    (tmp_path / "offsets" / "5").write_text("v9\n{}")
    with pytest.raises(CheckpointUnreadableError, match="the version is not v1 or v2"):
        batch_ends(str(tmp_path), 5)


@pytest.mark.parametrize(
    ("noted", "known", "source_topics", "taken"),
    [
        ({"t": HERE}, HERE, None, True),
        ({"t": THERE}, HERE, None, False),
        ({"t": THERE}, HERE, ["t"], False),
        ({}, HERE, None, True),
        ({"t": THERE}, ZERO_UUID, None, True),
        ({}, HERE, [], False),
        ({}, HERE, ["tt", "[a-z]"], True),
        ({}, HERE, ["tt", "[a-z]t"], False),
    ],
)
def test_the_group_gets_offsets_of_topics_of_its_own_cluster_alone(noted, known, source_topics, taken):
    """The source has one partition more than the topic of its name here, and a topic that does not exist here."""
    end = StreamOffset({ONE: 7, TWO: 4, TopicPartition("u", 0): 1}, noted)
    here = {"t": TopicMetadata("t", known, False, {0: PartitionLeader(0, 0)})}
    assert offsets_here(end, here, source_topics) == ({ONE: 7} if taken else {})
