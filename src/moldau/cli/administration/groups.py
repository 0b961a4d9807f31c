"""`moldau groups list|describe|delete`: consumer groups, their members and their lag."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from moldau.cli.administration.topics import report
from moldau.cli.arguments import Subparsers
from moldau.cli.cluster import (
    add_cluster_arguments,
    cluster_admin,
    matching_names,
    name_pattern,
    refused,
    unknown_group,
)
from moldau.cli.output import CommandError, print_json, print_rows
from moldau.types import counted

if TYPE_CHECKING:
    from moldau.client.admin.groups import GroupMember
    from moldau.client.protocol.offsets import CommittedOffset
    from moldau.types import TopicPartition

GROUP_STATES = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead")


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("groups", help="consumer groups, their members and their lag")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    listing = verbs.add_parser(
        "list",
        help="list groups",
        examples=("moldau groups list", "moldau groups list 'kitchen.*' --state Stable --json"),
    )
    listing.add_argument("pattern", nargs="?", help="a regular expression for whole names; without it, all groups")
    listing.add_argument(
        "--state",
        action="append",
        default=[],
        type=_state,
        choices=GROUP_STATES,
        metavar="STATE",
        help=f"only groups in this state ({', '.join(GROUP_STATES)}); may be repeated",
    )
    add_cluster_arguments(listing, list_groups, rights={"cluster": "describe"})

    describe = verbs.add_parser(
        "describe",
        help="show committed offsets, lag and members of a group",
        examples=("moldau groups describe kitchen", "moldau groups describe kitchen --members"),
    )
    describe.add_argument("group")
    describe.add_argument("--members", action="store_true", help="show the members instead of the partitions")
    add_cluster_arguments(describe, describe_group, rights={"group": "describe"})

    delete = verbs.add_parser(
        "delete",
        help="delete groups that have no members, and their committed offsets",
        examples=("moldau groups delete kitchen", "moldau groups delete --regex 'test-.*'"),
    )
    delete.add_argument("group", nargs="+")
    delete.add_argument("--regex", "-r", action="store_true", help="the groups are regular expressions")
    add_cluster_arguments(delete, delete_groups, rights={"group": "delete"})


def _state(text: str) -> str:
    """The group state in Kafka's spelling; the case of `text` does not matter."""
    return next((state for state in GROUP_STATES if state.lower() == text.lower()), text)


def list_groups(arguments: argparse.Namespace) -> int:
    from moldau.client.admin.groups import list_groups as known_groups

    pattern = name_pattern(arguments.pattern or ".*")
    with cluster_admin(arguments) as admin:
        found = known_groups(admin, states=arguments.state, only_consumers=False)
    rows = [
        {"group": row.group_id, "state": row.group_state, "protocol": row.protocol_type or None}
        for row in found
        if pattern.fullmatch(row.group_id)
    ]
    empty = f"no group is {' or '.join(arguments.state)}" if arguments.state else "no groups yet"
    if arguments.pattern:
        empty = f"no group matches {arguments.pattern}"
    print_rows(rows, ["group", "state"], as_json=arguments.json, empty=empty)
    return 0


def describe_group(arguments: argparse.Namespace) -> int:
    from moldau.client.admin import groups as group_questions
    from moldau.client.admin import offsets
    from moldau.client.protocol.offsets import LATEST_TIMESTAMP
    from moldau.errors import KafkaError

    group = arguments.group
    with cluster_admin(arguments) as admin:
        try:
            description = group_questions.describe_group(admin, group)
        except KafkaError as error:
            if error.name != "GROUP_ID_NOT_FOUND":
                raise
            raise CommandError(unknown_group(admin, group)) from error
        committed = group_questions.read_committed(admin, group)
        owners = {partition: member for member in description.members for partition in member.assignment}
        keys = sorted([*committed, *(partition for partition in owners if partition not in committed)])
        [ends] = offsets.of_led(admin, keys, LATEST_TIMESTAMP)
    rows = [_position(key, committed.get(key), ends.get(key), owners.get(key)) for key in keys]
    members = [_member(member) for member in description.members]
    if arguments.json:
        idle = [member.member_id for member in description.members if not member.assignment]
        print_json(
            {
                "group": group,
                "state": description.state,
                "assignor": description.assignor or None,
                "coordinator": description.coordinator_id,
                "partitions": rows,
                "members": members,
                "members_without_partitions": idle,
            }
        )
        return 0
    print(f"group {group}: {description.state}, {counted(len(description.members), 'member')}, {_lag(rows)}")
    if arguments.members:
        columns = ["member", "instance", "client", "host", "partitions"]
        print_rows(members, columns, as_json=False, empty="it has no members")
        return 0
    columns = ["topic", "partition", "committed_offset", "end_offset", "lag", "member", "host"]
    print_rows(rows, columns, as_json=False, empty="no offset is committed yet")
    return 0


def _position(
    partition: TopicPartition, committed: CommittedOffset | None, end: int | None, owner: GroupMember | None
) -> dict[str, object]:
    offset = None if committed is None else committed.offset
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "committed_offset": offset,
        "end_offset": end,
        "lag": None if offset is None or end is None else max(0, end - offset),
        "member": owner.member_id if owner else None,
        "host": owner.host if owner else None,
    }


def _member(member: GroupMember) -> dict[str, object]:
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.host,
        "partitions": [str(partition) for partition in member.assignment],
    }


def _lag(rows: list[dict[str, object]]) -> str:
    """The known lag, and the number of partitions without one: a missing offset is not a lag of 0."""
    known = [row["lag"] for row in rows if isinstance(row["lag"], int)]
    total = f"lag {sum(known)}" if known or not rows else "lag unknown"
    uncommitted = sum(row["committed_offset"] is None for row in rows)
    endless = sum(row["committed_offset"] is not None and row["end_offset"] is None for row in rows)
    without = [
        f"{counted(count, 'partition')} without {what}"
        for count, what in ((uncommitted, "a committed offset"), (endless, "a leader that tells its end"))
        if count
    ]
    return f"{total} ({', '.join(without)})" if without else total


def delete_groups(arguments: argparse.Namespace) -> int:
    from moldau.client.admin import groups as group_questions
    from moldau.errors import KafkaError

    rows: list[dict[str, object]] = []
    with cluster_admin(arguments) as admin:
        known = [row.group_id for row in group_questions.list_groups(admin, only_consumers=False)]
        for name in matching_names(arguments.group, known, is_regex=arguments.regex, what="group"):
            result = "deleted"
            try:
                group_questions.delete_group(admin, name)
            except KafkaError as error:
                result = refused(error, arguments, name)
            rows.append({"group": name, "result": result})
    return report(rows, "deleted", arguments, "group")
