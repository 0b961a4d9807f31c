"""A connection to a cluster for administration: any broker, a named one, or a group's coordinator."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec

from moldau.client.admin.error_texts import error_of
from moldau.client.blocking.cluster import ClusterClient
from moldau.client.blocking.connection import ClientConnection
from moldau.client.blocking.offsets import ask_for_coordinator
from moldau.client.protocol.access import ClusterAccess
from moldau.client.protocol.offsets import GROUP_KEY
from moldau.client.protocol.retries import NO_SUCH_TOPIC
from moldau.client.protocol.sasl import Login
from moldau.errors import ERROR_CODES, KafkaError, kafka_error
from moldau.ports import Dialer
from moldau.types import TopicPartition
from moldau.wire.protocol.error_codes import each_error_code
from moldau.wire.protocol.messages.cluster import DescribeClusterRequest
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataResponseBroker
from moldau.wire.protocol.schema import Request

CONTROLLERS = 2
"""The endpoint type of controllers (KIP-919)."""
NOT_CONTROLLER = ERROR_CODES["NOT_CONTROLLER"]
COORDINATOR_ON_ITS_WAY = tuple(
    ERROR_CODES[name] for name in ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")
)
"""The error codes for a coordinator that will answer later, or on another broker."""
ONLY_BROKERS = "This Admin API is not yet supported when communicating directly with the controller quorum."
MOST_RETRY_MS = 15_000
"""The longest wait for a coordinator or leader that moves or loads, unless the access has less time."""
_MORE_THAN_THE_BROKER_MS = 5_000

ResponseType = TypeVar("ResponseType", bound=msgspec.Struct)
Result = TypeVar("Result")


class Cluster(msgspec.Struct, frozen=True):
    """The brokers of a cluster and its controller."""

    cluster_id: str
    controller_id: int
    brokers: tuple[MetadataResponseBroker, ...]
    """In the order of their ids."""

    def broker_ids(self) -> list[int]:
        """The ids of the brokers, in ascending order."""
        return [broker.node_id for broker in self.brokers]


class ClusterAdmin:
    """Connects on first use. Every method raises KafkaError; NETWORK_EXCEPTION at once if no broker listens."""

    def __init__(
        self,
        dialer: Dialer,
        access: ClusterAccess,
        *,
        answer_timeout_ms: int | None = None,
        credentials: Login | None = None,
    ) -> None:
        """`answer_timeout_ms`: the longest wait for a response; None is longer than the broker's own time limit, which
        is the `request_timeout_ms` of the access. `credentials`: see ClusterClient."""
        self.request_timeout_ms = access.request_timeout_ms
        own = msgspec.structs.replace(
            access,
            request_timeout_ms=answer_timeout_ms or access.request_timeout_ms + _MORE_THAN_THE_BROKER_MS,
            retry_timeout_ms=min(access.retry_timeout_ms, MOST_RETRY_MS),
        )
        self.client = ClusterClient(dialer, own, credentials=credentials)

    def __enter__(self) -> ClusterAdmin:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def ask(self, request: Request[ResponseType]) -> ResponseType:
        """Sends the request to any broker, which forwards it to the controller if necessary."""
        return self.client.any_connection().request(request)

    def ask_broker(self, broker_id: int, request: Request[ResponseType]) -> ResponseType:
        """Sends the request to this broker. Raises BROKER_NOT_AVAILABLE for an unknown broker, and the errors of the
        request."""
        return self.connection_to(broker_id).request(request)

    def ask_coordinator(self, group_id: str, request: Request[ResponseType]) -> ResponseType:
        """Sends the request to the coordinator of a group. Waits while the coordinator moves or loads the group, and
        looks it up again after a move. Does not wait for an unreachable cluster."""

        def ask() -> ResponseType:
            _, connection = self.coordinator(group_id)
            response = connection.request(request)
            for code in each_error_code(response):
                if code in COORDINATOR_ON_ITS_WAY:
                    raise error_of(code)
            return response

        return self.retry(ask)

    def ask_leader(self, topic_partition: TopicPartition, request: Request[ResponseType]) -> ResponseType:
        """Sends the request to the leader of a partition. Looks the leader up again after a move or a failure. Does not
        wait for a missing partition or an unreachable cluster. Raises the first error in the response."""
        self.client.any_connection()
        backoff = self.client.backoff()
        while True:
            try:
                leader_id = self.client.leader_of(topic_partition).leader_id
                response = self.client.connection_to(leader_id).request(request)
                for code in each_error_code(response):
                    if code:
                        raise error_of(code)
                return response
            except KafkaError as error:
                if not error.is_retriable or error.code in NO_SUCH_TOPIC:
                    raise
                self.client.forget(topic_partition.topic)
                backoff.wait(error)

    def coordinator(self, key: str, key_type: int = GROUP_KEY) -> tuple[int, ClientConnection]:
        """The coordinator of a group (or of a transactional id, by `key_type`), and a connection to it. For use inside
        `retry`.

        Connects to the address in the response, without a lookup in the metadata. For a while FindCoordinator names a
        broker that has just died: failing to connect to it is retriable, but BROKER_NOT_AVAILABLE is not.
        """
        response = ask_for_coordinator(self.client, key, key_type)
        if response.error_code:
            raise error_of(response.error_code, response.error_message)
        return response.node_id, self.client.connection_to(response.node_id)

    def ask_coordinators_of(self, broker_id: int, request: Request[ResponseType]) -> ResponseType:
        """As `ask_broker`, for a list from all coordinators of the broker. Waits while one of them loads. An
        unreachable broker is an error at once."""
        backoff = self.client.backoff()
        while True:
            response = self.ask_broker(broker_id, request)
            code = next(each_error_code(response), 0)
            if code not in COORDINATOR_ON_ITS_WAY:
                return response
            backoff.wait(error_of(code))

    def retry(self, action: Callable[[], Result]) -> Result:
        """As `retry` of a ClusterClient, but does not wait if no broker listens at all."""
        self.client.any_connection()
        return self.client.retry(action)

    def connection_to(self, broker_id: int) -> ClientConnection:
        """A connection to this broker, made if needed. Raises BROKER_NOT_AVAILABLE for an unknown broker."""
        if broker_id not in self.cluster().broker_ids():
            raise kafka_error("BROKER_NOT_AVAILABLE", f"there is no broker {broker_id}")
        return self.client.connection_to(broker_id)

    def cluster(self) -> Cluster:
        """The brokers as one of them lists them. Later requests can be sent to each of them."""
        response = self.ask(MetadataRequest(topics=()))
        for broker in response.brokers:
            self.client.remember_address(broker.node_id, broker.host, broker.port)
        brokers = sorted(response.brokers, key=lambda broker: broker.node_id)
        return Cluster(response.cluster_id or "", response.controller_id, tuple(brokers))


class ControllerAdmin(ClusterAdmin):
    """As ClusterAdmin, through the listeners of controllers. Sends requests to the active controller (KIP-919)."""

    def ask(self, request: Request[ResponseType]) -> ResponseType:
        """Raises NOT_CONTROLLER if no controller becomes active in time, and UNSUPPORTED_ENDPOINT_TYPE for an API that
        only brokers serve."""
        try:
            return self.retry(partial(self._ask_active, request))
        except KafkaError as error:
            if error.name == "UNSUPPORTED_VERSION":
                raise kafka_error("UNSUPPORTED_ENDPOINT_TYPE", ONLY_BROKERS) from error
            raise

    def _ask_active(self, request: Request[ResponseType]) -> ResponseType:
        response = self._active().request(request)
        if NOT_CONTROLLER in each_error_code(response):  # it resigned in the meantime
            raise kafka_error("NOT_CONTROLLER")
        return response

    def cluster(self) -> Cluster:
        """The controllers as one of them lists them. Later requests can be sent to each of them."""
        request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
        response = self.client.any_connection().request(request)
        if response.error_code:
            raise kafka_error(response.error_code, response.error_message)
        for row in response.brokers:
            self.client.remember_address(row.broker_id, row.host, row.port)
        nodes = (MetadataResponseBroker(row.broker_id, row.host, row.port, row.rack) for row in response.brokers)
        return Cluster(response.cluster_id, response.controller_id, tuple(nodes))

    def _active(self) -> ClientConnection:
        cluster = self.cluster()
        if cluster.controller_id not in cluster.broker_ids():
            raise kafka_error("NOT_CONTROLLER", "no active controller is known")
        return self.client.connection_to(cluster.controller_id)


def is_unreachable(error: KafkaError) -> bool:
    """Whether the error means that no broker was reached at all."""
    return error.name == "NETWORK_EXCEPTION" and str(error).startswith("cannot reach")
