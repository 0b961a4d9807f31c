"""Quotas of users, client ids and addresses: described, set, removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from moldau.core.controller import client_quotas
from moldau.errors import ERROR_CODES, KafkaError, kafka_error
from moldau.shell.network.context import CLUSTER_NAME, Operation, RequestContext, Resource
from moldau.wire.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

CLUSTER_AUTHORIZATION_FAILED = ERROR_CODES["CLUSTER_AUTHORIZATION_FAILED"]


async def act_describe_client_quotas(
    broker: Broker, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Versions 0-1. KIP-546; v1 flexible and quotas of addresses (KIP-612).

    Ignored on purpose: nothing.
    """
    if context.authorize(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, CLUSTER_NAME):
        response = client_quotas.describe_client_quotas(broker.image, request)
    else:
        code, message = CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."
        response = DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)
    return msgspec.structs.replace(response, throttle_time_ms=context.throttle())


async def act_alter_client_quotas(
    broker: Broker, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Versions 0-1. KIP-546; v1 flexible and quotas of addresses (KIP-612).

    In force here before the answer. NaN is no quota and gets 42. Ignored on purpose: names of hosts other than
    "localhost", which are not looked up and get 42.
    """
    if not context.authorize(Operation.ALTER_CONFIGS, Resource.CLUSTER, CLUSTER_NAME):
        error = kafka_error("CLUSTER_AUTHORIZATION_FAILED", "Cluster authorization failed.")
        return msgspec.structs.replace(client_quotas.refused(request, error), throttle_time_ms=context.throttle())

    try:
        response: AlterClientQuotasResponse = await context.wait(broker.controller.submit(request))
    except KafkaError as error:
        response = client_quotas.refused(request, error)
    return msgspec.structs.replace(response, throttle_time_ms=context.throttle())
