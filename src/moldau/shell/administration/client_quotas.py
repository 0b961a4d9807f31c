"""Quotas of users, client ids and addresses: described, set, removed."""

from __future__ import annotations

import msgspec

from moldau.core.controller import client_quotas
from moldau.errors import KafkaError
from moldau.shell.administration.asking import Administered, ask_controller
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import ALTER_CONFIGS_CLUSTER, DESCRIBE_CONFIGS_CLUSTER
from moldau.wire.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)


async def act_describe_client_quotas(
    node: Administered, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Versions 0-1. KIP-546; v1 flexible and quotas of addresses (KIP-612).

    Ignored on purpose: nothing.
    """
    try:
        context.check(DESCRIBE_CONFIGS_CLUSTER)
        response = await context.finish(client_quotas.describe_client_quotas(node.image, request))
    except KafkaError as error:
        response = DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    return msgspec.structs.replace(response, throttle_time_ms=context.throttle())


async def act_alter_client_quotas(
    node: Administered, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Versions 0-1. KIP-546; v1 flexible and quotas of addresses (KIP-612).

    In force here before the answer. NaN is rejected with 42. Ignored on purpose: host names other than "localhost",
    which are not resolved and get 42.
    """
    return await ask_controller(node, context, ALTER_CONFIGS_CLUSTER, request, client_quotas.refused)
