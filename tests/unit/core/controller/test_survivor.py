"""The rest of a cluster on one surviving node: the partitions that it leads, and what they may lack."""

from __future__ import annotations

from moldau.core.controller.survivor import survive
from moldau.core.metadata.fold import MetadataFold
from moldau.core.metadata.image import LeaderRecoveryState
from moldau.types import BrokerId, TopicPartition, Uuid
from moldau.wire.protocol.messages.metadata_records import (
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)

TOPIC = Uuid(bytes(15) + b"\7")
SURVIVOR = BrokerId(1)


def folded() -> MetadataFold:
    """Partition 0 is in sync on broker 1; 1 is not; 2 was until a moment ago (ELR); 3 has no replica there."""
    fold = MetadataFold("cluster")
    for broker_id in (1, 2, 3):
        fold.apply(RegisterBrokerRecord(broker_id=broker_id, broker_epoch=broker_id, fenced=True))
        fold.apply(BrokerRegistrationChangeRecord(broker_id, broker_id, fenced=-1))
    fold.apply(TopicRecord("orders", TOPIC))
    for index, (replicas, isr, elr) in enumerate(
        (((2, 1, 3), (1, 2), ()), ((2, 1, 3), (2, 3), ()), ((2, 1), (2,), (1,)), ((2, 3), (2, 3), ()))
    ):
        fold.apply(
            PartitionRecord(
                partition_id=index,
                topic_id=TOPIC,
                replicas=replicas,
                isr=isr,
                leader=2,
                directories=(Uuid(bytes(16)),) * len(replicas),
                eligible_leader_replicas=elr or None,
            )
        )
    return fold


def of(*indexes: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("orders", index) for index in indexes)


def test_it_leads_alone_what_it_has_and_says_where_records_may_be_missing() -> None:
    fold = folded()
    found = survive(fold.image, SURVIVOR)
    assert (found.whole, found.lacking, found.gone) == (of(0, 2), of(1), of(3))
    for record in found.records:
        fold.apply(record)
    partitions = fold.image.topics_by_name["orders"].partitions
    assert [(partitions[index].leader, partitions[index].isr) for index in range(3)] == [(1, (1,))] * 3
    assert [partitions[index].leader_recovery_state for index in range(3)] == [
        LeaderRecoveryState.RECOVERED,
        LeaderRecoveryState.RECOVERING,
        LeaderRecoveryState.RECOVERED,
    ]
    assert partitions[2].eligible_leader_replicas == ()
    assert partitions[3].leader == -1
    assert all(len(partition.replicas) > 1 for partition in partitions.values())  # others may come back
    assert [broker.is_fenced for broker in fold.image.brokers.values()] == [False, True, True]


def test_partitions_led_out_of_sync_stay_in_doubt_until_their_leader_confirms() -> None:
    fold = folded()
    for record in survive(fold.image, SURVIVOR).records:
        fold.apply(record)
    found = survive(fold.image, SURVIVOR)
    assert (found.whole, found.lacking, found.gone) == (of(0, 2), of(1), of(3))


def test_a_change_that_its_controller_did_not_finish_is_taken_back() -> None:
    fold = folded()
    fold.apply(BeginTransactionRecord("half"))
    for record in survive(fold.image, SURVIVOR).records:
        fold.apply(record)
    assert fold.image.transaction is None
    assert fold.image.topics_by_name["orders"].partitions[0].leader == 1
