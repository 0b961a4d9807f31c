"""The controller's decisions about partitions, elections, reassignments and features, on a cluster of three brokers."""

from __future__ import annotations

import pytest

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.controller.brokers import unregister_broker
from moldau.core.controller.features import UpgradeType, update_features
from moldau.core.controller.leader_elections import ElectionType, elect_leaders
from moldau.core.controller.partition_changes import MAX_CHANGES_PER_STEP
from moldau.core.controller.partitions import create_partitions
from moldau.core.controller.reassignments import alter_partition_reassignments, list_partition_reassignments
from moldau.core.controller.registrations import unregister_controller
from moldau.core.metadata.features import (
    ELIGIBLE_LEADER_REPLICAS,
    FORMATTED_LEVELS,
    METADATA_VERSION_4_3,
    METADATA_VERSION_4_4,
    SUPPORTED_FEATURES,
)
from moldau.core.metadata.fold import MetadataFold, MetadataRecord
from moldau.core.metadata.image import LeaderRecoveryState, PartitionImage
from moldau.errors import ERROR_CODES, KafkaError
from moldau.shell.io.simulated.random import SeededRandom
from moldau.types import ZERO_UUID, Uuid, whole
from moldau.wire.protocol.messages.cluster import (
    FeatureUpdateKey,
    UnregisterBrokerRequest,
    UnregisterControllerRequest,
    UpdateFeaturesRequest,
)
from moldau.wire.protocol.messages.metadata_records import (
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
)
from moldau.wire.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    ElectionTopicPartitions,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

SETTINGS = parse_broker_settings({})
TOPIC_ID = Uuid(b"\x01" * 16)
BROKERS = (1, 2, 3)
FEATURES = tuple(BrokerFeature(each.name, each.min_level, each.max_level) for each in SUPPORTED_FEATURES)


class Cluster:
    """Three brokers; the topic "t" with one partition on 1 and 2, led by `leader`."""

    def __init__(self, leader: int = 1, isr: tuple[int, ...] = (1, 2)) -> None:
        self.fold = MetadataFold("cluster")
        self.apply(*(FeatureLevelRecord(name, level) for name, level in FORMATTED_LEVELS))
        for broker in BROKERS:
            directory = Uuid(bytes([broker]) * 16)
            self.apply(
                RegisterBrokerRecord(broker_id=broker, broker_epoch=broker, features=FEATURES, log_dirs=(directory,)),
                BrokerRegistrationChangeRecord(broker, broker, fenced=-1),
            )
        self.apply(
            TopicRecord("t", TOPIC_ID),
            PartitionRecord(
                partition_id=0,
                topic_id=TOPIC_ID,
                replicas=(1, 2),
                isr=isr,
                leader=leader,
                directories=(Uuid(b"\x01" * 16), Uuid(b"\x02" * 16)),
            ),
        )

    def apply(self, *records: MetadataRecord) -> None:
        for record in records:
            self.fold.apply(record)

    @property
    def partition(self) -> PartitionImage:
        return self.fold.image.topics_by_name["t"].partitions[0]

    def add(self, count: int, *, validate_only: bool = False) -> int:
        request = CreatePartitionsRequest((CreatePartitionsTopic("t", count, None),), 1_000, validate_only)
        records, response = whole(create_partitions(self.fold.image, SeededRandom(1), request))
        self.apply(*records)
        return response.results[0].error_code

    def elect(self, election_type: int) -> int:
        request = ElectLeadersRequest(election_type, (ElectionTopicPartitions("t", (0,)),), 1_000)
        records, response = whole(elect_leaders(self.fold.image, SETTINGS, request))
        self.apply(*records)
        return response.replica_election_results[0].partition_result[0].error_code

    def reassign(self, replicas: tuple[int, ...] | None) -> int:
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=1_000, topics=(ReassignableTopic("t", (ReassignablePartition(0, replicas),)),)
        )
        records, response = whole(alter_partition_reassignments(self.fold.image, request))
        self.apply(*records)
        return response.responses[0].partitions[0].error_code

    def update(self, feature: str, level: int, upgrade_type: int) -> list[MetadataRecord]:
        request = UpdateFeaturesRequest(feature_updates=(FeatureUpdateKey(feature, level, upgrade_type=upgrade_type),))
        records, response = whole(update_features(self.fold.image, SETTINGS, 1, request))
        assert response.error_code == 0
        self.apply(*records)
        return records

    def moving(self) -> list[tuple[int, ...]]:
        response = whole(list_partition_reassignments(self.fold.image, ListPartitionReassignmentsRequest(topics=None)))
        return [row.adding_replicas for topic in response.topics for row in topic.partitions]


def code(name: str) -> int:
    return ERROR_CODES[name]


def test_partitions_are_added_after_existing_ones_or_only_validated():
    cluster = Cluster()
    assert cluster.add(3, validate_only=True) == 0
    assert len(cluster.fold.image.topics_by_name["t"].partitions) == 1
    assert cluster.add(3) == 0
    partitions = cluster.fold.image.topics_by_name["t"].partitions
    assert sorted(partitions) == [0, 1, 2]
    assert all(len(partition.replicas) == 2 for partition in partitions.values())


@pytest.mark.parametrize("count", [3, 2, 0, -1])
def test_equal_or_fewer_partitions_change_nothing(count):
    cluster = Cluster()
    cluster.add(3)
    assert cluster.add(count) == code("INVALID_PARTITIONS")
    assert len(cluster.fold.image.topics_by_name["t"].partitions) == 3


def test_too_many_partitions_are_refused_before_any_is_added():
    cluster = Cluster()
    assert cluster.add(10_002) == code("POLICY_VIOLATION")
    assert len(cluster.fold.image.topics_by_name["t"].partitions) == 1


def test_the_preferred_leader_takes_over_only_where_it_is_another_one_and_in_sync():
    assert Cluster(leader=1).elect(ElectionType.PREFERRED) == code("ELECTION_NOT_NEEDED")
    led_by_second = Cluster(leader=2)
    assert led_by_second.elect(ElectionType.PREFERRED) == 0
    assert led_by_second.partition.leader == 1
    out_of_sync = Cluster(leader=2, isr=(2,))
    assert out_of_sync.elect(ElectionType.PREFERRED) == code("PREFERRED_LEADER_NOT_AVAILABLE")


def test_an_unclean_election_needs_a_leaderless_partition_and_a_live_replica():
    assert Cluster().elect(ElectionType.UNCLEAN) == code("ELECTION_NOT_NEEDED")
    cluster = Cluster(isr=(1,))
    cluster.apply(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=-1), FenceBrokerRecord(1, 1))
    assert cluster.elect(ElectionType.UNCLEAN) == 0
    assert (cluster.partition.leader, cluster.partition.isr) == (2, (2,))


def without_leader(**changes) -> Cluster:
    """The partition on 1 and 2 without a leader or in-sync replicas, with `changes`."""
    cluster = Cluster()
    cluster.apply(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, **({"isr": (), "leader": -1} | changes)))
    return cluster


def test_an_unclean_election_takes_no_replica_whose_directory_has_failed():
    cluster = without_leader()
    cluster.apply(BrokerRegistrationChangeRecord(1, 1, log_dirs=(Uuid(b"\x09" * 16),)))
    assert cluster.elect(ElectionType.UNCLEAN) == 0
    assert cluster.partition.leader == 2
    cluster = without_leader(isr=(2,))
    cluster.apply(BrokerRegistrationChangeRecord(1, 1, log_dirs=(Uuid(b"\x09" * 16),)), FenceBrokerRecord(2, 2))
    assert cluster.elect(ElectionType.UNCLEAN) == code("ELIGIBLE_LEADERS_NOT_AVAILABLE")
    assert (cluster.partition.leader, cluster.partition.isr) == (-1, (2,))


def test_an_unclean_election_starts_empty_if_all_replicas_lost_their_directories():
    cluster = without_leader(eligible_leader_replicas=(2,), last_known_elr=(1,))
    for broker in (1, 2):
        cluster.apply(BrokerRegistrationChangeRecord(broker, broker, log_dirs=(Uuid(bytes([8 + broker]) * 16),)))
    assert cluster.elect(ElectionType.UNCLEAN) == 0
    found = cluster.partition
    assert (found.leader, found.isr, found.leader_recovery_state) == (1, (1,), LeaderRecoveryState.RECOVERING)
    assert (found.eligible_leader_replicas, found.last_known_elr) == ((), ())
    assert found.directories == (ZERO_UUID, Uuid(b"\x02" * 16))


@pytest.mark.parametrize("complete", [{"isr": (2,)}, {"eligible_leader_replicas": (2,)}])
def test_an_unclean_election_prefers_a_replica_that_has_everything(complete):
    cluster = without_leader(**complete)
    assert cluster.elect(ElectionType.UNCLEAN) == 0
    assert (cluster.partition.leader, cluster.partition.isr) == (2, (2,))
    assert cluster.partition.leader_recovery_state == LeaderRecoveryState.RECOVERED


def test_a_preferred_replica_whose_directory_has_failed_does_not_take_over():
    cluster = Cluster(leader=2)
    cluster.apply(BrokerRegistrationChangeRecord(1, 1, log_dirs=(Uuid(b"\x09" * 16),)))
    assert cluster.elect(ElectionType.PREFERRED) == code("PREFERRED_LEADER_NOT_AVAILABLE")
    assert cluster.partition.leader == 2


def test_a_replica_that_is_added_has_to_catch_up_and_can_be_taken_back():
    cluster = Cluster()
    assert cluster.reassign((1, 3)) == 0
    assert cluster.moving() == [(3,)]
    assert cluster.partition.leader == 1
    assert cluster.reassign(None) == 0
    assert (cluster.partition.replicas, cluster.moving()) == ((1, 2), [])
    assert cluster.reassign(None) == code("NO_REASSIGNMENT_IN_PROGRESS")


@pytest.mark.parametrize(
    "complete",
    [{"isr": (3,), "leader": 3}, {"isr": (3,), "leader": -1}, {"isr": (), "leader": -1, "eligible": (3,)}],
)
@pytest.mark.parametrize("replicas", [None, (2,), (1, 2)])
def test_a_reassignment_keeps_the_only_replica_that_has_everything(complete, replicas):
    cluster = Cluster()
    assert cluster.reassign((3,)) == 0
    eligible = complete.get("eligible", ())
    change = {name: value for name, value in complete.items() if name != "eligible"}
    cluster.apply(PartitionChangeRecord(0, TOPIC_ID, eligible_leader_replicas=eligible, **change))
    before = cluster.partition
    assert (before.replicas, before.adding_replicas) == ((3, 1, 2), (3,))
    assert cluster.reassign(replicas) == code("INVALID_REPLICA_ASSIGNMENT")
    assert cluster.partition == before


def test_a_reassignment_goes_back_where_nobody_has_everything_any_more():
    cluster = Cluster()
    assert cluster.reassign((3,)) == 0
    cluster.apply(PartitionChangeRecord(0, TOPIC_ID, isr=(), leader=-1))
    assert cluster.reassign(None) == 0
    assert cluster.partition.replicas == (1, 2)


def test_replicas_that_only_go_are_gone_at_once_and_the_leader_with_them():
    cluster = Cluster()
    assert cluster.reassign((2,)) == 0
    assert (cluster.partition.replicas, cluster.partition.leader, cluster.moving()) == ((2,), 2, [])


@pytest.mark.parametrize("replicas", [(), (1, 1), (9,), (-1,)])
def test_a_replica_set_that_cannot_be_changes_nothing(replicas):
    cluster = Cluster()
    assert cluster.reassign(replicas) == code("INVALID_REPLICA_ASSIGNMENT")
    assert cluster.partition.replicas == (1, 2)


@pytest.mark.parametrize(
    ("feature", "level", "upgrade_type", "is_taken"),
    [
        ("group.version", 0, UpgradeType.SAFE_DOWNGRADE, True),
        ("group.version", 0, UpgradeType.UPGRADE, False),
        ("group.version", 1, UpgradeType.UPGRADE, True),
        ("group.version", 9, UpgradeType.UPGRADE, False),
        ("no.such.feature", 1, UpgradeType.UPGRADE, False),
        ("metadata.version", 7, UpgradeType.SAFE_DOWNGRADE, False),
    ],
)
def test_a_feature_level_is_taken_whole_or_refused_with_nothing_changed(feature, level, upgrade_type, is_taken):
    cluster = Cluster()
    before = dict(cluster.fold.image.features)
    request = UpdateFeaturesRequest(feature_updates=(FeatureUpdateKey(feature, level, upgrade_type=upgrade_type),))
    records, response = whole(update_features(cluster.fold.image, SETTINGS, 1, request))
    cluster.apply(*records)
    assert (response.error_code == 0) == is_taken
    after = cluster.fold.image.features
    assert after.get(feature, 0) == level if is_taken else after == before


def test_who_was_eligible_before_elr_was_off_is_not_when_it_is_on_again():
    cluster = Cluster()
    kept = PartitionChangeRecord(0, TOPIC_ID, isr=(1,), eligible_leader_replicas=(2,), last_known_elr=(3,))
    cluster.apply(kept)
    cluster.update(ELIGIBLE_LEADER_REPLICAS, 0, UpgradeType.SAFE_DOWNGRADE)
    records = cluster.update(ELIGIBLE_LEADER_REPLICAS, 1, UpgradeType.UPGRADE)
    assert ClearElrRecord() in records
    assert (cluster.partition.eligible_leader_replicas, cluster.partition.last_known_elr) == ((), ())
    cluster.apply(kept)
    assert ClearElrRecord() not in cluster.update(ELIGIBLE_LEADER_REPLICAS, 1, UpgradeType.UPGRADE)
    assert cluster.partition.eligible_leader_replicas == (2,)


def test_a_broker_that_is_forgotten_is_eligible_nowhere():
    cluster = Cluster()
    for change in ({"eligible_leader_replicas": (2,)}, {"eligible_leader_replicas": ()}):
        cluster.apply(PartitionChangeRecord(0, TOPIC_ID, isr=(1,), leader=1, **change), FenceBrokerRecord(2, 2))
        in_sync = cluster.partition.eligible_leader_replicas == ()
        if in_sync:
            cluster.apply(PartitionChangeRecord(0, TOPIC_ID, isr=(1, 2)))
        records, _ = unregister_broker(cluster.fold.image, SETTINGS, UnregisterBrokerRequest(2))
        cluster.apply(*records[:-1])
        assert (cluster.partition.isr, cluster.partition.eligible_leader_replicas) == ((1,), ())


def test_a_broker_eligible_in_many_partitions_is_removed_in_batches():
    cluster = Cluster()
    kept = {"replicas": (1, 2), "isr": (1,), "leader": 1, "eligible_leader_replicas": (2,)}
    partitions = range(1, MAX_CHANGES_PER_STEP + 2)
    cluster.apply(*(PartitionRecord(partition_id=index, topic_id=TOPIC_ID, **kept) for index in partitions))
    cluster.apply(PartitionChangeRecord(0, TOPIC_ID, isr=(1,)), FenceBrokerRecord(2, 2))
    codes = []
    for _ in range(2):
        records, response = unregister_broker(cluster.fold.image, SETTINGS, UnregisterBrokerRequest(2))
        cluster.apply(*records)
        codes.append(response.error_code)
    assert codes == [code("REQUEST_TIMED_OUT"), 0]
    assert sorted(cluster.fold.image.brokers) == [1, 3]
    found = cluster.fold.image.topics_by_name["t"].partitions.values()
    assert all(partition.eligible_leader_replicas == () for partition in found)


def test_only_a_broker_that_is_gone_is_forgotten():
    cluster = Cluster()
    for broker, name in ((1, "INVALID_REQUEST"), (9, "BROKER_ID_NOT_REGISTERED")):
        with pytest.raises(KafkaError) as refusal:
            unregister_broker(cluster.fold.image, SETTINGS, UnregisterBrokerRequest(broker))
        assert refusal.value.code == code(name)
    cluster.apply(FenceBrokerRecord(3, 3))
    records, _ = unregister_broker(cluster.fold.image, SETTINGS, UnregisterBrokerRequest(3))
    cluster.apply(*records)
    assert sorted(cluster.fold.image.brokers) == [1, 2]


def unregistered(cluster: Cluster, controller_id: int) -> str:
    """The name of the error; none if the controller is removed."""
    try:
        records, _ = unregister_controller(cluster.fold.image, SETTINGS, UnregisterControllerRequest(controller_id))
    except KafkaError as error:
        return error.name
    cluster.apply(*records)
    return ""


def test_a_controller_is_forgotten_from_4_4_on_and_never_the_active_one():
    cluster = Cluster()
    cluster.apply(RegisterControllerRecord(SETTINGS.node_id), RegisterControllerRecord(7))
    assert unregistered(cluster, 7) == "UNSUPPORTED_VERSION"
    cluster.apply(FeatureLevelRecord("metadata.version", METADATA_VERSION_4_4))
    assert unregistered(cluster, SETTINGS.node_id) == "INVALID_REQUEST"
    assert unregistered(cluster, 8) == "CONTROLLER_ID_NOT_REGISTERED"
    assert unregistered(cluster, 7) == ""
    assert list(cluster.fold.image.controllers) == [SETTINGS.node_id]


@pytest.mark.parametrize("register", [RegisterBrokerRecord, RegisterControllerRecord])
def test_a_level_that_another_node_cannot_open_is_not_written(register):
    cluster = Cluster()
    old = tuple(each for each in FEATURES if each.name != "metadata.version")
    limit = METADATA_VERSION_4_3
    cluster.apply(register(9, features=(*old, type(old[0])("metadata.version", 7, limit))))
    update = FeatureUpdateKey("metadata.version", METADATA_VERSION_4_4)
    request = UpdateFeaturesRequest(feature_updates=(update,))
    records, answer = whole(update_features(cluster.fold.image, SETTINGS, 1, request))
    assert (records, answer.error_code) == ([], code("INVALID_UPDATE_VERSION"))
    kind = "Broker" if register is RegisterBrokerRecord else "Controller"
    assert answer.error_message.endswith(f"{kind} 9 only supports versions 7-{limit}")


def test_a_level_that_changed_records_is_not_taken_back():
    cluster = Cluster()
    cluster.update("metadata.version", 31, UpgradeType.UPGRADE)
    cluster.update("metadata.version", METADATA_VERSION_4_3, UpgradeType.SAFE_DOWNGRADE)
    cluster.update("metadata.version", METADATA_VERSION_4_4, UpgradeType.UPGRADE)
    update = FeatureUpdateKey("metadata.version", 32, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
    request = UpdateFeaturesRequest(feature_updates=(update,))
    _, answer = whole(update_features(cluster.fold.image, SETTINGS, 1, request))
    assert answer.error_code == code("INVALID_UPDATE_VERSION")
