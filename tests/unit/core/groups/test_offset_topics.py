"""Between a client's topics and a coordinator's; responses are those of Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest

from moldau.core.groups.offset_topics import join_commit, join_fetch, plan_commit, plan_fetch
from moldau.types import ZERO_UUID, Uuid, whole
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

KNOWN_ID = Uuid(bytes(range(16)))
OTHER_ID = Uuid(bytes(range(1, 17)))


class Topics:
    """`known` has partitions 0 and 1; `secret` exists too."""

    def name_of(self, topic_id: Uuid) -> str | None:
        return "known" if topic_id == KNOWN_ID else None

    def id_of(self, name: str) -> Uuid | None:
        return KNOWN_ID if name == "known" else None

    def has_partition(self, name: str, partition: int) -> bool:
        return name in ("known", "secret") and partition in (0, 1)


def may(name: str) -> bool:
    return name != "secret"


def commit_topic(name: str, *indexes: int, topic_id: Uuid = ZERO_UUID) -> OffsetCommitRequestTopic:
    partitions = tuple(OffsetCommitRequestPartition(index, 7) for index in indexes)
    return OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=partitions)


def coordinator(message: OffsetCommitRequest) -> OffsetCommitResponse:
    """Accepts every request."""
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                tuple(OffsetCommitResponsePartition(item.partition_index, 0) for item in topic.partitions),
            )
            for topic in message.topics
        )
    )


def committed(version: int, *topics: OffsetCommitRequestTopic) -> list[tuple[str, list[tuple[int, int]]]]:
    message = OffsetCommitRequest(group_id="g", topics=topics)
    plan = whole(plan_commit(message, version, Topics(), may))
    response = whole(join_commit(message, plan, coordinator(plan.accepted)))
    return [
        (topic.name, [(item.partition_index, item.error_code) for item in topic.partitions])
        for topic in response.topics
    ]


def test_each_partition_gets_its_own_answer_in_the_order_of_the_request() -> None:
    assert committed(
        9,
        commit_topic("nope", 0),
        commit_topic("known", 7, 0, 1),
        commit_topic("secret", 0),
        commit_topic("known"),
        commit_topic("known", 0, 0),
    ) == [
        ("nope", [(0, 3)]),
        ("known", [(7, 3), (0, 0), (1, 0)]),
        ("secret", [(0, 29)]),
        ("known", [(0, 0), (0, 0)]),
    ]


class CountedIndex(int):
    """A partition index that counts its comparisons."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        CountedIndex.comparisons += 1
        return int(self) == other

    __hash__ = int.__hash__


def test_a_commit_of_many_partitions_that_do_not_exist_compares_none_with_all_others() -> None:
    CountedIndex.comparisons = 0
    rows = [OffsetCommitRequestPartition(CountedIndex(n), 7) for n in (0, 9) for _ in range(300)]
    plan = whole(
        plan_commit(
            OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic(name="known", partitions=tuple(rows)),)),
            9,
            Topics(),
            may,
        )
    )
    assert (len(plan.accepted.topics[0].partitions), len(plan.refused[0].partitions)) == (300, 300)
    assert CountedIndex.comparisons <= 2 * len(rows)


def test_the_coordinator_is_asked_by_name_with_the_topics_id() -> None:
    message = OffsetCommitRequest(group_id="g", topics=(commit_topic("known", 0, 5), commit_topic("nope", 0)))
    plan = whole(plan_commit(message, 9, Topics(), may))
    assert plan.accepted.topics == (commit_topic("known", 0, topic_id=KNOWN_ID),)


def test_since_v10_topics_are_named_by_id() -> None:
    known, unknown = commit_topic("", 0, topic_id=KNOWN_ID), commit_topic("", 0, topic_id=OTHER_ID)
    zero = commit_topic("known", 0)
    assert committed(10, known, unknown, zero) == [("known", [(0, 0)]), ("", [(0, 100)]), ("known", [(0, 100)])]


def stored(name: str, *indexes: int) -> OffsetFetchResponseTopics:
    partitions = tuple(OffsetFetchResponsePartitions(index, 5, 2, "m", 0) for index in indexes)
    return OffsetFetchResponseTopics(name=name, partitions=partitions)


@pytest.mark.parametrize("version", range(1, 8))
def test_before_v8_there_is_one_group(version: int) -> None:
    topics = (OffsetFetchRequestTopic("known", (0,)), OffsetFetchRequestTopic("secret", (1,)))
    plans = whole(plan_fetch(OffsetFetchRequest(group_id="g", topics=topics), version, Topics(), may))
    (plan,) = plans
    assert plan.request.group == OffsetFetchRequestGroup(
        "g", topics=(OffsetFetchRequestTopics("known", KNOWN_ID, (0,)),)
    )
    answer = OffsetFetchResponseGroup(group_id="g", topics=(stored("known", 0),))
    response = whole(join_fetch(plans, (answer,), version, Topics(), may))
    found = [
        (topic.name, topic.partitions[0].committed_offset, topic.partitions[0].error_code) for topic in response.topics
    ]
    assert found == [("known", 5, 0), ("secret", -1, 29)]
    assert response.groups == ()


def test_an_error_of_the_group_stands_on_top_before_v8() -> None:
    plans = whole(plan_fetch(OffsetFetchRequest(group_id="g", topics=None), 7, Topics(), may))
    response = whole(join_fetch(plans, (OffsetFetchResponseGroup(group_id="g", error_code=16),), 7, Topics(), may))
    assert (response.error_code, response.topics) == (16, ())


def test_all_topics_are_those_the_client_may_see() -> None:
    answer = OffsetFetchResponseGroup(
        group_id="g", topics=(stored("deleted", 0), stored("known", 0), stored("secret", 0))
    )
    message = OffsetFetchRequest(groups=(OffsetFetchRequestGroup("g", topics=None),), require_stable=True)
    for version, names in ((9, ["deleted", "known"]), (10, ["known"])):
        plans = whole(plan_fetch(message, version, Topics(), may))
        assert plans[0].request.require_stable
        response = whole(join_fetch(plans, (answer,), version, Topics(), may))
        assert [topic.name for topic in response.groups[0].topics] == names
        assert response.groups[0].topics[-1].topic_id == KNOWN_ID


def test_since_v10_an_unknown_id_is_100() -> None:
    topics = (
        OffsetFetchRequestTopics(topic_id=KNOWN_ID, partition_indexes=(0,)),
        OffsetFetchRequestTopics(topic_id=OTHER_ID, partition_indexes=(0, 1)),
    )
    message = OffsetFetchRequest(groups=(OffsetFetchRequestGroup("g", topics=topics), OffsetFetchRequestGroup("h")))
    plans = whole(plan_fetch(message, 10, Topics(), may))
    assert [plan.request.group.group_id for plan in plans] == ["g", "h"]
    answers = (OffsetFetchResponseGroup("g", (stored("known", 0),)), OffsetFetchResponseGroup("h"))
    response = whole(join_fetch(plans, answers, 10, Topics(), may))
    assert [item.error_code for item in response.groups[0].topics[1].partitions] == [100, 100]
    assert response.groups[1] == OffsetFetchResponseGroup("h")
