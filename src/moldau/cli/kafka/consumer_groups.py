"""`kafka-consumer-groups`: list, describe and delete groups, reset and delete their offsets.

As with Kafka's tool, an error is a line `Error: ...` on standard output, and the exit code is 0.
"""

from __future__ import annotations

import sys

from moldau.cli.kafka.connection import open_admin
from moldau.cli.kafka.group_tables import print_members, print_offsets, print_states
from moldau.cli.kafka.options import (
    ArgumentError,
    Arguments,
    Option,
    UsageError,
    bootstrap_server,
    check_excluded,
    check_required,
    command_config,
)
from moldau.cli.kafka.reset_offsets import GOALS, partitions_in, reset
from moldau.client.admin import groups as group_questions
from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.error_texts import as_java_says
from moldau.client.admin.topics import list_topics
from moldau.errors import KafkaError
from moldau.types import TopicPartition

SUMMARY = "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, " + (
    "or reset consumer group offsets."
)

OPTIONS = (
    bootstrap_server(is_required=False),
    command_config(),
    Option("list", "Print the names of the groups."),
    Option("describe", "Print committed offsets and lag of a group."),
    Option("delete", "Delete groups without members."),
    Option("reset-offsets", "Reset the committed offsets of a group without members; a dry run without --execute."),
    Option("delete-offsets", "Delete the committed offsets of a group on some topics."),
    Option("validate-regex", "Say whether brokers would take this regular expression (RE2).", "regex"),
    Option("group", "The group; may be repeated.", "consumer group"),
    Option("all-groups", "All groups."),
    Option("topic", "The topic, or topic:0,1 for some partitions; may be repeated.", "topic"),
    Option("all-topics", "All topics on which the group has committed."),
    Option("members", "With --describe: the members."),
    Option("verbose", "With --describe: more columns."),
    Option("offsets", "With --describe: committed offsets and lag (the default)."),
    Option(
        "state",
        "With --describe: the state of the group. With --list: the state too, or only groups in these states.",
        "state",
        is_argument_optional=True,
    ),
    Option("type", "With --list: the type too, or only groups of these types.", "type", is_argument_optional=True),
    Option(
        "timeout", "How long answers are waited for, in milliseconds.", "timeout (ms)", kind="long", default="30000"
    ),
    Option("dry-run", "Only print the plan of a reset."),
    Option("execute", "Do the reset."),
    Option("export", "Print the plan of a reset as CSV."),
    Option("to-earliest", "Reset to the first record."),
    Option("to-latest", "Reset to the end."),
    Option("to-current", "Reset to where the group is."),
    Option("to-offset", "Reset to this offset.", "offset", kind="long"),
    Option("to-datetime", "Reset to the first record at or after this time.", "YYYY-MM-DDThh:mm:ss.sss"),
    Option("by-duration", "Reset to the first record of the last P1DT2H3M4S.", "duration"),
    Option(
        "shift-by", "Move by this number of offsets; a negative number moves back.", "number of offsets", kind="long"
    ),
    Option("from-file", "Reset to the offsets of a CSV file.", "path"),
)

_ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
_STATES = ("Stable", "CompletingRebalance", "Dead", "Assigning", "Reconciling", "PreparingRebalance", "Empty")
_TYPES = ("Consumer", "Classic")
_PARTITION_LEVEL = ("GROUP_SUBSCRIBED_TO_TOPIC", "TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_TOPIC_OR_PARTITION")
_EXECUTE_WARNING = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require "
    "either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if you are "
    "scripting this command and want to keep the current default behavior without prompting."
)


def run(arguments: Arguments) -> int:
    check(arguments)
    pattern = arguments.text("validate-regex")
    if pattern is not None:
        print(regex_verdict(pattern))
        return 0
    try:
        with open_admin(arguments, timeout_ms=arguments.integer("timeout")) as admin:
            _act(arguments, admin)
    except KafkaError as error:
        # Kafka's tool prints the class of an error from a future, and only `--describe` waits for one
        told = as_java_says(error) if arguments.has("describe") else str(error)
        print_error(f"Executing consumer group command failed due to {told}")
    except ArgumentError as error:
        print_error(f"Executing consumer group command failed due to {error}")
    return 0


def print_error(text: str) -> None:
    print(f"\nError: {text}")


def _act(arguments: Arguments, admin: ClusterAdmin) -> None:
    if arguments.has("list"):
        list_groups(arguments, admin)
    elif arguments.has("describe"):
        describe(arguments, admin)
    elif arguments.has("delete"):
        delete(arguments, admin)
    elif arguments.has("reset-offsets"):
        reset(arguments, admin, group_names(arguments, admin))
    else:
        delete_offsets(arguments, admin)


def check(arguments: Arguments) -> None:
    _check_belongs(arguments)
    if sum(arguments.has(action) for action in _ACTIONS) == 0:
        raise UsageError(f"Command must include exactly one action: {', '.join('--' + name for name in _ACTIONS)}")
    if not arguments.has("validate-regex"):
        check_required(arguments, "bootstrap-server")
    has_group = arguments.has("group", "all-groups")
    if arguments.has("describe"):
        if not has_group:
            raise UsageError("Option [describe] takes one of these options: [group], [all-groups]")
        if sum(arguments.has(name) for name in ("members", "offsets", "state")) > 1:
            raise UsageError("Option [describe] takes at most one of these options: [members], [offsets], [state]")
        if arguments.has_value("state"):
            raise UsageError("Option [describe] does not take a value for [state]")
    if arguments.has("delete"):
        if not has_group:
            raise UsageError("Option [delete] takes one of these options: [group], [all-groups]")
        if arguments.has("topic"):
            raise UsageError("The consumer does not support topic-specific offset deletion from a consumer group.")
    if arguments.has("delete-offsets") and not (arguments.has("group") and arguments.has("topic")):
        raise UsageError("Option [delete-offsets] takes the following options: [group], [topic]")
    if arguments.has("reset-offsets"):
        _check_reset(arguments, has_group)
    check_excluded(arguments, "group", "all-groups", "list")
    check_excluded(arguments, "topic", "describe", "list")
    if arguments.has("list"):
        _names("state", arguments, _STATES)
        _names("type", arguments, _TYPES)


def _check_belongs(arguments: Arguments) -> None:
    for name, owners in (
        ("members", ("describe",)),
        ("offsets", ("describe",)),
        ("verbose", ("describe",)),
        ("state", ("describe", "list")),
        ("type", ("list",)),
    ):
        if arguments.has(name) and not arguments.has(*owners):
            raise ArgumentError(f"Option(s) [{name}] are unavailable given other options on the command line")


def _check_reset(arguments: Arguments, has_group: bool) -> None:
    if arguments.has("dry-run") and arguments.has("execute"):
        raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not arguments.has("dry-run", "execute"):
        print(_EXECUTE_WARNING, file=sys.stderr)
    if not has_group:
        raise UsageError("Option [reset-offsets] takes one of these options: [group], [all-groups]")
    given = [name for name in GOALS if arguments.has(name)]
    if given:
        check_excluded(arguments, given[0], *given[1:])
    if not arguments.has("topic", "all-topics", "from-file"):
        raise UsageError("One of the reset scopes should be defined: --all-topics, --topic.")


_MAX_MEMORY = 8 << 20
_REASONS = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
}
"""RE2's reasons in the words of RE2J, if they differ."""


def regex_verdict(pattern: str) -> str:
    """Checks a pattern with RE2: brokers use RE2J (KIP-848), which has the same syntax."""
    from moldau.core.transactions.pattern import compiled

    verdict = "valid"
    try:
        compiled(pattern, _MAX_MEMORY)
    except ValueError as error:
        reason = str(error).partition(":")[0]
        verdict = f"invalid: {_REASONS.get(reason, reason)}"
    return f"The regular expression `{pattern}` is {verdict}."


def _names(option: str, arguments: Arguments, known: tuple[str, ...]) -> list[str]:
    """The states or types that filter a listing, in the protocol's spelling."""
    text = arguments.text(option)
    if text is None:
        return []
    by_lower = {name.lower(): name for name in known}
    wanted = [by_lower.get(part.strip().lower()) for part in text.split(",")]
    names = [name for name in wanted if name is not None]
    if len(names) < len(wanted):
        what = "state list" if option == "state" else "types list"
        raise UsageError(f"Invalid {what} '{text}'. Valid {option}s are: {', '.join(known)}")
    return names


# --- actions ---


def group_names(arguments: Arguments, admin: ClusterAdmin) -> list[str]:
    if arguments.has("all-groups"):
        return [row.group_id for row in group_questions.list_groups(admin)]
    return list(dict.fromkeys(arguments.texts("group")))


def list_groups(arguments: Arguments, admin: ClusterAdmin) -> None:
    states, types = _names("state", arguments, _STATES), _names("type", arguments, _TYPES)
    rows = group_questions.list_groups(admin, states=states, types=types)
    if not arguments.has("state", "type"):
        for row in rows:
            print(row.group_id)
        return
    width = 10 + max([15, *(len(row.group_id) for row in rows)])
    columns = [("type", "TYPE")] if arguments.has("type") else []
    columns += [("state", "STATE")] if arguments.has("state") else []
    print(f"{'GROUP':<{width}} " + " ".join(f"{title:<20}" for _, title in columns))
    for row in rows:
        cells = {"type": (row.group_type or "Classic").capitalize(), "state": row.group_state}
        print(f"{row.group_id:<{width}} " + " ".join(f"{cells[name]:<20}" for name, _ in columns))


def describe(arguments: Arguments, admin: ClusterAdmin) -> None:
    groups = [group_questions.describe_group(admin, name) for name in group_names(arguments, admin)]
    is_verbose = arguments.has("verbose")
    if arguments.has("members"):
        print_members(groups, is_verbose=is_verbose)
    elif arguments.has("state"):
        print_states(groups, is_verbose=is_verbose)
    else:
        print_offsets(admin, groups, is_verbose=is_verbose)


def delete(arguments: Arguments, admin: ClusterAdmin) -> None:
    deleted: list[str] = []
    failed: dict[str, KafkaError] = {}
    for name in group_names(arguments, admin):
        try:
            group_questions.delete_group(admin, name)
            deleted.append(f"'{name}'")
        except KafkaError as error:
            failed[name] = error
    if not failed:
        print(f"Deletion of requested consumer groups ({', '.join(deleted)}) was successful.")
        return
    print_error("Deletion of some consumer groups failed:")
    for name, reason in failed.items():
        print(f"* Group '{name}' could not be deleted due to: {as_java_says(reason)}")
    if deleted:
        print(f"\nThese consumer groups were deleted successfully: {', '.join(deleted)}")


def delete_offsets(arguments: Arguments, admin: ClusterAdmin) -> None:
    group = arguments.required("group")
    topics = list_topics(admin)
    partitions: list[TopicPartition] = []
    unknown: list[str] = []
    for text in arguments.texts("topic"):
        topic, numbers = partitions_in(text)
        if numbers is not None:
            partitions += [TopicPartition(topic, number) for number in numbers]
        elif topic in topics:
            partitions += [TopicPartition(topic, row.index) for row in topics[topic].partitions]
        else:
            unknown.append(topic)
    error, results = group_questions.delete_offsets(admin, group, partitions)
    failed = [row for row in results.values() if row is not None]
    if error is not None and error.name not in _PARTITION_LEVEL:
        print_error(str(error))
    elif failed:
        if any(row.name in _PARTITION_LEVEL for row in failed):
            print_error("Encountered some partition-level error, see the follow-up details.")
        else:
            print_error(f"Encountered some unknown error: {failed[0]}")
    else:
        print(f"Request succeeded for deleting offsets from group {group}.")
    print(f"\n{'TOPIC':<15} {'PARTITION':<10} {'STATUS':<15}")
    for topic in unknown:
        told = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: " + (
            "This server does not host this topic-partition."
        )
        print(f"{topic:<15} {'-':<10} {'Error: ' + told:<15}")
    for partition, result in sorted(results.items()):
        status = "Successful" if result is None else f"Error: {as_java_says(result)}"
        print(f"{partition.topic:<15} {partition.partition:<10} {status:<15}")
