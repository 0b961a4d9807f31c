"""Requests that build on each other: a group with members, settings that are set and removed, an auto-created topic.

An interrupted scene starts again with other names.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterator
from typing import Any

import msgspec

from moldau.simulation.workloads.refusals.case import COMPACTED, LARGEST_BATCH, PLAIN, Case, Ground
from moldau.simulation.workloads.refusals.group_cases import STRANGER, commit
from moldau.simulation.workloads.refusals.settings_cases import (
    BROKER,
    CLIENT_METRICS,
    DELETE,
    GROUPS,
    NODE,
    SET,
    TOPIC,
    Change,
    alteration,
)
from moldau.wire.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterQuotaEntity,
    AlterQuotaEntry,
    AlterQuotaOperation,
    DescribeClientQuotasRequest,
    QuotaFilterComponent,
)
from moldau.wire.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from moldau.wire.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from moldau.wire.protocol.messages.groups_classic import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.protocol.messages.offsets import OffsetCommitRequestPartition
from moldau.wire.protocol.messages.scram import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from moldau.wire.protocol.messages.topics import DeleteTopicsRequest

TRANSITORY = "passing."
"""The prefix of the names of groups and topics that scenes create."""
MAX_WAITS = 200
SESSION_MS = 60_000
USER = "passing"

Steps = Generator["Case | float", Any, None]
"""Yields the next request and receives its response, or yields seconds to wait."""


class Scene(msgspec.Struct, frozen=True):
    """`begin` makes the steps from the ground and the number of the attempt."""

    name: str
    begin: Callable[[Ground, int], Steps]


def all_scenes() -> Iterator[Scene]:
    """All scenes. A seed plays each scene or leaves it out."""
    yield Scene("a living group", _living_group)
    yield Scene("a static member", _static_member)
    yield Scene("settings of a broker", _broker_settings)
    yield Scene("settings of a group", _group_settings)
    yield Scene("settings replaced", _replaced_settings)
    yield Scene("credentials", _credentials)
    yield Scene("quotas", _quotas)
    yield Scene("a topic that is asked for", _asked_for)


# -- groups


def _subscription(*topics: str) -> bytes:
    """ConsumerProtocolSubscription, version 0."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def _join(group: str, *refusals: str, versions: tuple[int, int], **fields: Any) -> Case:
    wanted = {
        "group_id": group,
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": SESSION_MS,
        "protocol_type": "consumer",
        "protocols": (JoinGroupRequestProtocol("range", _subscription(PLAIN)),),
    }
    request = JoinGroupRequest(**{**wanted, **fields})
    return Case("JoinGroup of a living group", request, refusals, versions)


def _sync(group: str, generation: int, member: str, *refusals: str, **fields: Any) -> Case:
    # v5 needs the protocol
    versions = (5, 5) if "protocol_type" in fields else (3, 4) if "group_instance_id" in fields else (0, 4)
    given = (SyncGroupRequestAssignment(member, b"assigned"),)
    request = SyncGroupRequest(group, generation, member, assignments=given, **fields)
    # a full disk may have rejected the assignment: then the members have to join again
    otherwise = None if refusals else ("REBALANCE_IN_PROGRESS",)
    return Case("SyncGroup of a living group", request, refusals, versions, otherwise)


def _beat(group: str, generation: int, member: str, *refusals: str, **fields: Any) -> Case:
    request = HeartbeatRequest(group, generation, member, **fields)
    versions = (3, 4) if fields else (0, 4)
    return Case("Heartbeat of a living group", request, refusals, versions)


def _commit(ground: Ground, group: str, generation: int, member: str, *refusals: str, **fields: Any) -> Case:
    row = OffsetCommitRequestPartition(0, 1)
    request = commit(
        group,
        PLAIN,
        ground.topic_ids[PLAIN],
        row,
        generation_id_or_member_epoch=generation,
        member_id=member,
        **fields,
    )
    versions = (7, 10) if fields else (2, 10)
    return Case("OffsetCommit to a living group", request, refusals, versions)


def _living_group(ground: Ground, attempt: int) -> Steps:
    group = f"{TRANSITORY}group.{attempt}"
    joined = yield _join(group, versions=(0, 3))
    member, generation = joined.member_id, joined.generation_id
    yield _beat(group, generation, member)
    yield _sync(group, generation + 1, member, "ILLEGAL_GENERATION")
    yield _sync(group, generation, STRANGER, "UNKNOWN_MEMBER_ID")
    other = {"protocol_type": "connect", "protocol_name": "range"}
    yield _sync(group, generation, member, "INCONSISTENT_GROUP_PROTOCOL", **other)
    yield _commit(ground, group, generation, member, "REBALANCE_IN_PROGRESS")
    synced = yield _sync(group, generation, member)
    again = yield _sync(group, generation, member)
    if again.error_code:
        return
    yield _described(group, (synced.assignment, again.assignment) == (b"assigned",) * 2)
    yield _beat(group, generation, member)
    yield _beat(group, generation + 1, member, "ILLEGAL_GENERATION")
    yield _beat(group, generation, STRANGER, "UNKNOWN_MEMBER_ID")
    yield _commit(ground, group, generation + 1, member, "ILLEGAL_GENERATION")
    yield _commit(ground, group, generation, STRANGER, "UNKNOWN_MEMBER_ID")
    yield _commit(ground, group, -1, "", "UNKNOWN_MEMBER_ID")
    yield _commit(ground, group, generation, member)
    yield from _joins_refused(group)
    rows = (OffsetDeleteRequestPartition(0),)
    topics = (OffsetDeleteRequestTopic(PLAIN, rows), OffsetDeleteRequestTopic(COMPACTED, rows))
    subscribed = ("GROUP_SUBSCRIBED_TO_TOPIC",)
    yield Case("OffsetDelete of a subscribed topic", OffsetDeleteRequest(group, topics), subscribed)
    delete = DeleteGroupsRequest((group,))
    yield Case("DeleteGroups of the living", delete, ("NON_EMPTY_GROUP",))
    yield Case("LeaveGroup", LeaveGroupRequest(group, member), versions=(0, 2))
    yield _beat(group, generation, member, "UNKNOWN_MEMBER_ID")
    yield Case("OffsetDelete of both", OffsetDeleteRequest(group, topics))
    yield Case("DeleteGroups of the empty", delete)
    yield Case("DeleteGroups again", delete, ("GROUP_ID_NOT_FOUND",))


def _joins_refused(group: str) -> Steps:
    for fields in (
        {"protocol_type": "connect"},
        {"protocols": (JoinGroupRequestProtocol("sticky", b""),)},
        {"protocols": ()},
    ):
        yield _join(group, "INCONSISTENT_GROUP_PROTOCOL", versions=(0, 3), **fields)
    yield _join(group, "UNKNOWN_MEMBER_ID", versions=(0, 9), member_id=STRANGER)


def _described(group: str, is_assigned: bool) -> Case:
    def fault(answer: Any) -> str:
        (row,) = answer.groups
        found = (row.group_state, row.protocol_data, [member.member_assignment for member in row.members])
        if not is_assigned:
            return "the member did not get what it gave itself"
        return "" if found == ("Stable", "range", [b"assigned"]) else f"{found}"

    return Case("DescribeGroups of the living", DescribeGroupsRequest((group,)), fault=fault)


def _static_member(ground: Ground, attempt: int) -> Steps:
    group = f"{TRANSITORY}static.{attempt}"
    instance = {"group_instance_id": "instance"}
    first = yield _join(group, versions=(5, 9), **instance)
    generation = first.generation_id
    synced = yield _sync(group, generation, first.member_id, **instance)
    if synced.error_code:
        return
    second = yield _join(group, versions=(5, 9), **instance)
    fenced = "FENCED_INSTANCE_ID"
    yield _beat(group, generation, first.member_id, fenced, **instance)
    yield _sync(group, generation, first.member_id, fenced, **instance)
    yield _commit(ground, group, generation, first.member_id, fenced, **instance)
    yield _join(group, fenced, versions=(5, 9), member_id=first.member_id, **instance)
    yield _beat(group, generation, second.member_id, "UNKNOWN_MEMBER_ID", group_instance_id="another")
    yield _beat(group, second.generation_id, second.member_id, **instance)
    for member, name, refusals in (
        (first.member_id, "instance", (fenced,)),
        ("", "another", ("UNKNOWN_MEMBER_ID",)),
        ("", "instance", ()),
    ):
        request = LeaveGroupRequest(group, members=(MemberIdentity(member, name),))
        yield Case("LeaveGroup of an instance", request, refusals, (3, 5))
    yield Case("DeleteGroups of the static", DeleteGroupsRequest((group,)))


# -- what is set and taken back


def _shows(kind: int, name: str, expected: dict[str, tuple[str | None, int]]) -> Case:
    """DescribeConfigs must return these values and sources."""

    def fault(answer: Any) -> str:
        found = {row.name: (row.value, row.config_source) for row in answer.results[0].configs}
        return "" if found == expected else f"expected {expected}, got {found}"

    request = DescribeConfigsRequest((DescribeConfigsResource(kind, name, tuple(expected) or ("none",)),))
    return Case(f"DescribeConfigs of {kind} {name!r}", request, fault=fault)


def _alter(kind: int, name: str, *changes: Change) -> Case:
    return alteration(f"of {kind} {name!r} {changes}", kind, name, changes)


def _broker_settings(ground: Ground, attempt: int) -> Steps:
    setting = "message.max.bytes"
    yield _alter(BROKER, NODE, (setting, DELETE, None))  # an earlier attempt may have left it set
    yield _alter(BROKER, "", (setting, SET, "2000000"))
    yield _shows(BROKER, "", {setting: ("2000000", 3)})
    yield _shows(BROKER, NODE, {setting: ("2000000", 3)})
    yield _shows(TOPIC, COMPACTED, {"max.message.bytes": ("2000000", 3)})
    yield _alter(BROKER, NODE, (setting, SET, "1500000"))
    yield _shows(BROKER, NODE, {setting: ("1500000", 2)})
    yield _shows(TOPIC, COMPACTED, {"max.message.bytes": ("1500000", 2)})
    yield _shows(TOPIC, PLAIN, {"max.message.bytes": (str(LARGEST_BATCH), 1)})
    yield _alter(BROKER, NODE, (setting, DELETE, None))
    yield _shows(BROKER, NODE, {setting: ("2000000", 3)})
    yield _alter(BROKER, "", (setting, DELETE, None))
    yield _shows(BROKER, NODE, {setting: ("1048588", 5)})
    yield _shows(BROKER, "", {})


def _group_settings(ground: Ground, attempt: int) -> Steps:
    group = f"{TRANSITORY}settings.{attempt}"
    session, reset = "consumer.session.timeout.ms", "share.auto.offset.reset"
    yield _alter(GROUPS, group, (session, SET, "50000"), (reset, SET, "earliest"))
    yield _shows(GROUPS, group, {session: ("50000", 8), reset: ("earliest", 8)})
    yield _alter(GROUPS, group, (session, DELETE, None), (reset, DELETE, None))
    yield _shows(GROUPS, group, {session: ("45000", 5), reset: ("latest", 5)})
    yield _alter(CLIENT_METRICS, group, ("interval.ms", SET, "5000"), ("match", SET, "client_id=a"))
    yield _shows(CLIENT_METRICS, group, {"interval.ms": ("5000", 7), "match": ("client_id=a", 7)})
    yield _alter(CLIENT_METRICS, group, ("interval.ms", DELETE, None), ("match", DELETE, None))
    yield _shows(CLIENT_METRICS, group, {"interval.ms": ("300000", 5)})


def _replaced_settings(ground: Ground, attempt: int) -> Steps:
    own = {"flush.messages": "1", "max.message.bytes": str(LARGEST_BATCH)}
    for more, source in (({"retention.ms": "700000000"}, 1), ({}, 5)):
        configs = tuple(AlterableConfig(*row) for row in {**own, **more}.items())
        request = AlterConfigsRequest((AlterConfigsResource(TOPIC, PLAIN, configs),))
        yield Case(f"AlterConfigs to {more}", request)
        yield _shows(TOPIC, PLAIN, {"retention.ms": (more.get("retention.ms", "604800000"), source)})
    for changes, expected in (
        ((("cleanup.policy", 2, "compact"),), ("delete,compact", 1)),
        ((("cleanup.policy", 3, "compact"),), ("delete", 1)),
        ((("cleanup.policy", DELETE, None),), ("delete", 5)),
    ):
        yield _alter(TOPIC, PLAIN, *changes)
        yield _shows(TOPIC, PLAIN, {"cleanup.policy": expected})


def _credentials(ground: Ground, attempt: int) -> Steps:
    user = f"{USER}.{attempt}"
    asked = DescribeUserScramCredentialsRequest((UserName(user),))

    def fault(answer: Any) -> str:
        found = [(row.mechanism, row.iterations) for row in answer.results[0].credential_infos]
        return "" if found == [(1, 4_096), (2, 8_192)] else f"{found}"

    for mechanism, iterations in ((1, 4_096), (2, 8_192)):
        made = ScramCredentialUpsertion(user, mechanism, iterations, b"salt", b"salted")
        yield Case("a credential", AlterUserScramCredentialsRequest(upsertions=(made,)))
    yield Case("both credentials", asked, fault=fault)
    for mechanism in (1, 2):
        gone = AlterUserScramCredentialsRequest((ScramCredentialDeletion(user, mechanism),))
        yield Case("no credential", gone)
    none = ("RESOURCE_NOT_FOUND",)
    yield Case("credentials of nobody", asked, none)


def _quotas(ground: Ground, attempt: int) -> Steps:
    user = f"{USER}.{attempt}"
    entity = (AlterQuotaEntity("user", user), AlterQuotaEntity("client-id", "x"))
    keys = ("producer_byte_rate", "request_percentage", "controller_mutation_rate")

    def alter(is_removal: bool) -> Case:
        operations = tuple(AlterQuotaOperation(key, 0.0 if is_removal else 500.0, is_removal) for key in keys)
        request = AlterClientQuotasRequest((AlterQuotaEntry(entity, operations),))
        return Case("AlterClientQuotas", request)

    def shows(expected: int, *parts: tuple[str, int, str | None], strict: bool = True) -> Case:
        def fault(answer: Any) -> str:
            found = [value.key for entry in answer.entries for value in entry.values]
            return "" if sorted(found) == sorted(keys)[:expected] else f"expected {expected} of {keys}, got {found}"

        request = DescribeClientQuotasRequest(tuple(QuotaFilterComponent(*part) for part in parts), strict)
        return Case("DescribeClientQuotas", request, fault=fault)

    yield alter(is_removal=False)
    yield shows(3, ("user", 0, user), ("client-id", 0, "x"))
    yield shows(3, ("user", 0, user), ("client-id", 2, None))
    yield shows(3, ("user", 0, user), strict=False)
    yield shows(0, ("user", 0, user))
    yield shows(0, ("user", 0, user), ("client-id", 1, None))
    yield alter(is_removal=True)
    yield shows(0, ("user", 0, user), strict=False)


# -- a topic that is made because it was asked for


def _asked_for(ground: Ground, attempt: int) -> Steps:
    """With `auto.create.topics.enable`: the first response has error 3, a later one has the topic."""
    name = f"{TRANSITORY}topic.{attempt}"
    asked = MetadataRequest((MetadataRequestTopic(name=name),))
    unknown = ("UNKNOWN_TOPIC_OR_PARTITION",)
    yield Case("Metadata of a new topic", asked, unknown, (4, 13))
    for _ in range(MAX_WAITS):
        yield 0.1
        answer = yield Case("Metadata again", asked, (), (4, 13), otherwise=unknown)
        if not answer.topics[0].error_code:
            break
    yield Case("Metadata of the topic", asked, versions=(4, 13))
    gone = DeleteTopicsRequest(topic_names=(name,), timeout_ms=5_000)
    yield Case("DeleteTopics of the topic", gone, versions=(1, 5))
