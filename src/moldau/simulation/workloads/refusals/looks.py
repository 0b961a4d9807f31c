"""The visible state of the ground, which no rejected request may change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.simulation.workloads.refusals.case import COMPACTED, GROUP, PACKED, PARTITIONS, PLAIN
from moldau.simulation.workloads.refusals.settings_cases import BROKER, GROUPS, NODE, TOPIC
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.protocol.messages.client_quotas import DescribeClientQuotasRequest, QuotaFilterComponent
from moldau.wire.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.wire.protocol.messages.groups_classic import DescribeGroupsRequest, ListGroupsRequest
from moldau.wire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.schema import Request


def _topics(answer: Any) -> object:
    return sorted(
        (topic.name, topic.topic_id, [(row.partition_index, row.replica_nodes) for row in topic.partitions])
        for topic in answer.topics
        if topic.name.startswith("refused")
    )


def _configs(answer: Any) -> object:
    return [[(row.name, row.value, row.config_source) for row in result.configs] for result in answer.results]


def _ends(answer: Any) -> object:
    return [(topic.name, row.partition_index, row.offset) for topic in answer.topics for row in topic.partitions]


LOOKS: tuple[tuple[str, int, Request[Any], Callable[[Any], object]], ...] = (
    ("the topics", 12, MetadataRequest(None), _topics),
    (
        "the settings",
        4,
        DescribeConfigsRequest(
            tuple(
                DescribeConfigsResource(kind, name, None)
                for kind, name in (
                    *((TOPIC, topic) for topic in (PLAIN, COMPACTED, PACKED)),
                    (BROKER, NODE),
                    (BROKER, ""),
                    (GROUPS, GROUP),
                )
            )
        ),
        _configs,
    ),
    (
        "the log ends",
        5,
        ListOffsetsRequest(
            -1,
            topics=tuple(
                ListOffsetsTopic(
                    name,
                    tuple(
                        ListOffsetsPartition(index, timestamp=-1) for index in range(PARTITIONS if name == PLAIN else 1)
                    ),
                )
                for name in (PLAIN, COMPACTED, PACKED)
            ),
        ),
        _ends,
    ),
    (
        "the quotas",
        1,
        DescribeClientQuotasRequest((QuotaFilterComponent("user", 2, None),)),
        lambda answer: [entry for entry in answer.entries if (entry.entity[0].entity_name or "").startswith("refused")],
    ),
    (
        "the groups",
        5,
        ListGroupsRequest(),
        lambda answer: sorted(group.group_id for group in answer.groups if group.group_id.startswith("refused")),
    ),
    (
        "the group",
        6,
        DescribeGroupsRequest((GROUP,)),
        lambda answer: [(group.group_state, group.members) for group in answer.groups],
    ),
    (
        "the features",
        4,
        ApiVersionsRequest("simulator", "1.0"),
        lambda answer: answer.finalized_features,
    ),
)
"""Name, version, request, and the part of the response that must not change."""
