"""The brokers of a cluster, their APIs, and unregistration."""

from __future__ import annotations

import msgspec

from moldau.client.admin.client import CONTROLLERS, ClusterAdmin, ControllerAdmin
from moldau.client.admin.error_texts import error_of
from moldau.errors import KafkaError
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.protocol.messages.cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    UnregisterBrokerRequest,
    UnregisterControllerRequest,
)

FENCED_FROM = 2
"""The first version of DescribeCluster that can name fenced brokers."""


def describe_cluster(admin: ClusterAdmin, *, with_fenced: bool = False) -> DescribeClusterResponse:
    """The cluster id and the brokers with their racks; fenced brokers only with `with_fenced`. Through controllers,
    returns the controllers instead."""
    if isinstance(admin, ControllerAdmin):
        request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
    else:
        with_fenced = with_fenced and admin.client.any_connection().version_of(ApiKey.DESCRIBE_CLUSTER) >= FENCED_FROM
        request = DescribeClusterRequest(include_fenced_brokers=with_fenced)
    answer = admin.ask(request)
    if answer.error_code:
        raise error_of(answer.error_code, answer.error_message)
    brokers = sorted(answer.brokers, key=lambda broker: broker.broker_id)
    return msgspec.structs.replace(answer, brokers=tuple(brokers))


def versions_of(admin: ClusterAdmin, broker: DescribeClusterBroker) -> dict[int, tuple[int, int]] | KafkaError:
    """The lowest and the highest version of each API that the broker serves, or the error of a broker that does not
    answer."""
    try:
        answer = admin.ask_broker(broker.broker_id, ApiVersionsRequest("moldau", "1"))
    except KafkaError as error:
        return error
    if answer.error_code:
        return error_of(answer.error_code)
    return {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}


def unregister_broker(admin: ClusterAdmin, broker_id: int) -> None:
    """Unregisters a broker that will not come back. For a broker with very many partitions, sends several requests.
    Raises KafkaError: BROKER_ID_NOT_REGISTERED, or the broker still serves."""

    def forget() -> None:
        answer = admin.ask(UnregisterBrokerRequest(broker_id))
        if answer.error_code:
            raise error_of(answer.error_code, answer.error_message)

    admin.retry(forget)


def unregister_controller(admin: ClusterAdmin, controller_id: int) -> None:
    """Unregisters a controller that will not come back. Raises KafkaError: CONTROLLER_ID_NOT_REGISTERED, the controller
    is active, or the cluster is below `metadata.version` 4.4-IV2."""
    answer = admin.ask(UnregisterControllerRequest(controller_id))
    if answer.error_code:
        raise error_of(answer.error_code, answer.error_message)
