"""A broker that gets step after step, and the time that it needs to see its own changes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from moldau.client.protocol.sasl import Credentials
from moldau.wire.protocol.acls import Acl, AclFilter
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.delegation_tokens import DescribeDelegationTokenRequest
from moldau.wire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from moldau.wire.protocol.messages.transactions import DescribeTransactionsRequest
from tests.differential.answers import plain
from tests.differential.step import Bindings, Step
from tests.differential.steps import trimmed
from tests.support.wire import Closed, RawConnection, log_in

READY_S = 60.0
TRANSACTION = 1
OWN = "moldau"
"""The client of all other requests: a super user, if users exist."""
OUR_SETTINGS = {
    "node.id": "1",
    # the test kit checks every second for expiry; Apache Kafka every ten minutes
    "offsets.retention.check.interval.ms": "600000",
    # with the test kit's four, groups share a partition that are in two of Apache Kafka's: each adds the other's
    "offsets.topic.num.partitions": "50",
}
LONG_SETTLE_S = 1.0
"""The pause before a read is repeated: Apache Kafka's broker half may take that long to see a change."""


class Broker:
    """`settle_s`: Apache Kafka answers a change before its broker half knows it; Moldau does not. `logins`: of the
    users that log in; OWN among them may do everything."""

    def __init__(
        self, bootstrap_servers: str, *, settle_s: float = 0.0, logins: Mapping[str, Credentials] | None = None
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.settle_s = settle_s
        self._logins = logins or {}
        self._connections: dict[str, RawConnection] = {}

    @property
    def _connection(self) -> RawConnection:
        return self._connection_of(OWN)

    def _connection_of(self, user: str) -> RawConnection:
        if user not in self._connections:
            connection = RawConnection(self.bootstrap_servers)
            if user in self._logins:
                log_in(connection, self._logins[user])
            self._connections[user] = connection
        return self._connections[user]

    def close(self) -> None:
        for connection in self._connections.values():
            connection.socket.close()

    def ask(self, request: Any, version: int) -> Any:
        """As OWN."""
        return self._connection.ask(request, version, client_id="differential")

    def settle(self) -> None:
        time.sleep(LONG_SETTLE_S)

    def give(self, acls: tuple[Acl, ...]) -> None:
        """Deletes all ACLs, and creates these; returns when the broker knows it."""
        everything = DeleteAclsFilter(*msgspec.structs.astuple(AclFilter()))
        assert self.ask(DeleteAclsRequest((everything,)), 3).filter_results[0].error_code == 0
        self._wait_for_acls(0)
        made = tuple(AclCreation(*msgspec.structs.astuple(acl)) for acl in acls)
        assert not any(one.error_code for one in self.ask(CreateAclsRequest(made), 3).results)
        self._wait_for_acls(len(acls))
        # Apache Kafka's controller decides about forwarded requests, and learns an ACL separately
        time.sleep(self.settle_s)

    def _wait_for_acls(self, count: int) -> None:
        request = DescribeAclsRequest(*msgspec.structs.astuple(AclFilter()))
        end = time.monotonic() + READY_S
        while (told := sum(len(one.acls) for one in self.ask(request, 3).resources)) != count:
            assert time.monotonic() < end, f"{told} of {count} ACLs"
            time.sleep(0.005)

    def wait_for_coordinator(self, *groups: str) -> None:
        end = time.monotonic() + READY_S
        request = FindCoordinatorRequest(coordinator_keys=groups)
        while any(one.error_code for one in self._connection.ask(request, 6).coordinators):
            assert time.monotonic() < end, "no coordinator"
            time.sleep(0.1)
        request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=groups)
        while any(one.error_code for one in self._connection.ask(request, 6).coordinators):
            assert time.monotonic() < end, "no transaction coordinator"
            time.sleep(0.1)
        # Apache Kafka asks its controller for the first block of producer ids, and rejects requests until then
        while self._connection.ask(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4
        ).error_code:
            assert time.monotonic() < end, "no producer ids"
            time.sleep(0.1)

    def wait_for_tokens(self, expiries: Mapping[str, int | None]) -> None:
        """Waits until the broker describes the delegation tokens of its responses, by id; None: deleted. Apache Kafka
        also renews and expires tokens by its earlier state."""
        end = time.monotonic() + READY_S
        while True:
            known = {
                one.token_id: one.expiry_timestamp for one in self.ask(DescribeDelegationTokenRequest(None), 3).tokens
            }
            if all(known.get(token_id) == expiry for token_id, expiry in expiries.items()):
                break
            assert time.monotonic() < end, f"{expiries} was answered, and {known} is described"
            time.sleep(0.01)

    def take(self, step: Step, bindings: Bindings, prefix: str, user: str = OWN) -> Any:
        """The response in plain values, or the string "closed"."""
        request = trimmed(step.make(bindings), step.version)
        try:
            answer = self._connection_of(user).ask(request, step.version, client_id="differential")
        except Closed:
            self._connections.pop(user).socket.close()
            return "closed"
        if step.learn is not None:
            step.learn(bindings, answer)
        if step.transactional_ids:
            self._wait_for_markers(step.transactional_ids)
        if step.changes:
            time.sleep(self.settle_s)
            expected = step.expected(answer)
            for name in step.names:
                self._learn_topic(name, expected, bindings)
        return {"api": ApiKey(step.key).name, "version": step.version, **plain(answer, step.version, bindings, prefix)}

    def _wait_for_markers(self, transactional_ids: tuple[str, ...]) -> None:
        """Waits until no transaction is about to end: a coordinator answers before it has written the markers."""
        end = time.monotonic() + READY_S
        request = DescribeTransactionsRequest(transactional_ids)
        while any(
            row.transaction_state.startswith("Prepare")
            for row in self._connection.ask(request, 0, client_id="differential").transaction_states
        ):
            assert time.monotonic() < end, "markers are not written"
            time.sleep(0.01)

    def _learn_topic(self, name: str, expected: int | None, bindings: Bindings) -> None:
        """Its id, once the broker half agrees with the controller's response and leads the partitions."""
        request = MetadataRequest((MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
        end = time.monotonic() + READY_S
        while True:
            (topic,) = self._connection.ask(request, 12, client_id="differential").topics
            count = len(topic.partitions)
            if expected in (None, count) and self._leads(name, count):
                break
            assert time.monotonic() < end, f"{name} has {count} partitions, {expected} were answered"
        if topic.error_code == 0:
            bindings.values[f"topic:{name}"] = topic.topic_id

    def _leads(self, name: str, count: int) -> bool:
        """Whether all partitions answer: Apache Kafka knows a topic a moment before it leads it."""
        items = tuple(ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(count))
        request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=name, partitions=items),))
        answer = self._connection.ask(request, 5, client_id="differential")
        return all(one.error_code == 0 for topic in answer.topics for one in topic.partitions)
