"""`moldau groups list|describe`: consumer groups, their members and their lag."""

from __future__ import annotations

import argparse

from moldau.cli.arguments import Subparsers
from moldau.cli.cluster import TIMEOUT_S, add_cluster_arguments, explained, open_admin
from moldau.cli.output import CommandError, print_json, print_rows
from moldau.cli.topics import read_offsets


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("groups", help="consumer groups, their members and their lag")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    listing = verbs.add_parser("list", help="list groups")
    add_cluster_arguments(listing)
    listing.set_defaults(run=list_groups)

    describe = verbs.add_parser("describe", help="committed offsets, lag and members of a group")
    describe.add_argument("group")
    add_cluster_arguments(describe)
    describe.set_defaults(run=describe_group)


def list_groups(arguments: argparse.Namespace) -> int:
    with explained(arguments):
        admin = open_admin(arguments)
        listing = admin.list_consumer_groups(request_timeout=TIMEOUT_S).result()
    rows = [
        {"group": group.group_id, "state": group.state.name.title().replace("_", "")}
        for group in sorted(listing.valid, key=lambda group: str(group.group_id))
    ]
    print_rows(rows, ["group", "state"], as_json=arguments.json, empty="there are no groups yet")
    return 0


def describe_group(arguments: argparse.Namespace) -> int:
    from confluent_kafka import ConsumerGroupTopicPartitions

    group = arguments.group
    with explained(arguments):
        admin = open_admin(arguments)
        description = admin.describe_consumer_groups([group], request_timeout=TIMEOUT_S)[group].result()
        committed = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result()
        offsets = {(p.topic, p.partition): p.offset for p in committed.topic_partitions if p.offset >= 0}
        owners = {
            (p.topic, p.partition): member
            for member in description.members
            for p in (member.assignment.topic_partitions if member.assignment else [])
        }
        keys = sorted(offsets.keys() | owners.keys())
        ends = read_offsets(admin, keys, "latest")
    state = description.state.name.title().replace("_", "")
    if state == "Dead" and not keys:
        raise CommandError(f"unknown group: {group}")
    rows: list[dict[str, object]] = []
    for key in keys:
        offset, end = offsets.get(key), ends.get(key)
        member = owners.get(key)
        rows.append(
            {
                "topic": key[0],
                "partition": key[1],
                "committed_offset": offset,
                "end_offset": end,
                "lag": None if offset is None or end is None else max(0, end - offset),
                "member": member.member_id if member else None,
                "host": member.host if member else None,
            }
        )
    idle = [member.member_id for member in description.members if not any(m is member for m in owners.values())]
    if arguments.json:
        print_json({"group": group, "state": state, "partitions": rows, "members_without_partitions": idle})
        return 0
    total = sum(row["lag"] for row in rows if isinstance(row["lag"], int))
    print(f"group {group}: {state}, {len(description.members)} members, lag {total}")
    columns = ["topic", "partition", "committed_offset", "end_offset", "lag", "member", "host"]
    print_rows(rows, columns, as_json=False, empty="no offset is committed yet")
    for member_id in idle:
        print(f"idle member: {member_id}")
    return 0
