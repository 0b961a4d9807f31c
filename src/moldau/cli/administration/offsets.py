"""`moldau offsets list|reset|delete`: first and last offsets of partitions, committed offsets of groups."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.administration.topics import partition_names
from moldau.cli.arguments import TIMES, Subparsers, duration_ms, input_path, int64, time_ms
from moldau.cli.cluster import add_cluster_arguments, cluster_admin, near_group
from moldau.cli.output import CommandError, print_json, print_rows
from moldau.types import hint

LATEST, EARLIEST = "latest", "earliest"

if TYPE_CHECKING:
    from moldau.client.admin.client import ClusterAdmin
    from moldau.client.admin.offsets import Goal
    from moldau.types import TopicPartition


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("offsets", help="offsets of topics, and resetting those of groups")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    listing = verbs.add_parser(
        "list",
        help="list first and last offsets of partitions, or offsets at a time",
        examples=("moldau offsets list orders", "moldau offsets list orders:0 users --at 1h"),
    )
    listing.add_argument("topic", nargs="+", metavar="TOPIC[:0,1]")
    listing.add_argument(
        "--at", type=_when, default=LATEST, metavar="WHEN", help=f"latest (default), earliest, or a time: {TIMES}"
    )
    add_cluster_arguments(listing, list_offsets, rights={"topic": "describe", "group": "describe"})

    _add_reset(verbs)

    delete = verbs.add_parser(
        "delete",
        help="delete the committed offsets of a group for some topics",
        examples=("moldau offsets delete kitchen --topic orders:0,1",),
    )
    delete.add_argument("group")
    delete.add_argument("--topic", action="append", required=True, metavar="TOPIC[:0,1]", help="may be repeated")
    add_cluster_arguments(delete, delete_offsets, rights={"group": "delete", "topic": "read"})


def _add_reset(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    reset = verbs.add_parser(
        "reset",
        help="move the committed offsets of a group",
        description="Moves the committed offsets of a group that has no members. Without --execute it only prints the "
        "new offsets.",
        examples=(
            "moldau offsets reset kitchen --to-earliest",
            "moldau offsets reset kitchen --topic orders --to-datetime 2026-01-31 --execute",
            "moldau offsets reset kitchen --by-duration 1h --execute",
            "moldau offsets reset kitchen --to-earliest --export > plan.csv",
            "moldau offsets reset kitchen --from-file plan.csv --execute",
        ),
    )
    reset.add_argument("group")
    reset.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="TOPIC[:0,1]",
        help="may be repeated; default: every partition with a committed offset",
    )
    goal = reset.add_mutually_exclusive_group(required=True)
    goal.add_argument("--to-earliest", action="store_true", help="the first record of each partition")
    goal.add_argument("--to-latest", action="store_true", help="the end of each partition")
    goal.add_argument(
        "--to-offset", type=int64, metavar="N", help="this offset, or the nearest offset of the partition"
    )
    goal.add_argument(
        "--to-datetime", type=time_ms, metavar="TIME", help=f"the first record of this time or later: {TIMES}"
    )
    goal.add_argument(
        "--by-duration",
        type=duration_ms,
        metavar="DURATION",
        help="the first record of this long ago or later: 90s, 15m, 1h30m, 2d, 1w or PT1H30M",
    )
    goal.add_argument("--shift-by", type=int64, metavar="N", help="N offsets forward, or back if N is negative")
    goal.add_argument(
        "--from-file",
        type=input_path,
        metavar="FILE",
        help="the offsets in this file, rows topic,partition,offset as --export prints; - is standard input",
    )
    reset.add_argument("--execute", action="store_true", help="commit the new offsets")
    reset.add_argument("--export", action="store_true", help="print the new offsets as rows topic,partition,offset")
    add_cluster_arguments(reset, reset_offsets, rights={"group": "read", "topic": "read"})


def _when(text: str) -> str | int:
    return text if text in (LATEST, EARLIEST) else time_ms(text)


def partitions_of(admin: ClusterAdmin, texts: list[str]) -> list[TopicPartition]:
    """The partitions that `topic` and `topic:0,1` name. Raises CommandError for a missing topic or partition."""
    from moldau.cli.administration.offset_arguments import parse_partitions
    from moldau.errors import KafkaError

    known = partition_names(admin)
    found: list[TopicPartition] = []
    for text in texts:
        try:
            found += parse_partitions(text, known.get)
        except KafkaError as error:
            topic = text.partition(":")[0]
            near = "" if topic in known else hint(topic, known)
            raise CommandError(f"unknown topic or partition: {text}{near}") from error
        except ValueError as error:
            raise CommandError(f"write TOPIC or TOPIC:0,1, not {text!r}") from error
    return list(dict.fromkeys(found))


def list_offsets(arguments: argparse.Namespace) -> int:
    from moldau.client.admin import offsets
    from moldau.client.protocol.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

    timestamp_ms = {LATEST: LATEST_TIMESTAMP, EARLIEST: EARLIEST_TIMESTAMP}.get(arguments.at, arguments.at)
    with cluster_admin(arguments) as admin:
        partitions = partitions_of(admin, arguments.topic)
        [found] = offsets.of_led(admin, partitions, timestamp_ms)
    is_any_failed = len(found) < len(partitions)
    rows: list[dict[str, object]] = []
    for row in partitions:
        offset = found.get(row, -1)
        rows.append({"topic": row.topic, "partition": row.partition, "offset": offset if offset >= 0 else None})
        if is_any_failed:
            rows[-1]["error"] = None if row in found else "no leader tells it"
    columns = ["topic", "partition", "offset", *(["error"] if is_any_failed else [])]
    print_rows(rows, columns, as_json=arguments.json)
    return 1 if is_any_failed else 0


def reset_offsets(arguments: argparse.Namespace) -> int:
    from moldau.client.admin import groups as group_questions
    from moldau.client.admin.offsets import NoSuchPosition, plan

    goal = _goal(arguments)
    group = arguments.group
    with cluster_admin(arguments) as admin:
        _refuse_members(admin, group)
        committed = group_questions.read_committed(admin, group)
        if arguments.topic:
            partitions = partitions_of(admin, arguments.topic)
        elif goal.offsets is not None:
            partitions = partitions_of(admin, [f"{row.topic}:{row.partition}" for row in goal.offsets])
        else:
            partitions = list(committed)
        if not partitions:
            what = f"group {group} has committed nothing{near_group(admin, group)}"
            raise CommandError(f"{what} (--topic names the topics of a new group)")
        try:
            planned = plan(admin, goal, partitions, committed)
        except NoSuchPosition as error:
            raise CommandError(str(error)) from error
        if arguments.execute:
            group_questions.commit(admin, group, planned.offsets)
    for warning in planned.warnings:
        print(f"note: {warning}", file=sys.stderr)
    rows: list[dict[str, object]] = [
        {
            "topic": row.topic,
            "partition": row.partition,
            "committed_offset": committed[row].offset if row in committed else None,
            "new_offset": offset,
        }
        for row, offset in planned.offsets.items()
    ]
    if arguments.export:
        for cells in rows:
            print(f"{cells['topic']},{cells['partition']},{cells['new_offset']}")
    elif arguments.json:
        print_json({"group": group, "executed": arguments.execute, "partitions": rows})
    else:
        print_rows(rows, ["topic", "partition", "committed_offset", "new_offset"], as_json=False)
    if not arguments.execute:
        print("nothing was changed: --execute commits these offsets", file=sys.stderr)
    return 0


def _refuse_members(admin: ClusterAdmin, group: str) -> None:
    from moldau.client.admin.groups import DEAD, EMPTY, state_of

    state = state_of(admin, group)
    if state not in (EMPTY, DEAD):
        raise CommandError(f"group {group} has members (it is {state}): stop them first")


def _goal(arguments: argparse.Namespace) -> Goal:
    from moldau.client.admin.offsets import Goal

    if arguments.to_datetime is not None:
        return Goal(timestamp_ms=arguments.to_datetime)
    if arguments.by_duration is not None:
        return Goal(timestamp_ms=int(time.time() * 1000) - arguments.by_duration)
    if arguments.from_file is not None:
        return Goal(offsets=_read_file(arguments.from_file))
    return Goal(
        is_earliest=arguments.to_earliest,
        is_latest=arguments.to_latest,
        offset=arguments.to_offset,
        shift=arguments.shift_by,
    )


def _read_file(path: Path) -> dict[TopicPartition, int]:
    import csv

    from moldau.types import TopicPartition

    found: dict[TopicPartition, int] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.reader(file):
                if row:
                    topic, partition, offset = row
                    found[TopicPartition(topic, int(partition))] = int(offset)
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise CommandError(f"{path}: each row is topic,partition,offset") from error
    return found


def delete_offsets(arguments: argparse.Namespace) -> int:
    from moldau.client.admin.groups import delete_offsets as forget

    with cluster_admin(arguments) as admin:
        error, results = forget(admin, arguments.group, partitions_of(admin, arguments.topic))
        if error is not None:
            near = near_group(admin, arguments.group) if error.name == "GROUP_ID_NOT_FOUND" else ""
            raise CommandError(f"group {arguments.group}: {error}{near}")
    rows: list[dict[str, object]] = [
        {"topic": row.topic, "partition": row.partition, "result": "deleted" if failed is None else str(failed)}
        for row, failed in results.items()
    ]
    print_rows(rows, ["topic", "partition", "result"], as_json=arguments.json)
    return 0 if all(failed is None for failed in results.values()) else 1
