"""ACLs created, described, deleted, and in force, on a node with the authorizer. Responses are those of Kafka 4.4.0."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from moldau.core.authorization.settings import STANDARD_AUTHORIZER
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.wire.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.acls import (
    AclCreation,
    AclDescription,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeAclsResource,
)
from moldau.wire.protocol.messages.cluster import DescribeClusterRequest
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest

pytestmark = pytest.mark.asyncio

TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
LITERAL, PREFIXED = AclPatternType.LITERAL, AclPatternType.PREFIXED
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
ALL, READ, WRITE, DESCRIBE = AclOperation.ALL, AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
ANONYMOUS = "User:ANONYMOUS"
EVERYTHING = DescribeAclsRequest(1, None, 1, None, None, 1, 1)


def acl(**changes: Any) -> AclCreation:
    found = AclCreation(int(TOPIC), "t", int(LITERAL), "User:ann", "*", int(READ), int(ALLOW))
    return msgspec.structs.replace(found, **changes)


async def create(client: Any, *acls: AclCreation) -> list[tuple[int, str | None]]:
    answer = await client.ask(ApiKey.CREATE_ACLS, 3, CreateAclsRequest(acls))
    return [(result.error_code, result.error_message) for result in answer.results]


async def delete(client: Any, *filters: DeleteAclsFilter) -> list[tuple[int, str | None, list[str]]]:
    answer = await client.ask(ApiKey.DELETE_ACLS, 3, DeleteAclsRequest(filters))
    return [
        (result.error_code, result.error_message, [each.resource_name for each in result.matching_acls])
        for result in answer.filter_results
    ]


async def described(client: Any, request: DescribeAclsRequest = EVERYTHING) -> tuple[DescribeAclsResource, ...]:
    answer = await client.ask(ApiKey.DESCRIBE_ACLS, 3, request)
    assert (answer.error_code, answer.error_message) == (0, "")
    return answer.resources


async def start_super(start_node: Any, disk: MemoryDisk | None = None) -> Any:
    """Every client is a super user."""
    return await start_node({"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": ANONYMOUS}, disk=disk)


async def start_with(start_node: Any, *acls: AclCreation, settings: dict[str, str] | None = None) -> Any:
    """A node with these ACLs, the topics `t` and `u`, and no super user."""
    disk = MemoryDisk()
    node = await start_super(start_node, disk)
    for topic in "tu":
        await node.create_topic(topic)
    if acls:
        assert await create(node.connect(), *acls) == [(0, "")] * len(acls)
    await node.node.stop()
    return await start_node({"authorizer.class.name": STANDARD_AUTHORIZER, **(settings or {})}, disk=disk)


def for_us(**changes: Any) -> AclCreation:
    return acl(principal=ANONYMOUS, **changes)


async def topics_seen(client: Any) -> list[str]:
    answer = await client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))
    return sorted(topic.name for topic in answer.topics)


async def test_acls_are_created_described_and_deleted(start_node: Any) -> None:
    client = (await start_super(start_node)).connect()
    assert await create(client, acl(), acl(operation=WRITE), acl(), acl(resource_type=GROUP)) == [(0, "")] * 4
    assert await create(client, acl()) == [(0, "")]
    described_acl = AclDescription("User:ann", "*", READ, ALLOW)
    assert await described(client) == (
        DescribeAclsResource(TOPIC, "t", LITERAL, (described_acl, AclDescription("User:ann", "*", WRITE, ALLOW))),
        DescribeAclsResource(GROUP, "t", LITERAL, (described_acl,)),
    )
    one = DeleteAclsFilter(TOPIC, "t", LITERAL, "User:ann", None, READ, 1)
    assert await delete(client, one, one) == [(0, None, ["t"]), (0, None, ["t"])]
    assert await delete(client, one) == [(0, None, [])]
    assert [len(resource.acls) for resource in await described(client)] == [1, 1]


async def test_what_no_acl_allows_is_denied_and_hidden(start_node: Any) -> None:
    client = (await start_with(start_node)).connect()
    assert await topics_seen(client) == []
    answer = await client.ask(ApiKey.DESCRIBE_ACLS, 3, EVERYTHING)
    assert (answer.error_code, answer.error_message, answer.resources) == (31, "Cluster authorization failed.", ())
    assert await create(client, acl(), acl()) == [(31, "Cluster authorization failed.")] * 2
    assert await delete(client, DeleteAclsFilter(2, None, 1, None, None, 1, 1)) == [
        (31, "Cluster authorization failed.", [])
    ]


async def test_an_acl_is_in_force_with_the_next_request(start_node: Any) -> None:
    alter = for_us(resource_type=CLUSTER, resource_name="kafka-cluster", operation=AclOperation.ALTER)
    client = (await start_with(start_node, alter, for_us())).connect()
    assert await topics_seen(client) == ["t"]
    assert await create(client, for_us(resource_name="u", operation=WRITE)) == [(0, "")]
    assert await topics_seen(client) == ["t", "u"]
    assert await create(client, for_us(permission_type=DENY, operation=DESCRIBE)) == [(0, "")]
    assert await topics_seen(client) == ["u"]
    assert await delete(client, DeleteAclsFilter(2, None, 1, ANONYMOUS, None, 1, DENY)) == [(0, None, ["t"])]
    assert await topics_seen(client) == ["t", "u"]


async def test_an_answer_names_the_operations_that_are_allowed(start_node: Any) -> None:
    client = (await start_with(start_node, for_us(), for_us(operation=AclOperation.ALTER_CONFIGS))).connect()
    request = MetadataRequest(topics=None, include_topic_authorized_operations=True)
    (topic,) = (await client.ask(ApiKey.METADATA, 12, request)).topics
    assert topic.topic_authorized_operations == 1 << READ | 1 << DESCRIBE | 1 << 10 | 1 << 11


async def test_operations_are_told_only_to_who_may_describe_the_resource(start_node: Any) -> None:
    cluster = {"resource_type": CLUSTER, "resource_name": "kafka-cluster"}
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    for operation, told in ((AclOperation.CREATE, 0), (AclOperation.ALTER, 1 << AclOperation.ALTER | 1 << DESCRIBE)):
        client = (await start_with(start_node, for_us(**cluster, operation=operation))).connect()
        assert (await client.ask(ApiKey.DESCRIBE_CLUSTER, 1, request)).cluster_authorized_operations == told


async def test_everybody_may_do_what_no_acl_is_about_where_the_setting_says_so(start_node: Any) -> None:
    settings = {"allow.everyone.if.no.acl.found": "true"}
    assert await topics_seen((await start_with(start_node, acl(), settings=settings)).connect()) == ["u"]


async def test_an_idempotent_producer_may_write_to_some_topic(start_node: Any) -> None:
    request = InitProducerIdRequest(transactional_id=None)
    for acls, code in (((), 31), ((for_us(),), 31), ((for_us(operation=WRITE),), 0)):
        client = (await start_with(start_node, *acls)).connect()
        assert (await client.ask(ApiKey.INIT_PRODUCER_ID, 4, request)).error_code == code


BAD: list[tuple[AclCreation, tuple[int, str]]] = [
    (acl(resource_type=1), (42, "Invalid resourceType ANY")),
    (acl(resource_type=77), (42, "Invalid resourceType UNKNOWN")),
    (acl(resource_pattern_type=1), (42, "Invalid patternType ANY")),
    (acl(resource_pattern_type=2), (42, "Invalid patternType MATCH")),
    (acl(resource_pattern_type=77), (42, "Invalid patternType UNKNOWN")),
    (acl(operation=1), (42, "Invalid operation ANY")),
    (acl(operation=77), (42, "Invalid operation UNKNOWN")),
    (acl(permission_type=1), (42, "Invalid permissionType ANY")),
    (acl(permission_type=-7), (42, "Invalid permissionType UNKNOWN")),
    (acl(resource_name=""), (42, "Invalid empty resource name")),
    (acl(resource_type=CLUSTER), (42, "The only valid name for the CLUSTER resource is kafka-cluster")),
    (
        acl(principal="ann"),
        (
            42,
            "Could not parse principal from `ann` (no colon is present separating the principal type from the "
            "principal name)",
        ),
    ),
    (acl(host=""), (42, "Host pattern cannot be null or empty")),
    (acl(host="10.0.0.0/8"), (35, "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher.")),
]


async def test_an_acl_that_cannot_be_is_refused_alone(start_node: Any) -> None:
    client = (await start_super(start_node)).connect()
    answers = await create(client, acl(), *(one for one, _ in BAD), acl(resource_name="u"))
    assert answers == [(0, ""), *(answer for _, answer in BAD), (0, "")]
    assert [resource.resource_name for resource in await described(client)] == ["t", "u"]


async def test_a_name_with_control_characters_is_kept_as_it_is(start_node: Any) -> None:
    client = (await start_super(start_node)).connect()
    odd = "a\x00\n\u202e\U0001f600"
    assert await create(client, acl(resource_name=odd, principal=f"User:{odd}", host="nobody's host")) == [(0, "")]
    (resource,) = await described(client)
    assert (resource.resource_name, resource.acls[0].principal) == (odd, f"User:{odd}")
    assert await delete(client, DeleteAclsFilter(2, odd, 3, None, "nobody's host", 1, 1)) == [(0, None, [odd])]


async def test_a_code_zero_ends_the_connection(start_node: Any) -> None:
    node = await start_super(start_node)
    for key, request in (
        (ApiKey.CREATE_ACLS, CreateAclsRequest((acl(operation=0),))),
        (ApiKey.DELETE_ACLS, DeleteAclsRequest((DeleteAclsFilter(2, None, 0, None, None, 1, 1),))),
        (ApiKey.DESCRIBE_ACLS, DescribeAclsRequest(0, None, 1, None, None, 1, 1)),
    ):
        client = node.connect()
        client.send(key, 3, request)
        await node.turns(20)
        assert client.wire.is_closed


async def test_a_filter_of_codes_that_nobody_knows_names_nothing_and_deletes_nothing(start_node: Any) -> None:
    client = (await start_super(start_node)).connect()
    await create(client, acl())
    assert await described(client, DescribeAclsRequest(77, None, 1, None, None, 1, 1)) == ()
    assert await described(client, DescribeAclsRequest(1, None, 1, None, None, 1, 77)) == ()
    assert await delete(
        client,
        DeleteAclsFilter(77, None, 1, None, None, 1, 1),
        DeleteAclsFilter(2, None, 1, None, None, 77, 1),
        DeleteAclsFilter(2, None, 1, None, None, 1, 1),
    ) == [(42, "Unknown patternFilter.", []), (42, "Unknown entryFilter.", []), (0, None, ["t"])]


async def test_a_match_names_each_acl_that_concerns_the_resource(start_node: Any) -> None:
    client = (await start_super(start_node)).connect()
    names = {"t": LITERAL, "*": LITERAL, "": PREFIXED, "te": PREFIXED, "tex": LITERAL, "x": PREFIXED}
    acls = [acl(resource_name=name, resource_pattern_type=kind) for name, kind in names.items() if name]
    assert await create(client, *acls, acl(resource_name="te")) == [(0, "")] * 6
    match = DescribeAclsRequest(2, "te", 2, None, None, 1, 1)
    assert [(one.resource_name, one.pattern_type) for one in await described(client, match)] == [
        ("*", LITERAL),
        ("te", PREFIXED),
        ("te", LITERAL),
    ]
    literal = DescribeAclsRequest(2, "te", 1, None, None, 1, 1)
    assert [(one.resource_name, one.pattern_type) for one in await described(client, literal)] == [
        ("te", PREFIXED),
        ("te", LITERAL),
    ]
