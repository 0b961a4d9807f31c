"""Every pair of a request that changes something and a request that reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.conformance.order.answers import (
    code,
    code_of_partition,
    code_of_response,
    code_of_result,
    code_of_topic,
    committed,
    epoch,
    epoch_end_offset,
    features,
    fetched,
    fetched_batches,
    group,
    group_names,
    has_size,
    is_in_a_directory,
    leader,
    low_watermark,
    names,
    offset,
    open_since,
    partition_code,
    position_code,
    producer_seen,
    quota_values,
    setting,
    topic_row,
    transaction,
    transactional_ids,
    under_way,
    written,
)
from tests.conformance.order.requests import (
    FEATURE,
    NODE,
    Subject,
    abort,
    abort_v2,
    add_group,
    add_partition,
    commit,
    commit_and_join,
    commit_in_transaction,
    configure,
    create,
    create_flushing,
    delete,
    delete_all_records,
    delete_group,
    delete_position,
    describe,
    describe_configs,
    describe_group,
    describe_partitions,
    describe_transaction,
    elect,
    end,
    end_offset,
    end_offset_of_grown,
    end_v2,
    epoch_end,
    first_offset,
    grow,
    heartbeat,
    init,
    join,
    leave,
    list_groups,
    list_open,
    list_resources,
    list_transactions,
    lower_feature,
    mark_aborted,
    mark_committed,
    passwords,
    positions,
    producers,
    quotas,
    raise_feature,
    read,
    read_committed,
    reassign,
    reassignments,
    replace_configs,
    set_password,
    set_quota,
    sizes,
    sizes_of_grown,
    stable_offset,
    stable_positions,
    sync,
    versions,
    write,
    write_acks_0,
    write_acks_1,
    write_and_join,
    write_idempotent,
    write_to_grown,
    write_transactional,
)

UNKNOWN_MEMBER_ID, UNSTABLE_OFFSET = 25, 88


class Pair(NamedTuple):
    """The preparation, the change, the question, and the expected content of its response."""

    before: tuple[Callable[[Subject], Any], ...]
    change: Callable[[Subject], Any]
    question: Callable[[Subject], Any]
    said: Callable[[Any], Any]
    expected: Any


class Has(str):
    """Equal to every list that contains it; an empty one stands for the test's name."""


class Lacks(str):
    """Equal to every list that does not contain it."""


PAIRS = (
    Pair((), create, describe, topic_row, (0, 1)),
    Pair((), create, describe_partitions, topic_row, (0, 1)),
    Pair((), create, describe_configs, setting, "1048588"),
    Pair((), create, list_resources, names, Has()),
    Pair((), create, end_offset, offset, 0),
    Pair((), create, read, fetched, (0, False)),
    Pair((), create, sizes, is_in_a_directory, True),
    Pair((), create, write, written, (0, 0)),
    Pair((), create, grow, code_of_result, 0),
    Pair((), create, configure, code_of_response, 0),
    Pair((), create, delete, code_of_response, 0),
    Pair((create,), delete, describe, topic_row, (3, 0)),
    Pair((create,), delete, describe_partitions, topic_row, (3, 0)),
    Pair((create,), delete, list_resources, names, Lacks()),
    Pair((create,), delete, create, code_of_topic, 0),
    Pair((create,), delete, describe_configs, code_of_result, 3),
    Pair((create,), delete, end_offset, partition_code, 3),
    Pair((create,), delete, epoch_end, partition_code, 3),
    Pair((create,), delete, producers, partition_code, 3),
    Pair((create,), delete, read, fetched, (3, False)),
    Pair((create,), delete, sizes, is_in_a_directory, False),
    Pair((create, write, delete), create, end_offset, offset, 0),
    Pair((create, write, delete), create, read, fetched, (0, False)),
    Pair((create,), delete, write, written, (3, -1)),
    Pair((create,), grow, describe, topic_row, (0, 3)),
    Pair((create,), grow, describe_partitions, topic_row, (0, 3)),
    Pair((create,), grow, end_offset_of_grown, offset, 0),
    Pair((create,), grow, write_to_grown, written, (0, 0)),
    Pair((create,), grow, sizes_of_grown, is_in_a_directory, True),
    Pair((create,), configure, describe_configs, setting, "150"),
    Pair((create,), configure, write, written, (10, -1)),
    Pair((create,), replace_configs, describe_configs, setting, "150"),
    Pair((create,), elect, describe, leader, NODE),
    Pair((create,), reassign, reassignments, under_way, (0, 0)),
    Pair((create,), reassign, describe, leader, NODE),
    *(
        pair
        for acknowledged in (write_acks_0, write_acks_1)
        for pair in (
            Pair((create,), acknowledged, end_offset, offset, 1),
            Pair((create,), acknowledged, read, fetched, (0, True)),
            Pair((create,), acknowledged, write, written, (0, 1)),
        )
    ),
    *(
        pair
        for made in (create, create_flushing)
        for pair in (
            Pair((made,), write, end_offset, offset, 1),
            Pair((made,), write, read, fetched, (0, True)),
            Pair((made,), write, delete_all_records, low_watermark, 1),
            Pair((made,), write, epoch_end, epoch_end_offset, 1),
            Pair((made,), write, write, written, (0, 1)),
            Pair((made,), write_idempotent, producers, producer_seen, 7_000),
            Pair((made,), write, sizes, has_size, True),
            Pair((made, write), delete_all_records, first_offset, offset, 1),
            Pair((made, write), delete_all_records, read, fetched, (1, False)),
        )
    ),
    Pair((create,), commit, positions, committed, 5),
    Pair((create,), commit, list_groups, group_names, Has()),
    Pair((create,), commit, describe_group, group, ("Empty", 0)),
    Pair((create, commit), delete_position, positions, committed, -1),
    Pair((create, commit), delete_group, list_groups, group_names, Lacks()),
    Pair((create, commit), delete_group, describe_group, group, ("Dead", 0)),
    Pair((create, commit), delete_group, positions, committed, -1),
    Pair((create, commit), delete, positions, committed, -1),
    Pair((), join, describe_group, group, ("CompletingRebalance", 1)),
    Pair((), join, list_groups, group_names, Has()),
    Pair((), set_quota, quotas, quota_values, [1e9]),
    Pair((), set_password, passwords, code_of_result, 0),
    Pair((join,), sync, describe_group, group, ("Stable", 1)),
    Pair((join,), sync, heartbeat, code, 0),
    Pair((join, sync), leave, describe_group, group, ("Empty", 0)),
    Pair((join, sync), leave, heartbeat, code, UNKNOWN_MEMBER_ID),
    Pair((), init, describe_transaction, transaction, ("Empty", 0)),
    Pair((), init, list_transactions, transactional_ids, Has()),
    Pair((), init, init, epoch, (0, 1)),
    Pair((init,), add_group, describe_transaction, transaction, ("Ongoing", 1)),
    Pair((init,), add_group, list_open, transactional_ids, Has()),
    Pair((create, init, add_group), commit_in_transaction, positions, committed, -1),
    Pair((create, init, add_group), commit_in_transaction, stable_positions, position_code, (UNSTABLE_OFFSET, -1)),
    Pair((create, init), add_partition, describe_transaction, transaction, ("Ongoing", 1)),
    Pair((create, init), add_partition, list_open, transactional_ids, Has()),
    Pair((create, init), add_partition, write_transactional, written, (0, 0)),
    Pair((create, init), write_and_join, describe_transaction, transaction, ("Ongoing", 1)),
    Pair((create, init), commit_and_join, describe_transaction, transaction, ("Ongoing", 1)),
    Pair((create, init), commit_and_join, stable_positions, position_code, (UNSTABLE_OFFSET, -1)),
    *(
        pair
        for before, put in (((create, init, add_partition), write_transactional), ((create, init), write_and_join))
        for pair in (
            Pair(before, put, end_offset, offset, 1),
            Pair(before, put, stable_offset, offset, 0),
            Pair(before, put, read, fetched, (0, True)),
            Pair(before, put, read_committed, fetched, (0, False)),
            Pair(before, put, producers, open_since, [0]),
        )
    ),
    *(
        pair
        for before, commits, aborts in (
            ((create, init, add_partition, write_transactional), (end, mark_committed), (abort, mark_aborted)),
            ((create, init, write_and_join), (end_v2,), (abort_v2,)),
        )
        for ends in (*commits, *aborts)
        for pair in (
            Pair(before, ends, stable_offset, offset, 2),
            Pair(before, ends, read_committed, fetched_batches, (True, False) if ends in commits else (True, True)),
            Pair(before, ends, producers, open_since, [-1]),
            Pair(before, ends, end_offset, offset, 2),
        )
    ),
    *(
        pair
        for before, commit_it, abort_it in (
            ((create, init, add_partition, write_transactional), end, abort),
            ((create, init, write_and_join), end_v2, abort_v2),
        )
        for ends, state in ((commit_it, "CompleteCommit"), (abort_it, "CompleteAbort"))
        for pair in (
            Pair(before, ends, describe_transaction, transaction, (state, 0)),
            Pair(before, ends, list_open, transactional_ids, Lacks()),
            Pair(before, ends, init, epoch, (0, 2 if ends in (end_v2, abort_v2) else 1)),
        )
    ),
    Pair((create, init, add_partition, write_transactional), end, add_partition, code_of_partition, 0),
    *(
        pair
        for before, commit_it, abort_it in (
            ((create, init, add_group, commit_in_transaction), end, abort),
            ((create, init, commit_and_join), end_v2, abort_v2),
        )
        for pair in (
            Pair(before, commit_it, positions, committed, 7),
            Pair(before, commit_it, stable_positions, position_code, (0, 7)),
            Pair(before, abort_it, positions, committed, -1),
            Pair(before, abort_it, stable_positions, position_code, (0, -1)),
        )
    ),
    Pair((create, init, write_and_join), init, describe_transaction, transaction, ("CompleteAbort", 0)),
    Pair((create, init, write_and_join), init, stable_offset, offset, 2),
    Pair((create, init, write_and_join), delete, describe, topic_row, (3, 0)),
    Pair((lower_feature,), raise_feature, versions, features, Has(FEATURE)),
)
