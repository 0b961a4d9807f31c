"""The three tables of `kafka-consumer-groups --describe`: committed offsets, members, state."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.groups import GroupDescription, GroupMember, read_committed
from moldau.client.admin.offsets import of_led
from moldau.client.protocol.offsets import LATEST_TIMESTAMP
from moldau.types import TopicPartition

MISSING = "-"
_REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


def _note_state(group: GroupDescription) -> None:
    """Reports a group that has no members or is rebalancing, next to the table."""
    if group.state == "Empty":
        print(f"\nConsumer group '{group.group_id}' has no active members.", file=sys.stderr)
    elif group.state in _REBALANCING:
        print(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.", file=sys.stderr)


def _width(least: int, cells: Sequence[str]) -> int:
    return max([least, *(len(cell) for cell in cells)])


# --- committed offsets ---


def print_offsets(admin: ClusterAdmin, groups: Sequence[GroupDescription], *, is_verbose: bool) -> None:
    for group in groups:
        rows = _offset_rows(admin, group)
        _note_state(group)
        if rows:
            _print_offset_table(rows, is_verbose)


OffsetRow = tuple[str, str, str, str, str, str, str, str, str, str]
"""Group, topic, partition, leader epoch, current offset, log end offset, lag, member, host, client id."""


def _offset_rows(admin: ClusterAdmin, group: GroupDescription) -> list[OffsetRow]:
    committed = read_committed(admin, group.group_id)
    owners: list[tuple[TopicPartition, GroupMember | None]] = []
    for member in sorted(group.members, key=lambda member: -len(member.assignment)):
        owners += [(partition, member) for partition in member.assignment]
    owned = {partition for partition, _ in owners}
    owners += [(partition, None) for partition in committed if partition not in owned]
    [last] = of_led(admin, [partition for partition, _ in owners], LATEST_TIMESTAMP)
    rows: list[OffsetRow] = []
    for partition, owner in owners:
        position = committed.get(partition)
        end = last.get(partition)
        rows.append(
            (
                group.group_id,
                partition.topic,
                str(partition.partition),
                MISSING if position is None or position.leader_epoch < 0 else str(position.leader_epoch),
                MISSING if position is None else str(position.offset),
                MISSING if end is None else str(end),
                MISSING if position is None or end is None else str(end - position.offset),
                MISSING if owner is None else owner.member_id,
                MISSING if owner is None else owner.host,
                MISSING if owner is None else owner.client_id,
            )
        )
    return rows


def _print_offset_table(rows: Sequence[OffsetRow], is_verbose: bool) -> None:
    heading = (
        "GROUP",
        "TOPIC",
        "PARTITION",
        "LEADER-EPOCH",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
    )
    widths = [15, 15, 10, 15, 15, 15, 15, 15, 15, 0]
    for column in (0, 1, 7, 8):
        widths[column] = _width(widths[column], [row[column] for row in rows])
    columns = [column for column in range(len(heading)) if is_verbose or column != 3]
    print()
    for row in (heading, *rows):
        print(" ".join(row[column].ljust(widths[column]) for column in columns))


# --- members ---


def print_members(groups: Sequence[GroupDescription], *, is_verbose: bool) -> None:
    for group in groups:
        _note_state(group)
        heading = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
        widths = [15, 15, 17, 15, 15, 15]
        if is_verbose:
            heading += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
            widths += [15, 20, 15, 20]
        rows = [_member_row(group.group_id, member) for member in group.members]
        for column in (0, 1, 2, 3, 4):
            widths[column] = _width(widths[column], [row[column] for row in rows])
        with_instances = any(member.instance_id for member in group.members)
        columns = [column for column in range(len(heading)) if with_instances or column != 2]
        end = "" if is_verbose else " "
        print()
        for row in (heading, *rows):
            print(" ".join(row[column].ljust(widths[column]) for column in columns) + end)


def _member_row(group_id: str, member: GroupMember) -> list[str]:
    topics: dict[str, list[str]] = {}
    for partition in member.assignment:
        topics.setdefault(partition.topic, []).append(str(partition.partition))
    assignment = ";".join(f"{topic}:{','.join(numbers)}" for topic, numbers in topics.items())
    return [
        group_id,
        member.member_id,
        member.instance_id or MISSING,
        member.host,
        member.client_id,
        str(len(member.assignment)),
        MISSING,
        assignment or MISSING,
        MISSING,
        MISSING,
    ]


# --- state ---


def print_states(groups: Sequence[GroupDescription], *, is_verbose: bool) -> None:
    for group in groups:
        _note_state(group)
        coordinator = f"{group.coordinator}  ({group.coordinator_id})"
        heading = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
        row = [group.group_id, coordinator, group.assignor or MISSING, group.state]
        widths = [_width(15, [group.group_id]), _width(25, [coordinator]), 20, 20]
        if is_verbose:
            heading += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
            row += [MISSING, MISSING]
            widths += [15, 25]
        print()
        for cells, last in ((heading, "#MEMBERS"), (row, str(len(group.members)))):
            print(" ".join([*(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)), last]))
