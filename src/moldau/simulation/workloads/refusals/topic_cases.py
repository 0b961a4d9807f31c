"""Invalid requests about topics and partitions: created, deleted, grown, described, elected and moved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moldau.simulation.workloads.refusals.case import (
    BAD_NAMES,
    COLLIDING,
    COMPACTED,
    NEW,
    PARTITIONS,
    PLAIN,
    UNKNOWN,
    UNKNOWN_ID,
    Case,
    Ground,
)
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    DescribeTopicPartitionsCursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsTopicRequest,
    ElectionTopicPartitions,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.wire.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

NAMES_ONLY = (0, 5)
IDS_TOO = (6, 6)
MANY = 450
"""More than one slice of a handler."""
BAD_CONFIGS = (
    ("no.such.setting", "1"),
    ("", "1"),
    ("retention.ms", None),
    ("retention.ms", "-2"),
    ("retention.ms", "soon"),
    ("retention.bytes", "99999999999999999999"),
    ("segment.bytes", "13"),
    ("cleanup.policy", "keep"),
    ("compression.type", "zip"),
    ("compression.gzip.level", "0"),
    ("min.insync.replicas", "0"),
    ("min.cleanable.dirty.ratio", "1.5"),
    ("min.cleanable.dirty.ratio", "half"),
    ("message.timestamp.type", "Later"),
    ("preallocate", "maybe"),
    ("unclean.leader.election.enable", "1"),
    ("leader.replication.throttled.replicas", "1-0"),
    ("index.interval.bytes", "-1"),
)
BAD_ASSIGNMENTS: tuple[tuple[tuple[int, tuple[int, ...]], ...], ...] = (
    ((0, ()),),
    ((0, (7,)),),
    ((0, (-1,)),),
    ((0, (1, 1)),),
    ((1, (1,)),),
    ((0, (1,)), (2, (1,))),
    ((0, (1,)), (0, (1,))),
    ((0, (1,)), (1, (1, 1))),
)


def topic_cases(ground: Ground) -> Iterator[Case]:
    """All requests about topics."""
    yield from _creations()
    yield from _creations_with_configs()
    yield from _deletions(ground)
    yield from _growths()
    yield from _lookups(ground)
    yield from _pages()
    yield from _elections()
    yield from _reassignments()


def _create(name: str, *topics: CreatableTopic, refusals: tuple[str, ...], **fields: Any) -> Case:
    request = CreateTopicsRequest(topics, **fields)
    return Case(f"CreateTopics {name}", request, refusals, (4, 7))


def _creations() -> Iterator[Case]:
    new = CreatableTopic(NEW, 1, 1)
    for bad in BAD_NAMES:
        yield _create(f"of {bad!r}", CreatableTopic(bad, 1, 1), refusals=("INVALID_TOPIC_EXCEPTION",))
    yield _create("of a name that collides", CreatableTopic(COLLIDING, 1, 1), refusals=("INVALID_TOPIC_EXCEPTION",))
    for is_only_judged in (False, True):
        there = CreatableTopic(PLAIN, 1, 1)
        yield _create("of one there", there, refusals=("TOPIC_ALREADY_EXISTS",), validate_only=is_only_judged)
    yield _create("twice", new, new, refusals=("INVALID_REQUEST",))
    for count in (0, -2):
        yield _create(f"{count} partitions", CreatableTopic(NEW, count, 1), refusals=("INVALID_PARTITIONS",))
        yield _create(f"{count} replicas", CreatableTopic(NEW, 1, count), refusals=("INVALID_REPLICATION_FACTOR",))
    yield _create("2 replicas", CreatableTopic(NEW, 1, 2), refusals=("INVALID_REPLICATION_FACTOR",))
    for count in (10_001, (1 << 31) - 1):
        yield _create(f"{count} partitions", CreatableTopic(NEW, count, 1), refusals=("POLICY_VIOLATION",))
    yield _create("of the metadata", CreatableTopic("__cluster_metadata", 1, 1), refusals=("INVALID_REQUEST",))
    for timeout_ms in (0, -1):
        yield _create("without time", new, refusals=("REQUEST_TIMED_OUT",), timeout_ms=timeout_ms)
    for rows in BAD_ASSIGNMENTS:
        assigned = tuple(CreatableReplicaAssignment(*row) for row in rows)
        topic = CreatableTopic(NEW, -1, -1, assigned)
        yield _create(f"on {rows}", topic, refusals=("INVALID_REPLICA_ASSIGNMENT",))
    both = CreatableTopic(NEW, 1, -1, (CreatableReplicaAssignment(0, (1,)),))
    yield _create("with counts and assignment", both, refusals=("INVALID_REQUEST",))
    assigned_well = CreatableTopic(NEW, -1, -1, (CreatableReplicaAssignment(0, (1,)),))
    for topic in (new, CreatableTopic(NEW, -1, -1), assigned_well):
        yield _create("only judged", topic, refusals=(), validate_only=True)
    empty = tuple(CreatableTopic(f"refused.{number}", 0, 1) for number in range(MANY))
    yield _create("of many", *empty, refusals=("INVALID_PARTITIONS",) * MANY)


def _creations_with_configs() -> Iterator[Case]:
    for name, value in BAD_CONFIGS:
        topic = CreatableTopic(NEW, 1, 1, (), (CreatableTopicConfig(name, value),))
        yield _create(f"with {name}={value}", topic, refusals=("INVALID_CONFIG",))
    good = CreatableTopic(NEW, 1, 1, (), (CreatableTopicConfig("retention.ms", "5000"),))
    there = CreatableTopic(PLAIN, 1, 1)
    yield _create("one of two", there, good, refusals=("TOPIC_ALREADY_EXISTS",), validate_only=True)

    def fault(answer: Any) -> str:
        found = {row.name: (row.value, row.config_source) for row in answer.topics[0].configs or ()}
        return "" if found.get("retention.ms") == ("5000", 1) else f"retention.ms is {found.get('retention.ms')}"

    request = CreateTopicsRequest((good,), validate_only=True)
    yield Case("CreateTopics tells the configs", request, versions=(5, 7), fault=fault)


def _delete(name: str, *states: DeleteTopicState, refusals: tuple[str, ...], timeout_ms: int = 5_000) -> Case:
    request = DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)
    return Case(f"DeleteTopics {name}", request, refusals, IDS_TOO)


def _deletions(ground: Ground) -> Iterator[Case]:
    plain_id = ground.topic_ids[PLAIN]
    for names, refusals, timeout_ms in (
        ((UNKNOWN,), ("UNKNOWN_TOPIC_OR_PARTITION",), 5_000),
        (BAD_NAMES, ("UNKNOWN_TOPIC_OR_PARTITION",) * len(BAD_NAMES), 5_000),
        ((PLAIN, PLAIN), ("INVALID_REQUEST",), 5_000),
        ((PLAIN,), ("REQUEST_TIMED_OUT",), 0),
    ):
        request = DeleteTopicsRequest(topic_names=names, timeout_ms=timeout_ms)
        yield Case(f"DeleteTopics of {names}", request, refusals, NAMES_ONLY)
    unknown = DeleteTopicState(topic_id=UNKNOWN_ID)
    yield _delete("of no name", DeleteTopicState(), refusals=("INVALID_REQUEST",))
    yield _delete("of no name twice", DeleteTopicState(), DeleteTopicState(), refusals=("INVALID_REQUEST",))
    yield _delete("by both", DeleteTopicState(PLAIN, plain_id), refusals=("INVALID_REQUEST",))
    yield _delete("of an unknown id", unknown, refusals=("UNKNOWN_TOPIC_ID",))
    yield _delete("of an unknown name", DeleteTopicState(UNKNOWN), refusals=("UNKNOWN_TOPIC_OR_PARTITION",))
    yield _delete(
        "by id twice",
        DeleteTopicState(topic_id=plain_id),
        DeleteTopicState(topic_id=plain_id),
        refusals=("INVALID_REQUEST",),
    )
    yield _delete("by name twice", *(DeleteTopicState(PLAIN),) * 2, refusals=("INVALID_REQUEST",))
    yield _delete("without time", DeleteTopicState(PLAIN), refusals=("REQUEST_TIMED_OUT",), timeout_ms=0)


def _grow(name: str, *topics: CreatePartitionsTopic, refusals: tuple[str, ...], **fields: Any) -> Case:
    request = CreatePartitionsRequest(topics, **{"timeout_ms": 5_000, **fields})
    return Case(f"CreatePartitions {name}", request, refusals)


def _growths() -> Iterator[Case]:
    for count in (PARTITIONS, 1, 0, -1):
        topic = CreatePartitionsTopic(PLAIN, count, None)
        yield _grow(f"{count} in all", topic, refusals=("INVALID_PARTITIONS",))
    more = CreatePartitionsTopic(PLAIN, PARTITIONS + 1, None)
    for name in (UNKNOWN, *BAD_NAMES):
        topic = CreatePartitionsTopic(name, 4, None)
        yield _grow(f"of {name!r}", topic, refusals=("UNKNOWN_TOPIC_OR_PARTITION",))
    assignments: tuple[tuple[tuple[int, ...], ...], ...] = ((), ((1,), (1,)), ((7,),), ((),), ((1, 1),))
    for brokers in assignments:
        rows = tuple(CreatePartitionsAssignment(row) for row in brokers)
        topic = CreatePartitionsTopic(PLAIN, PARTITIONS + 1, rows)
        yield _grow(f"on {brokers}", topic, refusals=("INVALID_REPLICA_ASSIGNMENT",))
    yield _grow("twice", more, more, refusals=("INVALID_REQUEST",))
    yield _grow("without time", more, refusals=("REQUEST_TIMED_OUT",), timeout_ms=0)
    for count in (10_003, (1 << 31) - 1):
        yield _grow("by 10,001", CreatePartitionsTopic(PLAIN, count, None), refusals=("POLICY_VIOLATION",))
    yield _grow("only judged", more, refusals=(), validate_only=True)
    assigned = CreatePartitionsTopic(PLAIN, PARTITIONS + 1, (CreatePartitionsAssignment((1,)),))
    yield _grow("only judged on a broker", assigned, refusals=(), validate_only=True)


def _ask(
    name: str,
    topics: tuple[MetadataRequestTopic, ...],
    *refusals: str,
    versions: tuple[int, int] = (4, 13),
    **fields: Any,
) -> Case:
    request = MetadataRequest(topics, allow_auto_topic_creation=False, **fields)
    return Case(f"Metadata {name}", request, refusals, versions)


def _lookups(ground: Ground) -> Iterator[Case]:
    bad = tuple(MetadataRequestTopic(name=name) for name in BAD_NAMES)
    unknown = MetadataRequestTopic(name=UNKNOWN)
    by_unknown_id = MetadataRequestTopic(topic_id=UNKNOWN_ID, name=None)
    by_id = MetadataRequestTopic(topic_id=ground.topic_ids[PLAIN], name=None)
    yield _ask("of bad names", bad, *("INVALID_TOPIC_EXCEPTION",) * len(bad))
    yield _ask("of an unknown name, twice", (unknown, unknown), "UNKNOWN_TOPIC_OR_PARTITION")
    yield _ask("of an unknown id", (by_unknown_id,), "UNKNOWN_TOPIC_ID", versions=(12, 13))
    yield _ask("of nothing", (MetadataRequestTopic(name=None),), "INVALID_REQUEST", versions=(12, 13))
    yield _ask("by id before v12", (by_id,), "INVALID_REQUEST", versions=(10, 11))
    many = tuple(MetadataRequestTopic(name=f"refused.{number}") for number in range(3 * MANY))
    yield _ask("of many", many, *("UNKNOWN_TOPIC_OR_PARTITION",) * len(many))

    def fault(answer: Any) -> str:
        (topic,) = answer.topics
        rows = sorted((row.partition_index, row.replica_nodes, row.isr_nodes) for row in topic.partitions)
        return "" if rows == [(index, (1,), (1,)) for index in range(PARTITIONS)] else f"{PLAIN} has {rows}"

    named = MetadataRequest((MetadataRequestTopic(name=PLAIN),) * 2, allow_auto_topic_creation=False)
    yield Case("Metadata by name", named, versions=(4, 13), fault=fault)
    identified = MetadataRequest((by_id,), allow_auto_topic_creation=False)
    yield Case("Metadata by id", identified, versions=(12, 13), fault=fault)

    def rights_fault(answer: Any) -> str:
        return "" if answer.topics[0].topic_authorized_operations == 0b1101_1111_1000 else str(answer)

    rights = MetadataRequest(
        (MetadataRequestTopic(name=PLAIN),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    yield Case("Metadata tells the rights", rights, versions=(8, 13), fault=rights_fault)

    def names_fault(answer: Any) -> str:
        missing = {PLAIN, COMPACTED} - {topic.name for topic in answer.topics}
        return f"{sorted(missing)} are not listed" if missing else ""

    yield Case("Metadata of all, v0", MetadataRequest(()), versions=(0, 0), fault=names_fault)
    yield Case("Metadata of all", MetadataRequest(None), versions=(1, 13), fault=names_fault)


def _page(
    name: str,
    names: tuple[str, ...],
    *refusals: str,
    limit: int = 2_000,
    cursor: tuple[str, int] | None = None,
    expected: tuple[tuple[tuple[str, int], ...], tuple[str, int] | None] | None = None,
) -> Case:
    """`expected`: the partitions on the page, and the start of the next page."""

    def fault(answer: Any) -> str:
        if expected is None:
            return ""
        rows = tuple((topic.name, row.partition_index) for topic in answer.topics for row in topic.partitions)
        after = answer.next_cursor
        found = (rows, None if after is None else (after.topic_name, after.partition_index))
        return "" if found == expected else f"expected {expected}, got {found}"

    request = DescribeTopicPartitionsRequest(
        tuple(DescribeTopicPartitionsTopicRequest(topic) for topic in names),
        limit,
        None if cursor is None else DescribeTopicPartitionsCursor(*cursor),
    )
    title = f"DescribeTopicPartitions {name}"
    return Case(title, request, refusals, fault=fault)


def _pages() -> Iterator[Case]:
    both = (COMPACTED, PLAIN)
    first, second = (PLAIN, 0), (PLAIN, 1)
    yield _page("of an unknown name", (UNKNOWN,), "UNKNOWN_TOPIC_OR_PARTITION")
    yield _page("of a bad name", ("..",), "INVALID_TOPIC_EXCEPTION")
    yield _page("from partition -1", both, *("INVALID_REQUEST",) * 2, cursor=(PLAIN, -1))
    yield _page("from another topic", both, *("INVALID_REQUEST",) * 2, cursor=(NEW, 0))
    yield _page("of all of two", both, expected=(((COMPACTED, 0), first, second), None))
    yield _page("of one partition", both, limit=1, expected=(((COMPACTED, 0),), first))
    yield _page("of two partitions", both, limit=2, expected=(((COMPACTED, 0), first), second))
    yield _page("of no partition", (PLAIN,), limit=0, expected=((first,), second))
    yield _page("from the second partition", both, cursor=second, expected=((second,), None))
    yield _page("from behind the last", both, cursor=(PLAIN, 9), expected=((), None))
    yield _page("from behind the last topic", (), cursor=("zzz", 0), expected=((), None))


def _elect(
    name: str,
    *rows: tuple[str, tuple[int, ...]],
    refusals: tuple[str, ...],
    otherwise: tuple[str, ...] | None = None,
    **fields: Any,
) -> Case:
    asked = tuple(ElectionTopicPartitions(*row) for row in rows)
    request = ElectLeadersRequest(topic_partitions=asked, **fields)
    return Case(f"ElectLeaders {name}", request, refusals, (1, 2), otherwise)


def _elections() -> Iterator[Case]:
    not_needed = "ELECTION_NOT_NEEDED"
    yield _elect("0", (PLAIN, (0, 1)), refusals=(not_needed, not_needed), election_type=0)
    # a partition with a failed directory has no leader and starts again empty: so use the one without records
    yield _elect("1", (PLAIN, (1, 1)), refusals=(not_needed, not_needed), otherwise=(not_needed,), election_type=1)
    unknown = ((UNKNOWN, (0,)), (PLAIN, (9, -1)))
    yield _elect("of none such", *unknown, refusals=("UNKNOWN_TOPIC_OR_PARTITION",) * 3)
    yield _elect("of a kind 7", (PLAIN, (0,)), refusals=("INVALID_REQUEST",) * 2, election_type=7)
    yield _elect("without time", (PLAIN, (0,)), refusals=("REQUEST_TIMED_OUT",) * 2, timeout_ms=0)
    yield Case("ElectLeaders of all", ElectLeadersRequest(topic_partitions=None))


def _move(
    name: str, topic: str, partition: int, brokers: tuple[int, ...] | None, *refusals: str, **fields: Any
) -> Case:
    asked = ReassignableTopic(topic, (ReassignablePartition(partition, brokers),))
    request = AlterPartitionReassignmentsRequest(topics=(asked,), **fields)
    return Case(f"AlterPartitionReassignments {name}", request, refusals)


def _reassignments() -> Iterator[Case]:
    wrong: tuple[tuple[int, ...], ...] = ((), (7,), (1, 7), (1, 1), (-1,))
    for brokers in wrong:
        yield _move(f"to {brokers}", PLAIN, 0, brokers, "INVALID_REPLICA_ASSIGNMENT")
    yield _move("of an unknown topic", UNKNOWN, 0, (1,), "UNKNOWN_TOPIC_OR_PARTITION")
    yield _move("of an unknown partition", PLAIN, 9, (1,), "UNKNOWN_TOPIC_OR_PARTITION")
    yield _move("taken back", PLAIN, 0, None, "NO_REASSIGNMENT_IN_PROGRESS")
    yield _move("without time", PLAIN, 0, (1,), *("REQUEST_TIMED_OUT",) * 2, timeout_ms=0)
    yield _move("to where it is", PLAIN, 0, (1,))

    def fault(answer: Any) -> str:
        return f"{answer.topics} are moving" if answer.topics else ""

    for asked in (None, (ListPartitionReassignmentsTopics(PLAIN, (0, 9)), ListPartitionReassignmentsTopics(UNKNOWN))):
        request = ListPartitionReassignmentsRequest(topics=asked)
        yield Case("ListPartitionReassignments", request, fault=fault)
