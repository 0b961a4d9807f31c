"""SCRAM credentials of users: described, set, removed."""

from __future__ import annotations

import msgspec

from moldau.core.controller import scram
from moldau.errors import KafkaError
from moldau.shell.administration.asking import Administered, ask_controller
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import ALTER_CLUSTER, DESCRIBE_CLUSTER
from moldau.wire.protocol.messages.scram import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)


async def act_describe_user_scram_credentials(
    node: Administered, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Versions 0-0. KIP-554. Includes credentials that Apache Kafka wrote. Ignored on purpose: nothing."""
    try:
        context.check(DESCRIBE_CLUSTER)
        kept = node.image.logins.scram_credentials()
        response = await context.finish(scram.describe_user_scram_credentials(kept, request))
    except KafkaError as error:
        response = DescribeUserScramCredentialsResponse(error_code=error.code, error_message=error.message)
    return msgspec.structs.replace(response, throttle_time_ms=context.throttle())


async def act_alter_user_scram_credentials(
    node: Administered, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Versions 0-0. KIP-554. Stored in the metadata log, where Apache Kafka finds them too.

    Ignored on purpose: nothing.
    """
    return await ask_controller(node, context, ALTER_CLUSTER, request, scram.refused)
