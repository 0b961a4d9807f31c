"""Reads the responses of the order test."""

from __future__ import annotations

from typing import Any

import msgspec


def topic_row(answer: Any) -> tuple[int, int]:
    (topic,) = answer.topics
    return topic.error_code, len(topic.partitions)


def leader(answer: Any) -> int:
    return answer.topics[0].partitions[0].leader_id


def under_way(answer: Any) -> tuple[int, int]:
    return answer.error_code, len(answer.topics)


def setting(answer: Any) -> str | None:
    (result,) = answer.results
    return result.configs[0].value if result.configs else None


def offset(answer: Any) -> int:
    return answer.topics[0].partitions[0].offset


def fetched(answer: Any) -> tuple[int, bool]:
    (row,) = answer.responses[0].partitions
    return row.error_code, bool(row.records)


def group(answer: Any) -> tuple[str, int]:
    return answer.groups[0].group_state, len(answer.groups[0].members)


def fetched_batches(answer: Any) -> tuple[bool, bool]:
    """Whether the response has records, and whether they are listed as aborted."""
    (row,) = answer.responses[0].partitions
    return bool(row.records), bool(row.aborted_transactions)


def written(answer: Any) -> tuple[int, int]:
    (row,) = answer.responses[0].partition_responses
    return row.error_code, row.base_offset


def low_watermark(answer: Any) -> int:
    return answer.topics[0].partitions[0].low_watermark


def epoch_end_offset(answer: Any) -> int:
    return answer.topics[0].partitions[0].end_offset


def has_size(answer: Any) -> bool:
    return answer.results[0].topics[0].partitions[0].partition_size > 0


def is_in_a_directory(answer: Any) -> bool:
    return any(directory.topics for directory in answer.results)


def partition_code(answer: Any) -> int:
    return answer.topics[0].partitions[0].error_code


def producer_seen(answer: Any) -> int:
    (producer,) = answer.topics[0].partitions[0].active_producers
    return producer.producer_id


def committed(answer: Any) -> int:
    return answer.groups[0].topics[0].partitions[0].committed_offset


def quota_values(answer: Any) -> list[float]:
    return [row.values[0].value for row in answer.entries]


def code_of_topic(answer: Any) -> int:
    return answer.topics[0].error_code


def code_of_result(answer: Any) -> int:
    return answer.results[0].error_code


def code_of_response(answer: Any) -> int:
    return answer.responses[0].error_code


def names(answer: Any) -> list[str]:
    return [resource.resource_name for resource in answer.config_resources]


def group_names(answer: Any) -> list[str]:
    return [row.group_id for row in answer.groups]


def code(answer: Any) -> int:
    return answer.error_code


def epoch(answer: Any) -> tuple[int, int]:
    return answer.error_code, answer.producer_epoch


def code_of_partition(answer: Any) -> int:
    return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code


def position_code(answer: Any) -> tuple[int, int]:
    (row,) = answer.groups[0].topics[0].partitions
    return row.error_code, row.committed_offset


def open_since(answer: Any) -> list[int]:
    return [producer.current_txn_start_offset for producer in answer.topics[0].partitions[0].active_producers]


def codes(answer: Any) -> set[int]:
    """Every error code in it, at all levels."""
    if isinstance(answer, tuple):
        return set().union(*(codes(item) for item in answer))
    if not isinstance(answer, msgspec.Struct):
        return set()
    own = {getattr(answer, name) for name in answer.__struct_fields__ if name.endswith("error_code")}
    return own.union(*(codes(getattr(answer, name)) for name in answer.__struct_fields__))


def transaction(answer: Any) -> tuple[str, int]:
    """Its state, and the number of partitions without a marker."""
    (row,) = answer.transaction_states
    return row.transaction_state, sum(len(topic.partitions) for topic in row.topics)


def transactional_ids(answer: Any) -> list[str]:
    return [row.transactional_id for row in answer.transaction_states]


def features(answer: Any) -> list[str]:
    return [row.name for row in answer.finalized_features]
