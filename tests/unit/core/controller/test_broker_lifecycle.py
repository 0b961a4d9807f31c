"""Brokers that register, serve, stop and crash: the records that Apache Kafka 4.3.1 was seen to write."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.controller.elections import ElectionRules, change_in_sync
from moldau.core.controller.machine import ControllerMachine
from moldau.core.controller.partition_changes import MAX_CHANGES_PER_STEP
from moldau.core.controller.placement import place_replicas
from moldau.core.controller.requests import (
    ActivateController,
    ControllerRequest,
    ControllerResponse,
    MeteredRequest,
)
from moldau.core.coordination.machine import Now
from moldau.core.metadata.features import FORMATTED_LEVELS, REGISTERED_FEATURES
from moldau.core.metadata.fold import MetadataFold, MetadataRecord, merge_partition
from moldau.core.metadata.image import BrokerImage, PartitionImage
from moldau.core.quotas.usage import MutationQuota
from moldau.errors import KafkaError
from moldau.shell.io.simulated.random import SeededRandom
from moldau.types import ZERO_UUID, BrokerId, LeaderEpoch, Offset, ProducerEpoch, ProducerId, Uuid, whole
from moldau.wire.protocol.messages.broker_lifecycle import (
    AssignedDirectory,
    AssignedPartition,
    AssignedTopic,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    RegisteredListener,
)
from moldau.wire.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from moldau.wire.protocol.messages.producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from moldau.wire.protocol.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

DIRECTORY = Uuid(b"\xdd" * 16)
INCARNATION = Uuid(b"\x0c" * 16)
BOOTSTRAP = tuple(FeatureLevelRecord(name, level) for name, level in FORMATTED_LEVELS)


class Controller:
    """The machine with a list as its log; every decision is applied at once."""

    def __init__(self) -> None:
        self.log: list[MetadataRecord] = []
        self.state = MetadataFold("cluster")
        self.crash()

    def crash(self) -> None:
        """The process with the broker and the controller ends, and another one begins."""
        self.machine = ControllerMachine("cluster", parse_broker_settings({}), SeededRandom(1), lambda: 0)
        self.ask(ActivateController(BOOTSTRAP))

    def ask(self, request: ControllerRequest) -> tuple[tuple[MetadataRecord, ...], ControllerResponse]:
        decision = whole(self.machine.decide(self.state, 7, request, Now(0, 0)))
        for record in decision.records:
            self.machine.apply(self.state, Offset(len(self.log)), ProducerId(-1), ProducerEpoch(-1), record)
            self.log.append(record)
        [(request_id, response)] = decision.replies
        assert request_id == 7
        return decision.records, response

    def repeat(self, request: BrokerRegistrationRequest | BrokerHeartbeatRequest) -> list[tuple[MetadataRecord, ...]]:
        """Like a broker, until the controller has nothing left to do for it."""
        batches = []
        while True:
            records, response = self.ask(request)
            batches.append(records)
            if isinstance(response, BrokerRegistrationResponse):
                is_done = response.error_code == 0
                assert response.broker_epoch == (self.state.image.end_offset if is_done else -1)
                assert is_done or response.error_code == 101
            else:
                assert isinstance(response, BrokerHeartbeatResponse)
                wants_to_stop = isinstance(request, BrokerHeartbeatRequest) and request.want_shut_down
                is_done = response.should_shut_down if wants_to_stop else response.is_caught_up
                broker = self.state.image.brokers[request.broker_id]
                assert response.is_fenced == broker.is_fenced == (wants_to_stop and is_done)
            if is_done:
                return batches

    def start(self, broker_epoch: int, previous_broker_epoch: int = -1) -> list[tuple[MetadataRecord, ...]]:
        """The broker's epoch is the end of the log when it registers."""
        self.state.take_delta(Offset(broker_epoch), 0)
        batches = self.repeat(registration(previous_broker_epoch, Uuid(broker_epoch.to_bytes(16))))
        return batches + self.repeat(BrokerHeartbeatRequest(1, broker_epoch, broker_epoch, cordoned_log_dirs=()))

    def stop(self, broker_epoch: int) -> list[tuple[MetadataRecord, ...]]:
        return self.repeat(BrokerHeartbeatRequest(1, broker_epoch, want_shut_down=True))

    def create(self, name: str, partitions: int = 1) -> Uuid:
        _, response = self.ask(CreateTopicsRequest((CreatableTopic(name, partitions, 1),), 1000))
        assert isinstance(response, CreateTopicsResponse)
        assert response.topics[0].error_code == 0
        return response.topics[0].topic_id


def registration(previous_broker_epoch: int = -1, incarnation: Uuid = INCARNATION) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        1,
        "cluster",
        incarnation_id=incarnation,
        listeners=(RegisteredListener("PLAINTEXT", "h", 9092),),
        features=REGISTERED_FEATURES,
        rack=None,
        log_dirs=(DIRECTORY,),
        previous_broker_epoch=previous_broker_epoch,
    )


def test_a_request_with_a_quota_is_values_only_and_any_controller_decides_alike() -> None:
    quota = MutationQuota(("", "one"), 1.0, is_strict=True)
    requests = [
        MeteredRequest(CreateTopicsRequest((CreatableTopic("a", 20, 1), CreatableTopic("b", 1, 1)), 1000), quota),
        MeteredRequest(DeleteTopicsRequest((DeleteTopicState("a"),), (), 1000), quota),
    ]
    decided = []
    for _ in range(2):
        controller = Controller()
        controller.start(13)
        decided.append([controller.ask(request) for request in requests])
    assert decided[0] == decided[1]
    created, deleted = (response for _, response in decided[0])
    assert isinstance(created, CreateTopicsResponse)
    assert isinstance(deleted, DeleteTopicsResponse)
    assert [(topic.name, topic.error_code) for topic in created.topics] == [("a", 0), ("b", 89)]
    assert (deleted.responses[0].error_code, deleted.throttle_time_ms) == (89, 9_000)
    for request in requests:
        msgspec.json.encode(request)


def test_an_empty_log_gets_the_clusters_first_records_in_one_transaction() -> None:
    controller = Controller()
    assert controller.log == [
        BeginTransactionRecord("Bootstrap records"),
        *BOOTSTRAP,
        ConfigRecord(4, "", "min.insync.replicas", "1"),
        EndTransactionRecord(),
    ]
    assert controller.ask(ActivateController(BOOTSTRAP))[0] == ()


def test_a_transaction_that_a_crash_left_open_is_aborted_first() -> None:
    controller = Controller()
    controller.machine.apply(
        controller.state, Offset(9), ProducerId(-1), ProducerEpoch(-1), BeginTransactionRecord("torn")
    )
    assert controller.ask(ActivateController(BOOTSTRAP))[0] == (AbortTransactionRecord("controller restarted"),)


def test_a_first_start_registers_fenced_and_then_lifts_the_fence() -> None:
    [registered, unfenced] = Controller().start(13)
    [record] = registered
    assert isinstance(record, RegisterBrokerRecord)
    assert (record.broker_epoch, record.fenced, record.log_dirs, record.cordoned_log_dirs) == (
        13,
        True,
        (DIRECTORY,),
        None,
    )
    assert record.end_points == (BrokerEndpoint("PLAINTEXT", "h", 9092, 0),)
    assert record.features[:2] == (
        BrokerFeature("metadata.version", 7, 33),
        BrokerFeature("eligible.leader.replicas.version", 0, 1),
    )
    assert unfenced == (
        BrokerRegistrationChangeRecord(1, 13, fenced=-1),
        BrokerRegistrationChangeRecord(1, 13, cordoned_log_dirs=()),
    )


def test_cordoned_directories_are_recorded_when_reported_and_changed() -> None:
    controller = Controller()
    controller.start(13)
    for told, noted in ((None, []), ((), []), ((DIRECTORY,), [(DIRECTORY,)]), ((DIRECTORY,), []), ((), [()])):
        records, _ = controller.ask(BrokerHeartbeatRequest(1, 13, 20, cordoned_log_dirs=told))
        assert list(records) == [BrokerRegistrationChangeRecord(1, 13, cordoned_log_dirs=dirs) for dirs in noted]


def test_a_broker_without_cordoned_directories_causes_no_record() -> None:
    controller = Controller()
    controller.state.take_delta(Offset(13), 0)
    controller.repeat(registration())
    [unfenced] = controller.repeat(BrokerHeartbeatRequest(1, 13, 13))
    assert unfenced == (BrokerRegistrationChangeRecord(1, 13, fenced=-1),)


def test_a_clean_stop_and_start_keeps_the_partitions_eligible() -> None:
    controller = Controller()
    controller.start(13)
    topic_id = controller.create("t")
    batches = controller.stop(13)
    assert batches == [
        (
            BrokerRegistrationChangeRecord(1, 13, in_controlled_shutdown=1),
            PartitionChangeRecord(0, topic_id, isr=(), leader=-1, eligible_leader_replicas=(1,), last_known_elr=(1,)),
        ),
        (BrokerRegistrationChangeRecord(1, 13, fenced=1),),
    ]
    [registered, unfenced] = controller.start(20, previous_broker_epoch=13)
    assert [type(record) for record in registered] == [RegisterBrokerRecord]
    assert unfenced[1] == PartitionChangeRecord(
        0, topic_id, isr=(1,), leader=1, eligible_leader_replicas=(), last_known_elr=()
    )


def test_after_a_crash_a_broker_loses_eligibility_and_recovers_as_last_known_leader() -> None:
    controller = Controller()
    controller.start(13)
    topic_id = controller.create("t")
    controller.crash()
    [fenced, registered, unfenced] = controller.start(30)
    assert fenced == (
        PartitionChangeRecord(0, topic_id, isr=(), leader=-1, eligible_leader_replicas=(1,), last_known_elr=(1,)),
        BrokerRegistrationChangeRecord(1, 13, fenced=1),
    )
    assert registered[0] == PartitionChangeRecord(0, topic_id, eligible_leader_replicas=())
    assert isinstance(registered[1], RegisterBrokerRecord)
    assert unfenced[1] == PartitionChangeRecord(
        0, topic_id, isr=(1,), leader=1, leader_recovery_state=1, last_known_elr=()
    )


def test_many_partitions_are_changed_in_several_batches() -> None:
    most = MAX_CHANGES_PER_STEP
    controller = Controller()
    controller.start(13)
    for name in "tu":
        controller.create(name, most + 1)
    batches = controller.stop(13)
    assert [len(batch) for batch in batches] == [most + 1, most, 2, 1]
    assert all(partition.leader == -1 for partition in partitions(controller.state))
    restarted = controller.start(40)
    assert [len(batch) for batch in restarted] == [most, most, 3, most + 2, most, 2]
    assert all(partition.leader == 1 for partition in partitions(controller.state))


def partitions(state: MetadataFold) -> list[PartitionImage]:
    return [one for topic in state.image.topics_by_id.values() for one in topic.partitions.values()]


def test_each_replica_of_an_assignment_has_its_answer_and_what_is_new_its_record() -> None:
    controller = Controller()
    controller.start(13)
    topic_id, other = controller.create("t", 3), Uuid(b"\xee" * 16)
    controller.state.apply(BrokerRegistrationChangeRecord(1, 13, log_dirs=(DIRECTORY, other)))
    partitions = tuple(AssignedPartition(index) for index in (0, 2, 7))
    assigned = (
        AssignedDirectory(other, (AssignedTopic(topic_id, partitions), AssignedTopic(Uuid(b"?" * 16), partitions[:1]))),
        AssignedDirectory(DIRECTORY, (AssignedTopic(topic_id, (AssignedPartition(1),)),)),
    )
    records, response = controller.ask(AssignReplicasToDirsRequest(1, 13, assigned))
    assert records == tuple(PartitionChangeRecord(index, topic_id, directories=(other,)) for index in (0, 2))
    assert isinstance(response, AssignReplicasToDirsResponse)
    answers = [
        (directory.id, one.partition_index, one.error_code)
        for directory in response.directories
        for topic in directory.topics
        for one in topic.partitions
    ]
    assert answers == [(other, 0, 0), (other, 2, 0), (other, 7, 3), (other, 0, 100), (DIRECTORY, 1, 0)]
    controller.state.apply(PartitionChangeRecord(0, topic_id, replicas=(2,), isr=(2,)))
    _, response = controller.ask(AssignReplicasToDirsRequest(1, 13, assigned))
    assert isinstance(response, AssignReplicasToDirsResponse)
    assert response.directories[0].topics[0].partitions[0].error_code == 6


def test_a_partition_gets_its_leader_when_the_broker_finds_its_directory() -> None:
    """The directory's id may have changed, by a flipped bit of `meta.properties` or by hand."""
    controller = Controller()
    controller.start(13)
    topic_id = controller.create("t", 2)
    controller.state.apply(PartitionChangeRecord(0, topic_id, directories=(Uuid(b"\xee" * 16),)))
    controller.crash()
    controller.start(40)
    assert [partition.leader for partition in partitions(controller.state)] == [-1, 1]
    found = AssignedDirectory(DIRECTORY, (AssignedTopic(topic_id, (AssignedPartition(0),)),))
    controller.ask(AssignReplicasToDirsRequest(1, 40, (found,)))
    first, second = partitions(controller.state)
    assert (first.leader, second.leader, first.directories) == (1, 1, (DIRECTORY,))
    assert first.isr == (1,)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (BrokerHeartbeatRequest(2, 13), 102),
        (BrokerHeartbeatRequest(1, 12, want_shut_down=True), 77),
        (AssignReplicasToDirsRequest(1, 12), 77),
        (AssignReplicasToDirsRequest(2, 13), 77),
        (AllocateProducerIdsRequest(2, 13), 77),
        (AllocateProducerIdsRequest(1, 12), 77),
    ],
)
def test_a_broker_that_is_not_registered_is_refused(request_: ControllerRequest, code: int) -> None:
    controller = Controller()
    controller.start(13)
    with pytest.raises(KafkaError) as caught:
        controller.ask(request_)
    assert caught.value.code == code


def test_producer_ids_come_in_blocks_that_never_overlap() -> None:
    controller = Controller()
    controller.start(13)
    request = AllocateProducerIdsRequest(1, 13)
    assert [controller.ask(request)[1] for _ in range(3)] == [
        AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=1000) for first in (0, 1000, 2000)
    ]


@given(st.lists(st.sampled_from(["create", "delete", "stop", "crash", "ids"]), max_size=12))
def test_folding_the_log_gives_the_state_through_any_life(steps: list[str]) -> None:
    controller = Controller()
    epoch = 13
    controller.start(epoch)
    for number, step in enumerate(steps):
        if step == "create":
            controller.create(f"t{number}", 2)
        elif step == "delete" and controller.state.image.topics_by_name:
            name = next(iter(controller.state.image.topics_by_name))
            controller.ask(delete(name))
        elif step == "stop":
            controller.stop(epoch)
            controller.start(epoch + 1, previous_broker_epoch=epoch)
            epoch += 1
        elif step == "crash":
            controller.crash()
            controller.start(epoch + 1)
            epoch += 1
        elif step == "ids":
            controller.ask(AllocateProducerIdsRequest(1, epoch))
        assert all(partition.leader == 1 and partition.isr == (1,) for partition in partitions(controller.state))
    folded = MetadataFold("cluster")
    for record in controller.log:
        folded.apply(record)
    folded.take_delta(controller.state.image.end_offset, 0)
    assert vars(folded.image) == vars(controller.state.image)


def delete(name: str) -> ControllerRequest:
    return DeleteTopicsRequest((DeleteTopicState(name),), (), 1000)


# elections with more than one replica: a cluster uses the same rules


def partition(isr: Sequence[int], leader: int, elr: Sequence[int] = (), known: Sequence[int] = ()) -> PartitionImage:
    return PartitionImage(
        (1, 2, 3),
        tuple(isr),
        BrokerId(leader),
        LeaderEpoch(4),
        9,
        eligible_leader_replicas=tuple(elr),
        last_known_elr=tuple(known),
    )


def changed(
    old: PartitionImage,
    target_isr: Sequence[int],
    active: Sequence[int],
    *,
    minimum: int = 2,
    has_elr: bool = True,
    lost: Sequence[int] = (),
) -> PartitionImage:
    record = change_in_sync(
        ZERO_UUID,
        0,
        old,
        ElectionRules(minimum, has_elr),
        target_isr=tuple(target_isr),
        is_active=lambda broker_id: broker_id in active,
        lost_replicas=tuple(lost),
    )
    return old if record is None else merge_partition(old, record)


def test_a_follower_that_leaves_changes_no_leader() -> None:
    after = changed(partition((1, 2, 3), 1), (1, 2), (1, 2))
    assert (after.isr, after.leader, after.leader_epoch, after.eligible_leader_replicas) == ((1, 2), 1, 4, ())


def test_a_leader_that_leaves_is_followed_by_the_first_replica_in_sync() -> None:
    after = changed(partition((1, 2, 3), 1), (2, 3), (2, 3))
    assert (after.isr, after.leader, after.leader_epoch) == ((2, 3), 2, 5)


def test_below_the_minimum_who_leaves_stays_eligible() -> None:
    after = changed(partition((1, 2), 1), (2,), (2,))
    assert (after.isr, after.leader, after.eligible_leader_replicas) == ((2,), 2, (1,))
    alone = changed(after, (), ())
    assert (alone.isr, alone.leader, alone.eligible_leader_replicas, alone.last_known_elr) == ((), -1, (1, 2), (2,))


def test_an_eligible_replica_is_elected_and_the_rest_stay_eligible() -> None:
    after = changed(partition((), -1, (1, 2), (2,)), (), (1,))
    assert (after.isr, after.leader, after.eligible_leader_replicas, after.last_known_elr) == ((1,), 1, (2,), ())
    assert after.leader_recovery_state == 0


def test_without_eligible_replicas_only_the_last_known_leader_is_elected_uncleanly() -> None:
    old = partition((), -1, (), (3,))
    assert changed(old, (), (1, 2)) is old
    after = changed(old, (), (3,))
    assert (after.isr, after.leader, after.leader_recovery_state, after.last_known_elr) == ((3,), 3, 1, ())


def test_a_replica_that_lost_what_it_had_is_not_eligible() -> None:
    after = changed(partition((), -1, (1, 2), (2,)), (), (), lost=(2,))
    assert (after.eligible_leader_replicas, after.last_known_elr) == ((1,), (2,))


def test_of_a_partition_without_a_leader_the_last_in_sync_replica_is_known() -> None:
    """All nodes were killed: the leader's life ended first, then that of the last in-sync replica, which is waited
    for."""
    old = partition((3,), -1)
    after = changed(old, (), (), lost=(3,))
    assert (after.isr, after.eligible_leader_replicas, after.last_known_elr) == ((), (), (3,))
    assert changed(after, (), (1, 2)) is after
    again = changed(after, (), (1, 2, 3))
    assert (again.isr, again.leader, again.leader_recovery_state, again.last_known_elr) == ((3,), 3, 1, ())


def test_without_eligible_leader_replicas_the_last_in_sync_ones_stay() -> None:
    after = changed(partition((1,), 1), (), (), has_elr=False)
    assert (after.isr, after.leader, after.eligible_leader_replicas) == ((1,), -1, ())
    back = changed(after, (1,), (1,), has_elr=False)
    assert (back.isr, back.leader) == ((1,), 1)


# placement


def broker(broker_id: int, rack: str | None = None, *, fenced: bool = False) -> BrokerImage:
    return BrokerImage(BrokerId(broker_id), 1, INCARNATION, (), rack=rack, is_fenced=fenced)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 20), st.integers(0, 99))
def test_replicas_are_distinct_and_leaders_spread_evenly(count: int, factor: int, number: int, seed: int) -> None:
    brokers_ = [broker(broker_id) for broker_id in range(count)]
    if factor > count:
        with pytest.raises(KafkaError):
            place_replicas(number, factor, brokers_, SeededRandom(seed))
        return
    placements = place_replicas(number, factor, brokers_, SeededRandom(seed))
    assert all(len(replicas) == len(dict.fromkeys(replicas)) == factor for replicas in placements)
    led = [sum(replicas[0] == broker_id for replicas in placements) for broker_id in range(count)]
    assert max(led) - min(led) <= 1


@given(st.integers(0, 50))
def test_replicas_lie_in_different_racks_and_fenced_brokers_lead_nothing(seed: int) -> None:
    brokers_ = [broker(one, f"rack{one % 3}") for one in range(6)] + [broker(9, "rack9", fenced=True)]
    for replicas in place_replicas(12, 3, brokers_, SeededRandom(seed)):
        assert len(dict.fromkeys(one % 3 for one in replicas)) == 3
        assert 9 not in replicas
    assert all(replicas[-1] == 9 for replicas in place_replicas(3, 7, brokers_, SeededRandom(seed)))


def test_a_broker_whose_directories_are_all_cordoned_takes_nothing() -> None:
    cordoned = BrokerImage(
        BrokerId(1),
        1,
        INCARNATION,
        (),
        is_fenced=False,
        log_directories=(DIRECTORY,),
        cordoned_log_directories=(DIRECTORY,),
    )
    assert place_replicas(2, 1, [cordoned, broker(2)], SeededRandom(1)) == [(2,), (2,)]
    with pytest.raises(KafkaError):
        place_replicas(1, 2, [cordoned, broker(2)], SeededRandom(1))
