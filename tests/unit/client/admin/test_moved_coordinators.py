"""A request to a coordinator or controller that moves or loads is retried at its new place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from moldau.client.admin.client import ControllerAdmin
from moldau.client.admin.configs import SET, TOPIC, alter_configs
from moldau.client.admin.groups import DEAD, delete_group, delete_offsets, describe_group, list_groups, state_of
from moldau.client.admin.transactions import describe_transaction, list_transactions, terminate_transaction
from moldau.client.protocol.access import ClusterAccess
from moldau.errors import KafkaError
from moldau.types import TopicPartition
from moldau.wire.protocol.messages.cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from moldau.wire.protocol.messages.configs import (
    IncrementalAlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from moldau.wire.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
)
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest, FindCoordinatorResponse
from moldau.wire.protocol.messages.group_admin import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from moldau.wire.protocol.messages.groups_classic import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsResponse,
)
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from moldau.wire.protocol.messages.transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListedTransaction,
    ListTransactionsResponse,
)
from tests.support.scripted_brokers import ScriptedBrokers

ADDRESSES = {1: ("one", 9092), 2: ("two", 9092)}
LOADING, NOT_AVAILABLE, NOT_COORDINATOR, NOT_CONTROLLER = 14, 15, 16, 41
UNKNOWN_TOPIC, NOT_ALLOWED, NOT_SERVED, NON_EMPTY_GROUP, NOT_FOUND = 3, 30, 35, 68, 69
PARTITION = TopicPartition("t", 0)


def cluster_of(coordinator: int, answer: Callable[[Any, int], msgspec.Struct], *codes: int) -> ScriptedBrokers:
    """Broker `coordinator` coordinates; `answer` gets the request and each of the codes in turn, then 0."""
    left = iter(codes)

    def script(request: Any) -> msgspec.Struct:
        if isinstance(request, MetadataRequest):
            return MetadataResponse(brokers=tuple(MetadataResponseBroker(each, *at) for each, at in ADDRESSES.items()))
        if isinstance(request, FindCoordinatorRequest):
            return FindCoordinatorResponse(node_id=coordinator, host=ADDRESSES[coordinator][0], port=9092)
        return answer(request, next(left, 0))

    return ScriptedBrokers(dict.fromkeys(ADDRESSES.values(), script))


def deleted(request: Any, code: int) -> msgspec.Struct:
    return DeleteGroupsResponse(results=(DeletableGroupResult(group_id="g", error_code=code),))


def offsets_deleted(request: Any, code: int) -> msgspec.Struct:
    row = OffsetDeleteResponsePartition(partition_index=0, error_code=0 if code else UNKNOWN_TOPIC)
    return OffsetDeleteResponse(error_code=code, topics=(OffsetDeleteResponseTopic("t", (row,)),))


def described(request: Any, code: int) -> msgspec.Struct:
    return DescribeGroupsResponse(groups=(DescribedGroup(group_id="g", error_code=code, group_state="Empty"),))


@pytest.mark.parametrize("code", [LOADING, NOT_AVAILABLE, NOT_COORDINATOR])
def test_a_coordinator_that_is_not_ready_is_asked_again(admin_of, code):
    delete_group(admin_of(cluster_of(2, deleted, code, code)), "g")
    error, rows = delete_offsets(admin_of(cluster_of(2, offsets_deleted, code)), "g", [PARTITION])
    assert error is None
    assert [row and row.code for row in rows.values()] == [UNKNOWN_TOPIC]  # of a partition: not of the coordinator
    admin = admin_of(cluster_of(2, described, code, code))
    assert describe_group(admin, "g").coordinator_id == 2
    assert state_of(admin_of(cluster_of(2, described, code)), "g") == "Empty"


def test_a_coordinator_that_has_moved_is_looked_for_again(admin_of):
    brokers = cluster_of(1, deleted, NOT_COORDINATOR)
    first, moved = brokers.scripts[ADDRESSES[1]], cluster_of(2, deleted).scripts[ADDRESSES[2]]
    asked: list[Any] = []

    def one(request: Any) -> msgspec.Struct:
        asked.append(request)
        is_moved = any(isinstance(each, DeleteGroupsRequest) for each in asked)
        return (moved if is_moved and isinstance(request, FindCoordinatorRequest) else first)(request)

    brokers.scripts = {ADDRESSES[1]: one, ADDRESSES[2]: moved}
    delete_group(admin_of(brokers), "g")
    assert len([each for each in asked if isinstance(each, DeleteGroupsRequest)]) == 1
    assert brokers.dialled[-1] == ADDRESSES[2]


def test_a_missing_coordinator_fails_at_the_end_and_other_codes_fail_at_once(admin_of):
    brokers = cluster_of(2, deleted, *[LOADING] * 1_000)
    with pytest.raises(KafkaError, match="loading") as raised:
        delete_group(admin_of(brokers), "g")
    assert raised.value.code == LOADING
    brokers = cluster_of(2, deleted, NON_EMPTY_GROUP)
    with pytest.raises(KafkaError, match="not empty"):
        delete_group(admin_of(brokers), "g")
    assert brokers.now_ms == 0


def test_a_group_of_the_brokers_own_assignment_is_asked_for_again_too(admin_of):
    def answer(request: Any, code: int) -> msgspec.Struct:
        if isinstance(request, DescribeGroupsRequest):
            return described(request, NOT_FOUND)
        assert isinstance(request, ConsumerGroupDescribeRequest)
        return ConsumerGroupDescribeResponse(groups=(DescribedConsumerGroup(group_id="g", error_code=code),))

    # one code for each request: requests of DescribeGroups do not count
    assert describe_group(admin_of(cluster_of(2, answer, 0, LOADING)), "g").coordinator_id == 2


def of_brokers_own_assignment(*codes: int, state: str = "Stable") -> Callable[[Any, int], msgspec.Struct]:
    """A group that is not a classic one. `codes`: of each ConsumerGroupDescribe in turn, then 0; -1: its connection is
    lost."""
    left = iter(codes)

    def answer(request: Any, _: int) -> msgspec.Struct:
        if isinstance(request, DescribeGroupsRequest):
            return described(request, NOT_FOUND)
        code = next(left, 0)
        if code < 0:
            raise ConnectionResetError("it has crashed")
        return ConsumerGroupDescribeResponse(groups=(DescribedConsumerGroup(code, group_id="g", group_state=state),))

    return answer


def test_a_connection_that_is_lost_does_not_say_that_there_is_no_such_group(admin_of):
    assert state_of(admin_of(cluster_of(2, of_brokers_own_assignment(-1, -1))), "g") == "Stable"
    with pytest.raises(KafkaError, match="it has crashed") as raised:
        state_of(admin_of(cluster_of(2, of_brokers_own_assignment(*[-1] * 1_000))), "g")
    assert raised.value.name == "NETWORK_EXCEPTION"


@pytest.mark.parametrize("code", [NOT_FOUND, NOT_SERVED])
def test_a_group_that_is_neither_of_the_kinds_is_not_there(admin_of, code):
    assert state_of(admin_of(cluster_of(2, of_brokers_own_assignment(code))), "g") == DEAD


def test_a_refusal_does_not_say_that_there_is_no_such_group(admin_of):
    with pytest.raises(KafkaError, match="authorization") as raised:
        describe_group(admin_of(cluster_of(2, of_brokers_own_assignment(NOT_ALLOWED))), "g")
    assert raised.value.code == NOT_ALLOWED


def test_a_broker_that_calls_a_group_of_another_kind_dead_is_asked_for_that_kind_too(admin_of):
    of_other_kind = of_brokers_own_assignment()

    def answer(request: Any, code: int) -> msgspec.Struct:
        if isinstance(request, DescribeGroupsRequest):  # as Apache Kafka 3.9 does
            return DescribeGroupsResponse(groups=(DescribedGroup(group_id="g", group_state=DEAD),))
        return of_other_kind(request, code)

    assert state_of(admin_of(cluster_of(2, answer)), "g") == "Stable"


def test_a_coordinator_that_has_just_died_is_not_taken_for_a_broker_that_never_was(admin_of):
    """The list of brokers lacks it already, but FindCoordinator still names it."""

    def answer(request: Any, code: int) -> msgspec.Struct:
        if isinstance(request, DescribeTransactionsRequest):
            return DescribeTransactionsResponse(transaction_states=(DescribedTransaction(transactional_id="t"),))
        if isinstance(request, InitProducerIdRequest):
            return InitProducerIdResponse(producer_id=7)
        return described(request, code)

    survivor, lost = cluster_of(2, answer).scripts[ADDRESSES[1]], iter([True, True])

    def script(request: Any) -> msgspec.Struct:
        if isinstance(request, MetadataRequest):
            return MetadataResponse(brokers=(MetadataResponseBroker(1, *ADDRESSES[1]),))
        if isinstance(request, FindCoordinatorRequest) and not next(lost, False):
            return FindCoordinatorResponse(node_id=1, host=ADDRESSES[1][0], port=9092)
        return survivor(request)

    brokers = ScriptedBrokers({ADDRESSES[1]: script})
    assert describe_group(admin_of(brokers), "g").coordinator_id == 1
    lost = iter([True])
    assert describe_transaction(admin_of(brokers), "t").coordinator_id == 1
    lost = iter([True])
    terminate_transaction(admin_of(brokers), "t")


@pytest.mark.parametrize("code", [LOADING, NOT_AVAILABLE])
def test_a_broker_that_cannot_list_yet_what_its_coordinators_hold_is_asked_again(admin_of, code):
    def groups(_: Any, code: int) -> msgspec.Struct:
        return ListGroupsResponse(error_code=code, groups=() if code else (ListedGroup("g"),))

    def transactions(_: Any, code: int) -> msgspec.Struct:
        return ListTransactionsResponse(
            error_code=code, transaction_states=() if code else (ListedTransaction("t", 7, "Empty"),)
        )

    admin = admin_of(cluster_of(1, groups, code, code))
    assert [row.group_id for row in list_groups(admin, broker_ids=(1,))] == ["g"]
    admin = admin_of(cluster_of(1, transactions, code, code))
    assert [row.transactional_id for row in list_transactions(admin, broker_ids=(1,))] == ["t"]
    brokers = cluster_of(1, groups, *[code] * 1_000)
    with pytest.raises(KafkaError) as raised:
        list_groups(admin_of(brokers), broker_ids=(1,))
    assert raised.value.code == code
    assert 10_000 < brokers.now_ms <= 15_000


def test_a_broker_that_is_not_reached_to_list_its_groups_is_an_error_at_once(admin_of):
    brokers = cluster_of(1, described)
    del brokers.scripts[ADDRESSES[2]]
    with pytest.raises(KafkaError, match="cannot reach"):
        list_groups(admin_of(brokers), broker_ids=(2,))
    assert brokers.now_ms == 0


def test_a_request_to_a_resigned_controller_is_repeated_even_if_only_a_row_says_so():
    codes = iter((NOT_CONTROLLER, NOT_CONTROLLER))

    def script(request: Any) -> msgspec.Struct:
        if isinstance(request, DescribeClusterRequest):
            return DescribeClusterResponse(
                endpoint_type=2, controller_id=1, brokers=(DescribeClusterBroker(1, *ADDRESSES[1]),)
            )
        row = IncrementalAlterConfigsResourceResponse(error_code=next(codes, 0), resource_type=TOPIC, resource_name="t")
        return IncrementalAlterConfigsResponse(responses=(row,))

    brokers = ScriptedBrokers({ADDRESSES[1]: script})
    with ControllerAdmin(brokers, ClusterAccess("one:9092", client_id="test")) as admin:
        alter_configs(admin, TOPIC, "t", [(SET, "retention.ms", "1")])
    assert next(codes, None) is None
