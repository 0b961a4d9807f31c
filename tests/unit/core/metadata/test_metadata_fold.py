"""Folding metadata records into an image: the effect of each record, and the parts that are shared or copied."""

from __future__ import annotations

import pytest

from moldau.core.metadata.fold import MetadataFold, MetadataRecord, UnknownRecord
from moldau.core.metadata.image import (
    CLUSTER_DEFAULTS,
    ConfigResource,
    MetadataDelta,
    MetadataImage,
    PartitionImage,
    ResourceType,
)
from moldau.core.metadata.image_records import image_records
from moldau.types import BrokerId, LeaderEpoch, Offset, TopicPartition, Uuid
from moldau.wire.protocol.acls import Acl
from moldau.wire.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)

ID = Uuid(b"\x01" * 16)
OTHER_ID = Uuid(b"\x02" * 16)
DIRECTORY = Uuid(b"\xdd" * 16)


def partition_record(partition_id: int = 0, topic_id: Uuid = ID) -> PartitionRecord:
    return PartitionRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        replicas=(1,),
        isr=(1,),
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=(DIRECTORY,),
    )


def folded(*records: MetadataRecord) -> MetadataFold:
    fold = MetadataFold("cluster")
    for record in records:
        fold.apply(record)
    return fold


def topic_of_two() -> MetadataFold:
    return folded(TopicRecord("orders", ID), partition_record(0), partition_record(1))


def test_a_topic_and_its_partitions_appear() -> None:
    fold = topic_of_two()
    topic = fold.image.topic("orders")
    assert topic is not None
    assert topic is fold.image.topics_by_id[ID]
    assert fold.image.topic_id("orders") == ID
    expected = PartitionImage((1,), (1,), BrokerId(1), LeaderEpoch(0), 0, (DIRECTORY,))
    assert topic.partitions == {0: expected, 1: expected}
    assert fold.image.partition(TopicPartition("orders", 1)) == expected
    assert fold.image.partition(TopicPartition("orders", 2)) is None


def test_naming_a_leader_is_a_new_leader_epoch_and_any_change_a_new_partition_epoch() -> None:
    fold = topic_of_two()
    fold.apply(PartitionChangeRecord(partition_id=0, topic_id=ID, isr=(), leader=-1, last_known_elr=(1,)))
    gone = fold.image.partition(TopicPartition("orders", 0))
    assert gone is not None
    assert (gone.leader, gone.leader_epoch, gone.partition_epoch, gone.isr, gone.last_known_elr) == (-1, 1, 1, (), (1,))
    fold.apply(PartitionChangeRecord(partition_id=0, topic_id=ID, eligible_leader_replicas=(1,)))
    kept = fold.image.partition(TopicPartition("orders", 0))
    assert kept is not None
    assert (kept.leader_epoch, kept.partition_epoch, kept.eligible_leader_replicas) == (1, 2, (1,))


def test_replicas_without_directories_keep_the_known_ones() -> None:
    fold = topic_of_two()
    fold.apply(PartitionChangeRecord(partition_id=0, topic_id=ID, replicas=(2, 1)))
    moved = fold.image.partition(TopicPartition("orders", 0))
    assert moved is not None
    assert moved.directories == (bytes(16), DIRECTORY)


def test_deleting_a_topic_takes_its_configs_with_it() -> None:
    fold = topic_of_two()
    fold.apply(ConfigRecord(ResourceType.TOPIC, "orders", "retention.ms", "5"))
    fold.take_delta(Offset(4), 1)
    fold.apply(RemoveTopicRecord(ID))
    delta = fold.take_delta(Offset(5), 1)
    assert fold.image.topic("orders") is None
    assert fold.image.topic_configs("orders") == {}
    assert delta.topics == {ID: None}
    assert delta.deleted_topics[ID].name == "orders"
    assert delta.configs == {ConfigResource(ResourceType.TOPIC, "orders"): None}


def test_a_topic_may_be_deleted_and_created_again_within_one_delta() -> None:
    fold = topic_of_two()
    follower = MetadataImage("cluster")
    follower.apply_delta(fold.take_delta(Offset(3), 1))
    for record in (RemoveTopicRecord(ID), TopicRecord("orders", OTHER_ID), partition_record(0, OTHER_ID)):
        fold.apply(record)
    delta = fold.take_delta(Offset(6), 1)
    follower.apply_delta(delta)
    assert follower.topic_id("orders") == OTHER_ID
    assert list(follower.topics_by_id) == [OTHER_ID]
    assert list(delta.partitions) == [TopicPartition("orders", 0)]


def test_an_image_that_takes_all_deltas_equals_the_fold() -> None:
    fold = MetadataFold("cluster")
    follower = MetadataImage("cluster")
    records: list[MetadataRecord] = [
        FeatureLevelRecord("metadata.version", 30),
        RegisterBrokerRecord(broker_id=1, broker_epoch=1, end_points=(BrokerEndpoint("PLAINTEXT", "h", 9, 0),)),
        TopicRecord("a", ID),
        partition_record(0),
        ConfigRecord(ResourceType.BROKER, "", "min.insync.replicas", "1"),
        ProducerIdsRecord(1, 1, 1000),
        PartitionChangeRecord(partition_id=0, topic_id=ID, leader=-1),
        RegisterControllerRecord(1, ID),
        UnfenceBrokerRecord(1, 1),
        FenceBrokerRecord(1, 1),
        ConfigRecord(ResourceType.BROKER, "", "min.insync.replicas", None),
        UnregisterBrokerRecord(1, 1),
        FeatureLevelRecord("metadata.version", 0),
    ]
    for offset, record in enumerate(records):
        fold.apply(record)
        follower.apply_delta(fold.take_delta(Offset(offset + 1), 3))
        assert vars(follower) == vars(fold.image)
    assert (follower.end_offset, follower.leader_epoch, follower.next_producer_id) == (13, 3, 1000)
    assert follower.brokers == {}
    assert follower.features == {}


def test_only_the_touched_topic_is_copied_and_once_per_delta() -> None:
    fold = folded(TopicRecord("a", ID), partition_record(0), TopicRecord("b", OTHER_ID), partition_record(0, OTHER_ID))
    fold.take_delta(Offset(4), 1)
    before_a, before_b = fold.image.topics_by_id[ID], fold.image.topics_by_id[OTHER_ID]
    fold.apply(PartitionChangeRecord(partition_id=0, topic_id=ID, leader=-1))
    touched = fold.image.topics_by_id[ID]
    fold.apply(PartitionChangeRecord(partition_id=0, topic_id=ID, leader=1))
    assert fold.image.topics_by_id[ID] is touched
    assert before_a.partitions[0].leader_epoch == 0
    assert fold.image.topics_by_id[OTHER_ID] is before_b


def is_open(fold: MetadataFold) -> bool:
    return fold.image.transaction is not None


def test_an_aborted_transaction_never_was() -> None:
    fold = folded(BeginTransactionRecord("x"), TopicRecord("a", ID))
    assert is_open(fold)
    fold.apply(AbortTransactionRecord("why"))
    assert fold.image.topic("a") is None
    assert fold.take_delta(Offset(3), 1).is_empty


def test_a_transaction_counts_when_it_ends() -> None:
    fold = folded(BeginTransactionRecord("x"), TopicRecord("a", ID))
    assert fold.image.topic("a") is None
    fold.apply(EndTransactionRecord())
    assert fold.image.topic("a") is not None
    assert not is_open(fold)


def test_registration_changes_touch_only_what_they_name() -> None:
    fold = folded(RegisterBrokerRecord(broker_id=1, broker_epoch=7, fenced=True, log_dirs=(DIRECTORY,)))
    fold.apply(BrokerRegistrationChangeRecord(1, 7, fenced=-1))
    assert fold.image.brokers[1].is_active
    fold.apply(BrokerRegistrationChangeRecord(1, 7, cordoned_log_dirs=()))
    assert fold.image.brokers[1].cordoned_log_directories == ()
    fold.apply(BrokerRegistrationChangeRecord(1, 7, in_controlled_shutdown=1))
    assert not fold.image.brokers[1].is_active
    assert not fold.image.brokers[1].is_fenced
    fold.apply(BrokerRegistrationChangeRecord(1, 7, log_dirs=(ID,)))
    assert fold.image.brokers[1].log_directories == (ID,)


def test_clearing_eligible_leaders_reaches_every_topic() -> None:
    fold = topic_of_two()
    fold.apply(PartitionChangeRecord(partition_id=1, topic_id=ID, eligible_leader_replicas=(1,)))
    fold.apply(ClearElrRecord(""))
    cleared = fold.image.partition(TopicPartition("orders", 1))
    assert cleared is not None
    assert cleared.eligible_leader_replicas == ()
    fold.apply(ClearElrRecord("no such topic"))


def test_what_is_not_served_is_kept_as_it_is_in_force_and_ignored() -> None:
    credential = UserScramCredentialRecord("ann", 1, b"salt", b"old", b"old", 4096)
    changed = UserScramCredentialRecord("ann", 1, b"salt", b"new", b"new", 8192)
    same_user = UserScramCredentialRecord("ann", 2, b"salt", b"a", b"b", 4096)
    token, renewed = (DelegationTokenRecord(token_id="t", expiration_timestamp=time) for time in (1, 2))
    fold = folded(credential, NoOpRecord(), same_user, token, DelegationTokenRecord(token_id="u"))
    for record in (
        changed,
        renewed,
        RemoveDelegationTokenRecord("u"),
        RemoveUserScramCredentialRecord("ann", 2),
        RemoveUserScramCredentialRecord("nobody", 1),
    ):
        fold.apply(record)
    assert tuple(fold.image.logins.values()) == (changed, renewed)
    assert len(fold.image.logins.delegation_tokens()) == 1
    assert fold.take_delta(Offset(3), 1).is_empty


def test_what_is_not_served_counts_with_the_end_of_its_transaction() -> None:
    fold = folded(BeginTransactionRecord(), DelegationTokenRecord(token_id="t"))
    assert fold.image.logins.delegation_tokens() == ()
    fold.apply(EndTransactionRecord())
    assert len(fold.image.logins.delegation_tokens()) == 1


def test_an_acl_is_in_the_image_until_a_record_takes_it_out() -> None:
    record = AccessControlEntryRecord(ID, 2, "orders", 4, "User:ann", "10.0.0.1", 3, 2)
    acl = Acl(2, "orders", 4, "User:ann", "10.0.0.1", 3, 2)
    fold = folded(record)
    assert fold.image.acls == {ID: acl}
    delta = fold.take_delta(Offset(1), 1)
    assert (delta.acls, delta.is_empty) == ({ID: acl}, False)
    assert list(image_records(fold.image)) == [record]
    follower = MetadataImage()
    follower.apply_delta(delta)
    assert follower.acls == {ID: acl} == follower.copy().acls
    assert MetadataImage().delta_from(follower).acls == {ID: None}
    fold.apply(RemoveAccessControlEntryRecord(ID))
    assert fold.image.acls == {}
    assert fold.take_delta(Offset(2), 1).acls == {ID: None}
    with pytest.raises(ValueError, match="no ACL has the id"):
        fold.apply(RemoveAccessControlEntryRecord(ID))


def test_a_record_that_nobody_can_read_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown kind 99"):
        folded(UnknownRecord("metadata record of unknown kind 99"))


@pytest.mark.parametrize(
    "record",
    [
        TopicRecord("orders", OTHER_ID),
        TopicRecord("new", ID),
        partition_record(0, OTHER_ID),
        PartitionChangeRecord(partition_id=9, topic_id=ID),
        RemoveTopicRecord(OTHER_ID),
        FenceBrokerRecord(5, 1),
        EndTransactionRecord(),
        ProducerIdsRecord(1, 1, -1),
    ],
)
def test_a_record_that_contradicts_the_image_is_refused(record: MetadataRecord) -> None:
    with pytest.raises(ValueError):
        topic_of_two().apply(record)


def test_topics_whose_metrics_would_share_a_name_are_known() -> None:
    fold = folded(TopicRecord("a.b", ID))
    assert fold.colliding_names("a_b") == ["a.b"]
    fold.apply(RemoveTopicRecord(ID))
    assert fold.colliding_names("a_b") == []


def test_settings_are_read_with_their_resource() -> None:
    fold = folded(
        ConfigRecord(ResourceType.TOPIC, "t", "a", "1"),
        ConfigRecord(ResourceType.TOPIC, "t", "b", "2"),
        ConfigRecord(ResourceType.TOPIC, "t", "a", None),
        ConfigRecord(CLUSTER_DEFAULTS.resource_type, "", "min.insync.replicas", "2"),
    )
    assert fold.image.topic_configs("t") == {"b": "2"}
    assert fold.image.cluster_defaults() == {"min.insync.replicas": "2"}
    assert MetadataDelta().is_empty


def test_a_fold_goes_back_to_what_is_committed() -> None:
    fold = topic_of_two()
    fold.apply(ConfigRecord(ResourceType.TOPIC, "orders", "retention.ms", "5"))
    fold.apply(AccessControlEntryRecord(id=ID))
    committed = MetadataImage("cluster")
    committed.apply_delta(fold.take_delta(Offset(5), 1))
    before = vars(committed.copy())
    for record in (
        PartitionChangeRecord(partition_id=0, topic_id=ID, isr=(), leader=-1),
        TopicRecord("other_one", OTHER_ID),
        RemoveAccessControlEntryRecord(ID),
        AccessControlEntryRecord(id=OTHER_ID),
        ConfigRecord(ResourceType.TOPIC, "orders", "retention.ms", "6"),
        BeginTransactionRecord("open"),
    ):
        fold.apply(record)
    fold.take_delta(Offset(11), 1)
    fold.apply(ProducerIdsRecord(1, 1, 7))
    fold.go_back_to(committed)
    assert vars(fold.image) == before == vars(committed)
    assert (fold.colliding_names("orders"), fold.colliding_names("other.one")) == (["orders"], [])
    assert fold.take_delta(Offset(5), 1).is_empty
    fold.apply(TopicRecord("other_one", OTHER_ID))
    assert committed.topic("other_one") is None


def test_a_transaction_that_was_open_when_it_was_committed_is_open_again() -> None:
    fold = folded(BeginTransactionRecord("x"), TopicRecord("a", ID))
    committed = MetadataImage("cluster")
    committed.apply_delta(fold.take_delta(Offset(2), 1))
    fold.apply(AbortTransactionRecord("why"))
    fold.go_back_to(committed)
    fold.apply(EndTransactionRecord())
    assert fold.image.topic("a") is not None
    assert committed.transaction == [TopicRecord("a", ID)]
