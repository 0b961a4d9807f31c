"""SCRAM credentials of users: described, set, removed. No listener asks for them yet; Apache Kafka finds them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from moldau.core.controller import scram
from moldau.errors import ERROR_CODES, KafkaError, kafka_error
from moldau.shell.network.context import CLUSTER_NAME, Operation, RequestContext, Resource
from moldau.wire.protocol.messages.scram import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

CLUSTER_AUTHORIZATION_FAILED = ERROR_CODES["CLUSTER_AUTHORIZATION_FAILED"]


async def act_describe_user_scram_credentials(
    broker: Broker, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Versions 0-0. KIP-554. Credentials that Apache Kafka wrote are described as well. Ignored on purpose: nothing."""
    if context.authorize(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        kept = broker.controller.unserved().scram_credentials()
        response = await context.finish(scram.describe_user_scram_credentials(kept, request))
    else:
        code, message = CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."
        response = DescribeUserScramCredentialsResponse(error_code=code, error_message=message)
    return msgspec.structs.replace(response, throttle_time_ms=context.throttle())


async def act_alter_user_scram_credentials(
    broker: Broker, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Versions 0-0. KIP-554. Kept in the metadata log, and asked for by nobody until SASL is served.

    Ignored on purpose: nothing.
    """
    if not context.authorize(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        error = kafka_error("CLUSTER_AUTHORIZATION_FAILED", "Cluster authorization failed.")
        return msgspec.structs.replace(scram.refused(request, error), throttle_time_ms=context.throttle())

    try:
        response: AlterUserScramCredentialsResponse = await context.wait(broker.controller.submit(request))
    except KafkaError as error:
        response = scram.refused(request, error)
    return msgspec.structs.replace(response, throttle_time_ms=context.throttle())
