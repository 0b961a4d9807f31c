"""What every handler must have, from the first one on: versions, KIPs, authorization, throttle, metric."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from typing import Any

import msgspec
import pytest

from moldau.shell.broker.handlers.table import handler_specs
from moldau.shell.network.context import RequestContext
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey
from moldau.wire.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from moldau.wire.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    ListConfigResourcesRequest,
)
from moldau.wire.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)
from moldau.wire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.groups_classic import DescribeGroupsRequest, HeartbeatRequest
from moldau.wire.protocol.messages.leader_epochs import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from moldau.wire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.protocol.messages.offsets import OffsetCommitRequest
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.protocol.messages.producer_ids import (
    DescribeProducersRequest,
    DescribeProducersTopic,
    InitProducerIdRequest,
)
from moldau.wire.protocol.messages.scram import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from moldau.wire.protocol.messages.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest

SPECS = handler_specs()
HANDLERS = "moldau.shell.broker.handlers."
EXEMPT_FROM_AUTHORIZATION = {int(ApiKey.API_VERSIONS)}


def handler_of(key: int) -> Any:
    spec = SPECS[key]
    return getattr(importlib.import_module(spec.module), spec.function)


def test_every_served_api_has_a_handler() -> None:
    assert sorted(SPECS) == sorted(int(key) for key in API_VERSIONS)


@pytest.mark.parametrize("key", sorted(SPECS))
def test_a_handler_opens_with_its_versions_and_kips(key: int) -> None:
    spec = SPECS[key]
    doc = inspect.getdoc(handler_of(key)) or ""
    versions = re.match(r"Versions (\d+)-(\d+)\. ", doc)
    assert versions, f"{spec.name}: the docstring does not open with its versions"
    assert [int(text) for text in versions.groups()] == [spec.min_version, spec.max_version]
    assert re.search(r"KIP-\d+", doc), f"{spec.name}: no KIP is named"
    assert re.search(r"[Ii]gnored on purpose", doc), f"{spec.name}: what is ignored is not said"


def functions_of(module_name: str) -> dict[str, ast.AST]:
    """The functions and classes of a module of handlers, and those that it imports from another one."""
    found: dict[str, ast.AST] = {}
    for node in ast.parse(inspect.getsource(importlib.import_module(module_name))).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(HANDLERS):
            found |= functions_of(node.module or "")
    return found


def reachable_source(key: int) -> str:
    """The handler and every function of the handlers that it names, directly or through others."""
    functions = functions_of(SPECS[key].module)
    waiting, reached = [SPECS[key].function], dict[str, str]()
    while waiting:
        name = waiting.pop()
        if name in functions and name not in reached:
            reached[name] = ast.unparse(functions[name])
            waiting += [node.id for node in ast.walk(functions[name]) if isinstance(node, ast.Name)]
    return "\n".join(reached.values())


@pytest.mark.parametrize("key", sorted(SPECS))
def test_a_handler_authorizes_and_throttles(key: int) -> None:
    source = reachable_source(key)
    if key not in EXEMPT_FROM_AUTHORIZATION:
        assert "context.authorize(" in source, SPECS[key].name
    assert "context.throttle(" in source, SPECS[key].name


@pytest.mark.asyncio
async def test_every_handler_has_a_metric(start_node: Any) -> None:
    node = await start_node()
    assert sorted(node.node.dispatcher.request_counts()) == sorted(spec.name for spec in SPECS.values())


@pytest.mark.parametrize("key", sorted(SPECS))
def test_a_handler_is_one_coroutine_function_and_only_produce_and_fetch_are_raw(key: int) -> None:
    spec = SPECS[key]
    is_raw = key in (int(ApiKey.PRODUCE), int(ApiKey.FETCH))
    assert inspect.iscoroutinefunction(handler_of(key)) != is_raw, spec.name
    assert bool(spec.function_for_many) == is_raw
    if is_raw:
        assert inspect.iscoroutinefunction(getattr(importlib.import_module(spec.module), spec.function_for_many))
    else:
        # in its first step it runs in no task: it waits for what the broker offers, and for its pauses
        assert "asyncio" not in vars(importlib.import_module(spec.module)), spec.name


def test_the_context_offers_what_handlers_need() -> None:
    for name in ("principal", "authorize", "throttle", "listener_name", "client_address", "local_address", "pause"):
        assert hasattr(RequestContext, name)


class DenyAll:
    def authorize(self, principal: str, host: str, operation: int, resource_type: int, name: str | bytes) -> bool:
        return False


PRODUCE = ProduceRequest(acks=1, topic_data=(TopicProduceData(name="t", partition_data=(PartitionProduceData(0),)),))
FETCH = FetchRequest(topics=(FetchTopic(topic="t", partitions=(FetchPartition(0, partition_max_bytes=10),)),))
LIST = ListOffsetsRequest(topics=(ListOffsetsTopic("t", (ListOffsetsPartition(0),)),))

DELETE_RECORDS = DeleteRecordsRequest((DeleteRecordsTopic("t", (DeleteRecordsPartition(0),)),))
LEADER_EPOCH = OffsetForLeaderEpochRequest(-1, (OffsetForLeaderTopic("t", (OffsetForLeaderPartition(0),)),))
DESCRIBE_PRODUCERS = DescribeProducersRequest((DescribeProducersTopic("t", (0,)),))

CREATE_ACLS = CreateAclsRequest((AclCreation(2, "t", 3, "User:a", "*", 3, 3),))
DELETE_ACLS = DeleteAclsRequest((DeleteAclsFilter(2, "t", 3, None, None, 3, 3),))
ALTER_SCRAM = AlterUserScramCredentialsRequest((ScramCredentialDeletion("u", 1),))

DESCRIBE_CONFIGS = DescribeConfigsRequest((DescribeConfigsResource(2, "t"),))
ALTER_CONFIGS = AlterConfigsRequest((AlterConfigsResource(4, "1"),))
CHANGE_CONFIGS = IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(32, "g"),))


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("key", "version", "request_message", "path", "code"),
    [
        (ApiKey.PRODUCE, 9, PRODUCE, "responses.0.partition_responses.0.error_code", 29),
        (ApiKey.FETCH, 12, FETCH, "responses.0.partitions.0.error_code", 29),
        (ApiKey.LIST_OFFSETS, 7, LIST, "topics.0.partitions.0.error_code", 29),
        (ApiKey.METADATA, 9, MetadataRequest(topics=(MetadataRequestTopic(name="t"),)), "topics.0.error_code", 29),
        (ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=(CreatableTopic("n", 1, 1),)), "topics.0.error_code", 29),
        (ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=("t",)), "responses.0.error_code", 29),
        (ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id=None), "error_code", 31),
        (ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id="x"), "error_code", 53),
        (ApiKey.HEARTBEAT, 4, HeartbeatRequest(group_id="g"), "error_code", 30),
        (ApiKey.DELETE_RECORDS, 2, DELETE_RECORDS, "topics.0.partitions.0.error_code", 29),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, LEADER_EPOCH, "topics.0.partitions.0.error_code", 29),
        (ApiKey.DESCRIBE_PRODUCERS, 0, DESCRIBE_PRODUCERS, "topics.0.partitions.0.error_code", 29),
        (ApiKey.DESCRIBE_CONFIGS, 4, DESCRIBE_CONFIGS, "results.0.error_code", 29),
        (ApiKey.ALTER_CONFIGS, 2, ALTER_CONFIGS, "responses.0.error_code", 31),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, CHANGE_CONFIGS, "responses.0.error_code", 30),
        (ApiKey.LIST_CONFIG_RESOURCES, 1, ListConfigResourcesRequest(), "error_code", 31),
        (ApiKey.DESCRIBE_ACLS, 3, DescribeAclsRequest(2, None, 3, None, None, 3, 3), "error_code", 31),
        (ApiKey.CREATE_ACLS, 3, CREATE_ACLS, "results.0.error_code", 31),
        (ApiKey.DELETE_ACLS, 3, DELETE_ACLS, "filter_results.0.error_code", 31),
        (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, DescribeUserScramCredentialsRequest(None), "error_code", 31),
        (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, ALTER_SCRAM, "results.0.error_code", 31),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, ConsumerGroupHeartbeatRequest("g"), "error_code", 30),
        (ApiKey.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest(("g",)), "groups.0.error_code", 30),
        (ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups=("g",)), "groups.0.error_code", 30),
    ],
)
async def test_who_may_not_is_refused(
    start_node: Any, key: ApiKey, version: int, request_message: msgspec.Struct, path: str, code: int
) -> None:
    node = await start_node()
    await node.create_topic("t")
    node.node.dispatcher.authorizer = DenyAll()
    answer: Any = await node.connect().ask(key, version, request_message)
    for part in path.split("."):
        answer = answer[int(part)] if part.isdigit() else getattr(answer, part)
    assert answer == code


@pytest.mark.asyncio
async def test_lists_show_only_what_may_be_seen(start_node: Any) -> None:
    node = await start_node()
    await node.create_topic("t")
    node.node.dispatcher.authorizer = DenyAll()
    assert (await node.connect().ask(ApiKey.METADATA, 9, MetadataRequest(topics=None))).topics == ()


@pytest.mark.asyncio
async def test_a_refused_commit_says_so_for_each_partition(start_node: Any) -> None:
    node = await start_node()
    node.node.dispatcher.authorizer = DenyAll()
    assert (await node.connect().ask(ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest(group_id="g"))).topics == ()
