"""`kafka-consumer-groups --reset-offsets`: prints the plan as a table or CSV, and with --execute commits it."""

from __future__ import annotations

import csv
import time

from moldau.cli.administration.offset_arguments import named_partitions, parse_datetime, parse_duration_ms
from moldau.cli.arguments import input_path
from moldau.cli.kafka.options import ArgumentError, Arguments, UsageError, is_number
from moldau.client.admin import groups as group_questions
from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.groups import DEAD, EMPTY
from moldau.client.admin.offsets import Goal, NoSuchPosition, plan
from moldau.client.admin.topics import list_topics
from moldau.types import TopicPartition

GOALS = (
    "to-current",
    "to-earliest",
    "to-offset",
    "shift-by",
    "from-file",
    "to-datetime",
    "by-duration",
    "to-latest",
)

Planned = dict[str, dict[TopicPartition, int]]
"""The new offsets of each group."""


def reset(arguments: Arguments, admin: ClusterAdmin, names: list[str]) -> None:
    is_from_file = arguments.has("from-file")
    from_file = _read_file(arguments.required("from-file"), arguments.texts("group")) if is_from_file else {}
    topics = {name: [row.index for row in topic.partitions] for name, topic in list_topics(admin).items()}
    planned: Planned = {}
    for name in names:
        state = group_questions.state_of(admin, name)
        if state not in (EMPTY, DEAD):
            print(
                f"\nError: Assignments can only be reset if the group '{name}' is inactive, "
                f"but the current state is {state}."
            )
            continue
        committed = group_questions.read_committed(admin, name)
        if arguments.has("all-topics"):
            partitions = list(committed)
        elif arguments.has("topic"):
            named = [partitions_in(text) for text in arguments.texts("topic")]
            partitions = [row for topic, numbers in named for row in named_partitions(topic, numbers, topics.get)]
        else:
            partitions = list(from_file.get(name, {}))
        if is_from_file and name not in from_file:
            print(f"\nError: No reset plan for group {name} found.")
        try:
            made = plan(admin, _goal(arguments, from_file.get(name, {})), partitions, committed)
        except NoSuchPosition as error:
            raise UsageError(str(error)) from error
        for warning in made.warnings:
            print(f"\nWarn: {warning}")
        if arguments.has("execute"):
            group_questions.commit(admin, name, made.offsets)
        planned[name] = made.offsets
    if arguments.has("export"):
        _print_csv(planned, with_groups=len(arguments.texts("group")) != 1)
    else:
        _print_table(planned)


def partitions_in(text: str) -> tuple[str, list[int] | None]:
    """The topic of `topic:0,1` and the numbers, None for a bare topic. As in Kafka's tools, empty text after the last
    separator is ignored. Raises UsageError."""
    if ":" not in text:
        return text, None
    parts = text.rstrip(":").split(":")
    if len(parts) != 2:
        raise UsageError(f"Invalid topic arg '{text}', expected topic name and partitions")
    topic, listed = parts
    numbers = listed.rstrip(",").split(",")
    for number in numbers:
        if not is_number(number, 31):
            raise UsageError(f"Invalid partition '{number}' specified in topic arg '{text}''")
    return topic, [int(number) for number in numbers]


def _goal(arguments: Arguments, from_file: dict[TopicPartition, int]) -> Goal:
    if not arguments.has(*GOALS):
        listed = ", ".join(f"[{name}]" for name in GOALS)
        raise UsageError(f"Option '[reset-offsets]' requires one of the following scenarios: [{listed}]")
    if arguments.has("from-file"):
        return Goal(offsets=from_file)
    offset, shift = arguments.integer("to-offset"), arguments.integer("shift-by")
    if offset is not None or shift is not None:
        return Goal(offset=offset, shift=shift)
    moment, duration = arguments.text("to-datetime"), arguments.text("by-duration")
    if moment is not None:
        try:
            return Goal(timestamp_ms=parse_datetime(moment))
        except ValueError as error:
            raise ArgumentError(f"java.text.ParseException: {error}") from error
    if duration is not None:
        try:
            return Goal(timestamp_ms=int(time.time() * 1000) - parse_duration_ms(duration))
        except ValueError as error:
            raise ArgumentError(str(error)) from error
    return Goal(
        is_earliest=arguments.has("to-earliest"),
        is_latest=arguments.has("to-latest"),
        is_current=arguments.has("to-current"),
    )


def _read_file(path: str, names: list[str]) -> dict[str, dict[TopicPartition, int]]:
    """Reads rows `group,topic,partition,offset`. A row without a group belongs to the only named group; it is skipped
    if several are named."""
    found: dict[str, dict[TopicPartition, int]] = {}
    try:
        with input_path(path).open(newline="", encoding="utf-8") as file:
            for row in csv.reader(file):
                if not row:
                    continue
                if len(row) == 3:
                    if len(names) != 1:
                        continue
                    row = [names[0], *row]
                group, topic, partition, offset = row
                if int(offset) < 0:
                    raise UsageError("Invalid negative offset")
                found.setdefault(group, {})[TopicPartition(topic, int(partition))] = int(offset)
    except OSError as error:
        raise ArgumentError(f"java.io.IOException: Unable to read file {path}") from error
    except ValueError as error:
        raise ArgumentError(f"{path}: rows are topic,partition,offset or group,topic,partition,offset") from error
    return found


def _print_table(planned: Planned) -> None:
    rows = [
        (name, row.topic, str(row.partition), str(offset))
        for name, offsets in planned.items()
        for row, offset in offsets.items()
    ]
    group_width = max([15, *(len(row[0]) for row in rows)])
    topic_width = max([15, *(len(row[1]) for row in rows)])
    print()
    for row in (("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), *rows):
        print(f"{row[0]:<{group_width}} {row[1]:<{topic_width}} {row[2]:<10} {row[3]}")


def _print_csv(planned: Planned, *, with_groups: bool) -> None:
    for name, offsets in planned.items():
        for row, offset in offsets.items():
            cells = [row.topic, str(row.partition), str(offset)]
            print(",".join([name, *cells] if with_groups else cells))
    print()
