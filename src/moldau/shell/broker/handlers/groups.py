"""Asks the coordinator of a group for the handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.core.groups.refusals import refusal
from moldau.core.groups.requests import GroupMessage, GroupRequest, GroupResponse
from moldau.shell.network.context import RequestContext
from moldau.shell.network.rights import Right

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker


def group_request(context: RequestContext, message: GroupMessage) -> GroupRequest:
    """`message` with the version, the client id and the address of the client."""
    return GroupRequest(message, context.api_version, context.client_id, context.session.client_address)


async def ask_group(
    broker: Broker, context: RequestContext, right: Right, group_id: str, message: GroupMessage
) -> GroupResponse:
    """The answer of the group's coordinator, or an error if the client lacks this right to the group."""
    asked = group_request(context, message)
    if not context.authorize(right, group_id):
        return await context.finish(refusal(asked, right.refusal))
    return await context.wait(broker.coordination.groups.ask(group_id, asked))
