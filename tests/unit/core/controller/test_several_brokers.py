"""Three brokers and their controller: live brokers, in-sync replicas, leaders."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from moldau.core.controller.requests import SuspectBroker
from moldau.core.metadata.features import REGISTERED_FEATURES
from moldau.types import Uuid
from moldau.wire.protocol.messages.broker_lifecycle import (
    AssignedDirectory,
    AssignedPartition,
    AssignedTopic,
    AssignReplicasToDirsRequest,
    RegisteredFeature,
)
from moldau.wire.protocol.messages.in_sync_replicas import (
    AlterPartitionRequest,
    BrokerState,
    ProposedPartition,
    ProposedTopic,
)
from moldau.wire.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
)
from moldau.wire.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.wire.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.support.controller import SESSION_MS, Controller, directory, registration

SUSPICION_MS = 500

# sessions


def test_a_broker_that_is_not_heard_of_is_fenced_and_the_next_replica_leads() -> None:
    cluster = Controller(1, 2, 3)
    topic_id = cluster.create(2, 3, 1)
    for _ in range(3):
        assert cluster.wait(SESSION_MS // 4) == []
        cluster.beat(3)
    assert cluster.wait(SESSION_MS // 4) == [
        PartitionChangeRecord(0, topic_id, isr=(3, 1), leader=3),
        BrokerRegistrationChangeRecord(2, cluster.epoch(2), fenced=1),
    ]
    assert not cluster.state.image.brokers[3].is_fenced


def test_a_heartbeat_prolongs_a_session() -> None:
    cluster = Controller(1, 2)
    for _ in range(5):
        assert cluster.wait(SESSION_MS - 1) == []
        cluster.beat(2)
    assert [type(record) for record in cluster.wait(SESSION_MS)] == [BrokerRegistrationChangeRecord]


def test_the_broker_in_the_controllers_process_needs_no_heartbeats() -> None:
    cluster = Controller(1)
    assert cluster.timers == {}
    cluster.start(2)
    cluster.wait(3 * SESSION_MS)
    assert [broker.is_fenced for broker in cluster.state.image.brokers.values()] == [False, True]


def test_a_broker_that_may_have_died_is_fenced_unless_it_is_heard_of_soon() -> None:
    cluster = Controller(1, 2, 3)
    for broker_id in (2, 3):
        cluster.ask(SuspectBroker(broker_id, cluster.epoch(broker_id)))
    assert cluster.wait(SUSPICION_MS - 1) == []
    cluster.beat(3)
    assert cluster.wait(1) == [BrokerRegistrationChangeRecord(2, cluster.epoch(2), fenced=1)]
    assert cluster.wait(SESSION_MS - 2) == []


def test_a_broker_whose_connection_was_reset_has_two_seconds_more() -> None:
    cluster = Controller(1, 2)
    cluster.ask(SuspectBroker(2, cluster.epoch(2), is_reset=True))
    assert cluster.wait(SUSPICION_MS + 1_999) == []
    assert len(cluster.wait(1)) == 1


def test_the_time_of_a_suspicion_is_a_setting() -> None:
    cluster = Controller(moldau_broker_suspicion_ms="70")
    cluster.start(1, 2)
    cluster.ask(SuspectBroker(2, cluster.epoch(2)))
    assert cluster.wait(69) == []
    assert len(cluster.wait(1)) == 1


def test_what_an_earlier_life_of_a_broker_did_makes_this_one_not_suspect() -> None:
    cluster = Controller(1, 2)
    cluster.ask(SuspectBroker(2, cluster.epoch(2) - 1))
    cluster.ask(SuspectBroker(9, 1))
    assert cluster.wait(SESSION_MS - 1) == []


def test_a_broker_that_was_told_to_stop_is_not_suspect() -> None:
    cluster = Controller(1, 2)
    assert cluster.beat(2, want_shut_down=True).should_shut_down
    length = len(cluster.log)
    cluster.ask(SuspectBroker(2, cluster.epoch(2)))
    cluster.wait(SESSION_MS)
    assert len(cluster.log) == length


def test_the_late_end_of_an_abandoned_heartbeat_makes_no_broker_suspect() -> None:
    cluster = Controller(1, 2)
    cluster.beat(2)
    assert cluster.wait(SESSION_MS // 2) == []
    cluster.ask(SuspectBroker(2, cluster.epoch(2)))
    assert cluster.wait(SESSION_MS // 2 - 1) == []
    assert len(cluster.wait(1)) == 1


def test_an_end_after_a_late_heartbeat_makes_suspect_only_after_a_timely_one() -> None:
    cluster = Controller(1, 2)
    cluster.beat(2)
    assert cluster.wait(SESSION_MS - 1) == []
    cluster.beat(2)
    cluster.ask(SuspectBroker(2, cluster.epoch(2)))
    assert cluster.wait(SESSION_MS // 4) == []
    cluster.beat(2)
    cluster.ask(SuspectBroker(2, cluster.epoch(2)))
    assert len(cluster.wait(SUSPICION_MS)) == 1


def test_a_second_suspicion_gives_no_more_time() -> None:
    cluster = Controller(1, 2)
    cluster.ask(SuspectBroker(2, cluster.epoch(2)))
    cluster.wait(SUSPICION_MS - 1)
    cluster.ask(SuspectBroker(2, cluster.epoch(2)))
    assert len(cluster.wait(1)) == 1


def test_that_nobody_listens_where_a_broker_was_says_nothing_of_one_that_is_heard_of() -> None:
    cluster = Controller(1, 2, 3)
    cluster.activate()
    cluster.beat(3)
    for broker_id in (2, 3):
        cluster.ask(SuspectBroker(broker_id, None))
    assert cluster.wait(SUSPICION_MS) == [BrokerRegistrationChangeRecord(2, cluster.epoch(2), fenced=1)]
    assert cluster.wait(SESSION_MS - SUSPICION_MS - 1) == []


def test_a_controller_that_stood_still_hears_first_what_it_was_sent_meanwhile() -> None:
    cluster = Controller(1, 2, 3)
    cluster.ask(SuspectBroker(2, cluster.epoch(2)))
    cluster.now_ms += 2 * SESSION_MS
    assert cluster.wait(SUSPICION_MS - 1) == []
    cluster.beat(3)
    assert cluster.wait(1) == [BrokerRegistrationChangeRecord(2, cluster.epoch(2), fenced=1)]


def test_a_controller_that_stands_still_again_and_again_fences_all_the_same() -> None:
    cluster = Controller(1, 2)
    cluster.now_ms += 2 * SESSION_MS
    assert cluster.wait(0) == []
    cluster.now_ms += SESSION_MS
    assert len(cluster.wait(0)) == 1


def test_a_new_controller_gives_every_broker_a_whole_session() -> None:
    cluster = Controller(1, 2, 3)
    cluster.wait(SESSION_MS - 1)
    cluster.activate()
    assert cluster.wait(SESSION_MS - 1) == []
    cluster.beat(3)
    [fenced] = cluster.wait(1)
    assert fenced == BrokerRegistrationChangeRecord(2, cluster.epoch(2), fenced=1)


def test_brokers_that_fall_silent_together_are_fenced_one_in_a_batch() -> None:
    cluster = Controller(1, 2, 3)
    topic_id = cluster.create(2, 3, 1)
    cluster.wait(SESSION_MS)
    assert cluster.log[-4:] == [
        PartitionChangeRecord(0, topic_id, isr=(3, 1), leader=3),
        BrokerRegistrationChangeRecord(2, cluster.epoch(2), fenced=1),
        PartitionChangeRecord(0, topic_id, isr=(1,), leader=1),
        BrokerRegistrationChangeRecord(3, cluster.epoch(3), fenced=1),
    ]


# registration


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "other"}, 104),
        ({"incarnation_id": Uuid(b"2" * 16)}, 101),
        ({"log_dirs": ()}, 119),
        ({"log_dirs": (Uuid(bytes(15) + b"\x63"),)}, 119),
        ({"log_dirs": (directory(2), directory(2))}, 119),
        ({"log_dirs": (directory(1),)}, 119),
        ({"features": REGISTERED_FEATURES[1:]}, 119),
        ({"features": (RegisteredFeature("metadata.version", 7, 29), *REGISTERED_FEATURES[1:])}, 35),
        ({"features": REGISTERED_FEATURES[:1]}, 35),
    ],
)
def test_a_registration_that_cannot_be_is_refused_and_changes_nothing(changes: dict[str, Any], code: int) -> None:
    cluster = Controller(1, 2)
    length = len(cluster.log)
    assert cluster.code(msgspec.structs.replace(registration(2), **changes)) == code
    assert len(cluster.log) == length


def test_of_two_faults_the_answer_names_the_first_in_kafkas_order() -> None:
    cluster = Controller(1, 2)
    taken = msgspec.structs.replace(registration(2, life=2), log_dirs=(), features=())
    assert cluster.code(msgspec.structs.replace(taken, cluster_id="other")) == 104
    assert cluster.code(taken) == 101
    assert cluster.code(msgspec.structs.replace(taken, incarnation_id=registration(2).incarnation_id)) == 119


def test_a_taken_id_is_free_when_the_session_of_its_broker_has_ended() -> None:
    cluster = Controller(1, 2)
    cluster.wait(SESSION_MS - 1)
    assert cluster.code(registration(2, life=2)) == 101
    cluster.wait(1)
    assert cluster.register(2, life=2) > 0


def test_a_registration_in_the_same_life_keeps_epoch_and_fence() -> None:
    cluster = Controller(1, 2)
    epoch = cluster.epoch(2)
    assert cluster.register(2, rack="r") == epoch
    broker = cluster.state.image.brokers[2]
    assert (broker.epoch, broker.rack, broker.is_fenced) == (epoch, "r", False)


def test_a_broker_that_is_not_known_here_is_no_eligible_leader() -> None:
    cluster = Controller(1, 2, 3)
    topic_id = cluster.create(2, 3, min_insync_replicas="2")
    cluster.beat(3, want_fence=True)
    assert cluster.partition.eligible_leader_replicas == (3,)
    # as the controller of Apache Kafka does, which leaves a removed replica eligible
    cluster.state.apply(UnregisterBrokerRecord(3, cluster.epoch(3)))
    cluster.register(3, life=2, previous_broker_epoch=-1)
    assert cluster.last[0] == PartitionChangeRecord(0, topic_id, eligible_leader_replicas=())
    assert cluster.partition.eligible_leader_replicas == ()


# heartbeats


def test_a_fence_is_lifted_when_the_broker_has_its_registration_in_its_metadata() -> None:
    cluster = Controller(1)
    epoch = cluster.register(2)
    for offset, wants_fence in ((epoch - 1, False), (epoch, True)):
        response = cluster.beat(2, offset, want_fence=wants_fence, cordoned_log_dirs=None)
        assert (response.is_fenced, response.is_caught_up) == (True, offset == epoch)
        assert cluster.last == ()
    assert not cluster.beat(2, epoch).is_fenced


def test_a_broker_that_wants_its_fence_gets_it() -> None:
    cluster = Controller(1, 2)
    topic_id = cluster.create(2, 1)
    assert cluster.beat(2, want_fence=True).is_fenced
    assert cluster.last == (
        PartitionChangeRecord(0, topic_id, isr=(1,), leader=1),
        BrokerRegistrationChangeRecord(2, cluster.epoch(2), fenced=1),
    )


def with_two_directories() -> tuple[Controller, Uuid]:
    """A cluster of brokers 1 and 2, and the second directory of broker 2."""
    cluster = Controller(1)
    other = Uuid(b"\xee" * 16)
    cluster.register(2, log_dirs=(directory(2), other))
    cluster.beat(2)
    return cluster, other


def test_the_replicas_of_a_failed_directory_are_neither_leader_nor_in_sync() -> None:
    cluster, other = with_two_directories()
    topic_id = cluster.create(2, 1)
    cluster.state.apply(PartitionChangeRecord(0, topic_id, directories=(other, directory(1))))
    cluster.beat(2, offline_log_dirs=(other,))
    assert cluster.last == (
        PartitionChangeRecord(0, topic_id, isr=(1,), leader=1),
        BrokerRegistrationChangeRecord(2, cluster.epoch(2), log_dirs=(directory(2),)),
    )
    cluster.beat(2, offline_log_dirs=(other,))
    assert cluster.last == ()


def test_a_replica_in_a_failed_directory_is_neither_leader_nor_in_sync() -> None:
    """No controller accepted the report before that of the failure."""
    cluster, other = with_two_directories()
    topic_id = cluster.create(2, 1)
    cluster.beat(2, offline_log_dirs=(other,))
    assert cluster.partition.leader == 2

    def report(directory_id: Uuid) -> None:
        replica = AssignedTopic(topic_id, (AssignedPartition(0),))
        directories = (AssignedDirectory(directory_id, (replica,)),)
        cluster.ask(AssignReplicasToDirsRequest(2, cluster.epoch(2), directories))

    report(other)
    lies_in = (other, directory(1))
    assert cluster.last == (PartitionChangeRecord(0, topic_id, isr=(1,), leader=1, directories=lies_in),)
    report(directory(2))
    lies_in = (directory(2), directory(1))
    assert cluster.last == (PartitionChangeRecord(0, topic_id, directories=lies_in),)


def test_a_replica_in_a_failed_directory_is_not_elected() -> None:
    cluster, _ = with_two_directories()
    topic_id = cluster.create(1, 2)
    cluster.state.apply(PartitionChangeRecord(0, topic_id, directories=(directory(1), Uuid(b"\xff" * 16))))
    cluster.beat(1, want_fence=True)
    assert cluster.partition.leader == -1


# controlled shutdown


def test_a_stopping_broker_waits_until_all_others_know_that_it_leads_nothing() -> None:
    cluster = Controller(1, 2, 3)
    topic_id = cluster.create(2, 3, 1)
    cluster.beat(3)
    assert not cluster.beat(2, want_shut_down=True).should_shut_down
    assert cluster.last == (
        BrokerRegistrationChangeRecord(2, cluster.epoch(2), in_controlled_shutdown=1),
        PartitionChangeRecord(0, topic_id, isr=(3, 1), leader=3),
    )
    offset = len(cluster.log) - 1
    for other, reached in ((3, offset - 2), (3, offset - 1)):
        cluster.beat(other, reached)
        assert not cluster.beat(2, want_shut_down=True).should_shut_down
        assert cluster.last == ()
    cluster.beat(3, offset)
    assert cluster.beat(2, want_shut_down=True).should_shut_down
    assert cluster.last == (BrokerRegistrationChangeRecord(2, cluster.epoch(2), fenced=1),)
    cluster.register(2, life=2)


def test_a_stopping_broker_that_leads_nothing_is_fenced_at_once() -> None:
    cluster = Controller(1, 2)
    topic_id = cluster.create(1, 2)
    assert cluster.beat(2, want_shut_down=True).should_shut_down
    assert cluster.last == (
        PartitionChangeRecord(0, topic_id, isr=(1,)),
        BrokerRegistrationChangeRecord(2, cluster.epoch(2), fenced=1),
    )


def test_what_is_created_beside_a_stopping_broker_is_led_by_one_that_stays() -> None:
    cluster = Controller(1, 2)
    cluster.create(2, 1)
    cluster.beat(2, want_shut_down=True)
    assert cluster.state.image.brokers[2].is_in_controlled_shutdown
    created = cluster.ask(CreateTopicsRequest((CreatableTopic("one", 4, 1), CreatableTopic("both", 4, 2)), 1_000))
    assert [row.error_code for row in created.topics] == [0, 0]
    wider = tuple(CreatePartitionsTopic(name, 8, None) for name in ("one", "both"))
    added = cluster.ask(CreatePartitionsRequest(wider, 1_000))
    assert [row.error_code for row in added.results] == [0, 0]
    for name, replicas in (("one", (1,)), ("both", (1, 2))):
        partitions = cluster.state.image.topics_by_name[name].partitions.values()
        assert [(each.replicas, each.isr, each.leader) for each in partitions] == [(replicas, (1,), 1)] * 8


# AlterPartition


def test_a_leader_shrinks_and_expands_the_replicas_in_sync() -> None:
    cluster = Controller(1, 2, 3)
    topic_id = cluster.create(2, 3, 1)
    shrunk = cluster.propose(2, 2, 3)
    assert cluster.last == (PartitionChangeRecord(0, topic_id, isr=(2, 3)),)
    assert (shrunk.error_code, shrunk.leader_id, shrunk.isr, shrunk.partition_epoch) == (0, 2, (2, 3), 1)
    assert cluster.propose(2, 2, 3, 1).isr == (2, 3, 1)
    assert cluster.partition.leader_epoch == 0


def test_below_the_minimum_who_leaves_stays_eligible() -> None:
    cluster = Controller(1, 2, 3)
    cluster.create(2, 3, 1, min_insync_replicas="2")
    cluster.propose(2, 2)
    assert (cluster.partition.isr, cluster.partition.eligible_leader_replicas) == ((2,), (1, 3))


@pytest.mark.parametrize(
    ("isr", "changes", "code"),
    [
        ((2, 3), {"partition_index": 9}, 3),
        ((2, 3), {"leader_epoch": 1}, 41),
        ((2, 3), {"partition_epoch": 2}, 41),
        ((2, 3), {"leader_epoch": -1}, 74),
        ((2, 3), {"partition_epoch": 0}, 95),
        ((), {}, 42),
        ((2, 2), {}, 42),
        ((3, 1), {}, 42),
        ((2, 4), {}, 42),
        ((2,), {"leader_recovery_state": 1}, 42),
        ((2, 3), {"new_isr_with_epochs": (BrokerState(2), BrokerState(3, 1))}, 107),
    ],
)
def test_a_proposal_that_cannot_be_is_refused_as_kafka_does(
    isr: tuple[int, ...], changes: dict[str, Any], code: int
) -> None:
    cluster = Controller(1, 2, 3, 4)
    cluster.create(2, 3, 1)
    cluster.propose(2, 2, 3, 1, new_isr_with_epochs=(BrokerState(2), BrokerState(3)))
    assert cluster.propose(2, *isr, **changes).error_code == code
    assert cluster.last == ()


def test_a_proposal_of_another_than_the_leader_or_of_an_earlier_life_is_refused() -> None:
    cluster = Controller(1, 2, 3)
    topic_id = cluster.create(2, 3, 1)
    assert cluster.propose(3, 2, 3).error_code == 42
    assert cluster.code(AlterPartitionRequest(2, cluster.epoch(2) - 1)) == 77
    assert cluster.code(AlterPartitionRequest(9, 1)) == 77
    unknown = ProposedTopic(Uuid(b"?" * 16), (ProposedPartition(0),))
    response = cluster.ask(AlterPartitionRequest(2, cluster.epoch(2), (unknown,)))
    assert response.topics[0].partitions[0].error_code == 100
    assert topic_id != unknown.topic_id


@pytest.mark.parametrize("wants", [{"want_fence": True}, {"want_shut_down": True}])
def test_a_replica_that_is_fenced_or_stops_may_not_be_in_sync(wants: dict[str, bool]) -> None:
    cluster = Controller(1, 2, 3)
    cluster.create(2, 3, 1)
    cluster.beat(3, **wants)
    assert cluster.propose(2, 2, 3, 1).error_code == 107


def test_of_a_partition_that_stands_twice_the_first_proposal_is_taken() -> None:
    cluster = Controller(1, 2, 3)
    topic_id = cluster.create(2, 3, 1)
    twice = tuple(ProposedPartition(0, 0, (), (BrokerState(2), BrokerState(other)), 0, 0) for other in (3, 1))
    response = cluster.ask(AlterPartitionRequest(2, cluster.epoch(2), (ProposedTopic(topic_id, twice),)))
    assert [one.error_code for one in response.topics[0].partitions] == [0, 95]
    assert cluster.partition.isr == (2, 3)


def test_a_leader_that_was_elected_uncleanly_says_when_it_is_well() -> None:
    cluster = Controller(1, 2)
    topic_id = cluster.create(2, 1)
    cluster.state.apply(PartitionChangeRecord(0, topic_id, isr=(2,), leader=2, leader_recovery_state=1))
    assert cluster.propose(2, 2, leader_recovery_state=1).error_code == 0
    assert cluster.last == ()
    assert cluster.propose(2, 2, leader_recovery_state=0).leader_recovery_state == 0
    assert cluster.last == (PartitionChangeRecord(0, topic_id, leader_recovery_state=0),)


# reassignments


def reassign(cluster: Controller, *replicas: int) -> None:
    topic = ReassignableTopic("t", (ReassignablePartition(0, replicas),))
    response = cluster.ask(AlterPartitionReassignmentsRequest(topics=(topic,)))
    assert response.responses[0].partitions[0].error_code == 0


def test_a_reassignment_is_complete_when_the_new_replicas_are_in_sync() -> None:
    cluster = Controller(1, 2, 3, 4)
    topic_id = cluster.create(2, 3)
    reassign(cluster, 2, 4)
    assert (cluster.partition.replicas, cluster.partition.adding_replicas) == ((2, 4, 3), (4,))
    answer = cluster.propose(2, 2, 3, 4)
    assert cluster.last == (
        PartitionChangeRecord(
            0,
            topic_id,
            isr=(2, 4),
            leader=2,
            replicas=(2, 4),
            removing_replicas=(),
            adding_replicas=(),
            directories=(directory(2), directory(4)),
        ),
    )
    assert (answer.error_code, answer.leader_epoch, answer.isr) == (0, 1, (2, 4))


def test_the_leader_that_a_reassignment_removes_is_told_that_another_leads() -> None:
    cluster = Controller(1, 2, 3, 4)
    cluster.create(2, 3)
    reassign(cluster, 4, 3)
    assert cluster.propose(2, 2, 3, 4).error_code == 108
    assert (cluster.partition.leader, cluster.partition.replicas, cluster.partition.isr) == (4, (4, 3), (3, 4))


def test_where_more_are_removed_than_added_all_that_stay_must_be_in_sync() -> None:
    cluster = Controller(1, 2, 3, 4)
    cluster.create(2, 3, 1)
    reassign(cluster, 2, 4)
    cluster.propose(2, 3, 2, 1)
    assert cluster.partition.removing_replicas == (1, 3)
    cluster.propose(2, 2, 1)
    assert cluster.partition.removing_replicas == (1, 3)
    cluster.propose(2, 2, 1, 4)
    assert (cluster.partition.removing_replicas, cluster.partition.replicas) == ((), (2, 4))


def test_replicas_are_removed_at_once_and_a_new_epoch_begins() -> None:
    cluster = Controller(1, 2, 3)
    topic_id = cluster.create(2, 3, 1)
    reassign(cluster, 2, 3)
    directories = (directory(2), directory(3))
    gone = PartitionChangeRecord(0, topic_id, isr=(2, 3), leader=2, replicas=(2, 3), directories=directories)
    assert cluster.last == (gone,)
    assert cluster.partition.leader_epoch == 1


# leaders


def test_leadership_goes_back_to_preferred_replicas_by_itself() -> None:
    cluster = Controller(1, 2)
    topic_id = cluster.create(2, 1)
    cluster.beat(2, want_fence=True)
    cluster.beat(2)
    cluster.propose(1, 1, 2)
    assert cluster.partition.leader == 1
    while cluster.now_ms < 300_000 - SESSION_MS:
        assert cluster.wait(SESSION_MS - 1) == []
        cluster.beat(2)
    assert cluster.wait(SESSION_MS - 1) == [PartitionChangeRecord(0, topic_id, leader=2)]


@pytest.mark.parametrize("scope", ["topic", "node"])
def test_an_unclean_election_needs_leave(scope: str) -> None:
    name, settings = "unclean_leader_election_enable", {"unclean_leader_election_interval_ms": "1000"}
    allowed = Controller(**settings, **({name: "true"} if scope == "node" else {}))
    forbidden = Controller(**settings)
    for cluster in (allowed, forbidden):
        cluster.start(1, 2, 3)
        topic_id = cluster.create(2, 3, min_insync_replicas="1", **({name: "true"} if cluster is allowed else {}))
        cluster.propose(2, 2)
        cluster.beat(2, want_fence=True)
        cluster.wait(1_000)
        assert cluster.partition.leader == (3 if cluster is allowed else -1)
    record = PartitionChangeRecord(
        0, topic_id, isr=(3,), leader=3, leader_recovery_state=1, eligible_leader_replicas=None, last_known_elr=None
    )
    assert msgspec.structs.replace(record, topic_id=allowed.state.image.topics_by_name["t"].topic_id) in allowed.log
