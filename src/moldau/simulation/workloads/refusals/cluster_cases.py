"""Rejected requests about the cluster, its features, producer ids, credentials and ACLs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moldau.simulation.workloads.refusals.case import Case
from moldau.wire.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.protocol.messages.cluster import (
    DescribeClusterRequest,
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumTopic,
    FeatureUpdateKey,
    UnregisterBrokerRequest,
    UpdateFeaturesRequest,
)
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from moldau.wire.protocol.messages.scram import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)

USER = "refused"
BAD_FEATURES: tuple[tuple[str, int, int], ...] = (
    ("no.such.feature", 1, 1),
    ("no.such.feature", 0, 1),
    ("metadata.version", 9_999, 1),
    ("metadata.version", -1, 1),
    ("metadata.version", 0, 1),
    ("metadata.version", 7, 1),
    ("metadata.version", 7, 2),
    ("metadata.version", 7, 9),
    ("kraft.version", 9, 1),
)
"""Feature, level, kind of upgrade."""


def cluster_cases() -> Iterator[Case]:
    """All requests about the cluster as a whole."""
    yield from _cluster()
    yield from _features()
    yield from _producer_ids()
    yield from _credentials()
    yield from _access()


def _cluster() -> Iterator[Case]:
    for kind, refusal in ((2, "MISMATCHED_ENDPOINT_TYPE"), (7, "UNSUPPORTED_ENDPOINT_TYPE")):
        request = DescribeClusterRequest(endpoint_type=kind)
        yield Case(f"DescribeCluster {kind}", request, (refusal,), (1, 2))

    def fault(answer: Any) -> str:
        return "" if [broker.broker_id for broker in answer.brokers] == [1] else f"{answer.brokers}"

    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    yield Case("DescribeCluster", request, fault=fault)
    for topic, index in (("__cluster_metadata", 1), ("refused.plain", 0)):
        asked = DescribeQuorumTopic(topic, (DescribeQuorumPartition(index),))
        quorum = DescribeQuorumRequest((asked,))
        refused = ("UNKNOWN_TOPIC_OR_PARTITION",)
        yield Case(f"DescribeQuorum of {topic}-{index}", quorum, refused)
    for broker_id, refusal in ((7, "BROKER_ID_NOT_REGISTERED"), (1, "INVALID_REQUEST")):
        gone = UnregisterBrokerRequest(broker_id)
        yield Case(f"UnregisterBroker {broker_id}", gone, (refusal,))
    for name, version in (("", "1.0"), ("-bad", "1.0"), ("good", "1 0"), ("good", "")):
        software = ApiVersionsRequest(name, version)
        yield Case(f"ApiVersions of {name!r} {version!r}", software, ("INVALID_REQUEST",), (3, 4))


def _features() -> Iterator[Case]:
    refused = ("INVALID_UPDATE_VERSION",)
    for name, level, kind in BAD_FEATURES:
        request = UpdateFeaturesRequest(feature_updates=(FeatureUpdateKey(name, level, upgrade_type=kind),))
        yield Case(f"UpdateFeatures {name}={level} ({kind})", request, refused, (1, 2))
    unknown = UpdateFeaturesRequest(feature_updates=(FeatureUpdateKey("no.such.feature", 1),))
    yield Case("UpdateFeatures v0", unknown, refused, (0, 0))
    judged = UpdateFeaturesRequest(feature_updates=(FeatureUpdateKey("kraft.version", 1),), validate_only=True)
    yield Case("UpdateFeatures only judged", judged, versions=(1, 2))


def _producer_ids() -> Iterator[Case]:
    for transactional_id, timeout_ms, refusal in (
        ("", 60_000, "INVALID_REQUEST"),
        ("t", 0, "INVALID_TRANSACTION_TIMEOUT"),
        ("t", 900_001, "INVALID_TRANSACTION_TIMEOUT"),
    ):
        request = InitProducerIdRequest(transactional_id, timeout_ms)
        yield Case(f"InitProducerId of {transactional_id!r}, {timeout_ms} ms", request, (refusal,))
    for producer_id, epoch in ((5, -1), (-1, 3)):
        request = InitProducerIdRequest(None, producer_id=producer_id, producer_epoch=epoch)
        yield Case(f"InitProducerId again {producer_id} {epoch}", request, ("INVALID_REQUEST",), (3, 5))


def _credentials() -> Iterator[Case]:

    def set_to(name: str, mechanism: int, iterations: int) -> ScramCredentialUpsertion:
        return ScramCredentialUpsertion(name, mechanism, iterations, b"salt", b"salted")

    for name, mechanism, iterations, refusal in (
        (USER, 1, 4_095, "UNACCEPTABLE_CREDENTIAL"),
        (USER, 2, 16_385, "UNACCEPTABLE_CREDENTIAL"),
        ("", 1, 4_096, "UNACCEPTABLE_CREDENTIAL"),
        (USER, 9, 4_096, "UNSUPPORTED_SASL_MECHANISM"),
    ):
        request = AlterUserScramCredentialsRequest(upsertions=(set_to(name, mechanism, iterations),))
        yield Case(f"AlterUserScramCredentials {name!r} {mechanism} {iterations}", request, (refusal,))
    gone = AlterUserScramCredentialsRequest((ScramCredentialDeletion(USER, 1),))
    yield Case("AlterUserScramCredentials of nobody", gone, ("RESOURCE_NOT_FOUND",))
    twice = AlterUserScramCredentialsRequest(upsertions=(set_to(USER, 1, 4_096), set_to(USER, 2, 4_096)))
    yield Case("AlterUserScramCredentials twice", twice, ("DUPLICATE_RESOURCE",))
    for names, refusals in (
        ((USER,), ("RESOURCE_NOT_FOUND",)),
        ((USER, USER), ("DUPLICATE_RESOURCE",)),
        ((), ()),
    ):
        asked = DescribeUserScramCredentialsRequest(tuple(UserName(name) for name in names))
        yield Case(f"DescribeUserScramCredentials of {names}", asked, refusals)


def _access() -> Iterator[Case]:
    refused = ("SECURITY_DISABLED",)
    creation = AclCreation(2, "refused.plain", 3, "User:x", "*", 3, 3)
    wanted = DeleteAclsFilter(2, None, 3, None, None, 3, 3)
    describe = DescribeAclsRequest(2, None, 3, None, None, 3, 3)
    yield Case("DescribeAcls", describe, refused)
    yield Case("CreateAcls", CreateAclsRequest((creation, creation)), refused * 2)
    yield Case("DeleteAcls", DeleteAclsRequest((wanted,)), refused)
