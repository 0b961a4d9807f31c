"""`kafka-reassign-partitions`: moves replicas to other brokers, and shows the progress."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import partial

from moldau.cli.kafka.connection import open_admin
from moldau.cli.kafka.options import (
    ArgumentError,
    Arguments,
    Option,
    UsageError,
    bootstrap_server,
    check_required,
    command_config,
)
from moldau.cli.kafka.reassignment_files import LogDirs, Replicas, read_reassignment, read_topics, written
from moldau.cli.kafka.replica_moves import DEFAULT_TIMEOUT_MS, is_under_way, move_replicas, places, plural, standing
from moldau.cli.kafka.subcommands import BOOTSTRAP_CONTROLLER
from moldau.client.admin.brokers import describe_cluster
from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.error_texts import as_java_says
from moldau.client.admin.partitions import list_reassignments
from moldau.client.admin.reassignments import end_throttles, reassign, throttle, throttle_log_dirs
from moldau.client.admin.topics import describe_topics, list_topics
from moldau.core.controller.placement import place_replicas
from moldau.core.metadata.image import BrokerImage
from moldau.errors import KafkaError
from moldau.shell.io.random import SystemRandom
from moldau.types import ZERO_UUID, BrokerId, TopicPartition

SUMMARY = "This tool helps to move topic partitions between replicas."

OPTIONS = (
    bootstrap_server(is_required=False),
    BOOTSTRAP_CONTROLLER,
    command_config(),
    Option("generate", "Propose where the partitions of topics could go; nothing is moved."),
    Option("execute", "Begin to move the partitions of a file."),
    Option("verify", "Tell how far the moves of a file are; end the throttles when all are done."),
    Option("cancel", "End the moves of a file that are under way."),
    Option("list", "Show all moves that are under way."),
    Option("topics-to-move-json-file", 'With --generate: {"topics": [{"topic": "a"}], "version": 1}', "file"),
    Option("broker-list", "With --generate: the brokers that partitions may go to.", "1,2,3"),
    Option("reassignment-json-file", "The partitions and their replicas, as --generate prints them.", "file"),
    Option("disable-rack-aware", "With --generate: do not look at racks."),
    Option("throttle", "With --execute: how many bytes/s a broker may copy for the moves.", "bytes/s", kind="long"),
    Option(
        "replica-alter-log-dirs-throttle",
        "With --execute: how many bytes/s a broker may copy from one of its log directories to another.",
        "bytes/s",
        kind="long",
    ),
    Option(
        "timeout",
        "With --execute and --cancel: how many ms the moves to log directories may take to begin (default 10000).",
        "ms",
        kind="long",
    ),
    Option("disallow-replication-factor-change", "With --execute: refuse more or fewer replicas than now."),
    Option("additional", "With --execute: also while other moves are under way."),
    Option("preserve-throttles", "With --verify and --cancel: leave the throttles."),
)
_ACTIONS = ("generate", "execute", "verify", "cancel", "list")
_REQUIRED = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "verify": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
_PERMITTED = {
    "generate": ("disable-rack-aware",),
    "execute": (
        *("throttle", "replica-alter-log-dirs-throttle", "timeout"),
        *("additional", "disallow-replication-factor-change"),
    ),
    "verify": ("preserve-throttles",),
    "cancel": ("preserve-throttles", "timeout"),
    "list": (),
}
_UNDER_WAY = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create "
    "a new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)
Assignment = dict[TopicPartition, Replicas]


def run(arguments: Arguments) -> int:
    """Prints errors on standard output, as Kafka's tool does."""
    action = _checked(arguments)
    work = {"generate": _generate, "execute": _execute, "verify": _verify, "cancel": _cancel, "list": _list}[action]
    try:
        act = partial(work, arguments)
        with open_admin(arguments) as admin:
            act(admin)
    except _TerseError as error:
        print(error)
        return 1
    except (ArgumentError, KafkaError) as error:
        print(f"Error: {as_java_says(error) if isinstance(error, KafkaError) else error}")
        return 1
    return 0


class _TerseError(ArgumentError):
    """An error that Kafka's tool prints without `Error: `."""


def _checked(arguments: Arguments) -> str:
    """The single action. Raises UsageError."""
    actions = [action for action in _ACTIONS if arguments.has(action)]
    if not arguments.in_order:
        raise UsageError(SUMMARY)
    if len(actions) != 1:
        listed = ", ".join(f"--{action}" for action in _ACTIONS)
        raise UsageError(f"Command must include exactly one action: {listed}")
    [action] = actions
    if arguments.has("bootstrap-server") and arguments.has("bootstrap-controller"):
        raise UsageError("Please don't specify both --bootstrap-server and --bootstrap-controller")
    if not arguments.has("bootstrap-server", "bootstrap-controller"):
        raise UsageError("Please specify either --bootstrap-server or --bootstrap-controller")
    check_required(arguments, *_REQUIRED[action])
    anywhere = ("bootstrap-server", "bootstrap-controller", "command-config", action)
    for name, _ in arguments.in_order:
        if name not in (*anywhere, *_REQUIRED[action], *_PERMITTED[action]):
            raise UsageError(f'Option "[{name}]" can\'t be used with action "[{action}]"')
    return action


# --- generate ---


def _generate(arguments: Arguments, admin: ClusterAdmin) -> None:
    topics = read_topics(arguments.required("topics-to-move-json-file"))
    brokers = _brokers(arguments.required("broker-list"))
    current = _assignment(admin, topics)
    print(f"Current partition replica assignment\n{written(current, _log_dirs_now(admin, current))}\n")
    print(f"Proposed partition reassignment configuration\n{written(_proposed(arguments, admin, current, brokers))}")


def _brokers(text: str) -> list[int]:
    brokers = []
    for word in text.split(","):
        if not word.strip().isdecimal():
            raise ArgumentError(f'For input string: "{word}"')
        brokers.append(int(word))
    twice = [broker for broker in dict.fromkeys(brokers) if brokers.count(broker) > 1]
    if twice:
        raise ArgumentError(f"Broker list contains duplicate entries: {twice}")
    return brokers


def _proposed(arguments: Arguments, admin: ClusterAdmin, current: Assignment, brokers: list[int]) -> Assignment:
    """An assignment as the controller would place new topics on these brokers."""
    known = {row.broker_id: row.rack for row in describe_cluster(admin).brokers if row.broker_id in brokers}
    racks = dict.fromkeys(known) if arguments.has("disable-rack-aware") else known
    if 0 < sum(rack is None for rack in racks.values()) < len(racks):
        raise ArgumentError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information."
        )
    targets = [
        BrokerImage(BrokerId(broker), 0, ZERO_UUID, (), rack=rack, is_fenced=False) for broker, rack in racks.items()
    ]
    proposed: Assignment = {}
    for topic in dict.fromkeys(partition.topic for partition in current):
        rows = [row for row in current if row.topic == topic]
        placed = place_replicas(len(rows), len(current[rows[0]]), targets, SystemRandom())
        proposed |= dict(zip(rows, placed, strict=True))
    return proposed


def _assignment(admin: ClusterAdmin, topics: Iterable[str]) -> Assignment:
    described = describe_topics(admin, list(dict.fromkeys(topics)))
    return {
        TopicPartition(name, row.index): row.replicas for name, topic in described.items() for row in topic.partitions
    }


def _log_dirs_now(admin: ClusterAdmin, current: Assignment) -> LogDirs:
    """The log directories of the brokers that answer."""
    serving = admin.cluster().broker_ids()
    replicas = [
        (partition, broker) for partition, brokers in current.items() for broker in brokers if broker in serving
    ]
    return {replica: now for replica, (now, _) in places(admin, replicas).items() if now}


# --- execute, cancel, list ---


def _execute(arguments: Arguments, admin: ClusterAdmin) -> None:
    wanted, log_dirs = read_reassignment(arguments.required("reassignment-json-file"))
    known = admin.cluster().broker_ids()
    unknown = [broker for replicas in wanted.values() for broker in replicas if broker not in known]
    if unknown:
        raise ArgumentError(f"Unknown broker id {unknown[0]}")
    if not arguments.has("additional") and list_reassignments(admin):
        raise _TerseError(_UNDER_WAY)
    every = _assignment(admin, [partition.topic for partition in wanted])
    absent = [partition for partition in wanted if partition not in every]
    if absent:
        raise ArgumentError(f"Unable to find partition: {absent[0]}")
    current = {partition: every[partition] for partition in wanted}
    print(f"Current partition replica assignment\n\n{written(current, _log_dirs_now(admin, current))}\n")
    print("Save this to use as the --reassignment-json-file option during rollback")
    _set_throttles(arguments, admin, current, wanted, log_dirs)
    may_change_factor = not arguments.has("disallow-replication-factor-change")
    _raise_refused("Error reassigning partition(s):", reassign(admin, {**wanted}, may_change_factor=may_change_factor))
    print(f"Successfully started partition reassignment{plural(wanted)} for {_listed(wanted)}")
    move_replicas(admin, log_dirs, _timeout_ms(arguments))


def _timeout_ms(arguments: Arguments) -> int:
    timeout_ms = arguments.integer("timeout")
    return DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms


def _set_throttles(
    arguments: Arguments, admin: ClusterAdmin, current: Assignment, wanted: Assignment, log_dirs: LogDirs
) -> None:
    """Sets the requested throttles; a negative number means no throttle."""
    between_brokers, between_dirs = (
        -1 if rate is None else rate
        for rate in (arguments.integer("throttle"), arguments.integer("replica-alter-log-dirs-throttle"))
    )
    if between_brokers < 0 and between_dirs < 0:
        return
    print(
        "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is "
        "removed."
    )
    if between_brokers >= 0:
        throttle(admin, current, wanted, between_brokers)
        print(f"The inter-broker throttle limit was set to {between_brokers} B/s")
    if between_dirs >= 0:
        throttle_log_dirs(admin, {broker for _, broker in log_dirs}, between_dirs)
        print(f"The replica-alter-dir throttle limit was set to {between_dirs} B/s")


def _raise_refused(title: str, results: Mapping[TopicPartition, KafkaError | None]) -> None:
    refused = {partition: error for partition, error in results.items() if error is not None}
    if refused:
        lines = [f"{partition}: {error.message}" for partition, error in sorted(refused.items(), key=str)]
        raise _TerseError("\n".join((title, *lines)))


def _cancel(arguments: Arguments, admin: ClusterAdmin) -> None:
    wanted, log_dirs = read_reassignment(arguments.required("reassignment-json-file"))
    active = [partition for partition in wanted if partition in list_reassignments(admin)]
    if active:
        title = f"Error cancelling partition reassignment{plural(active)} for:"
        _raise_refused(title, reassign(admin, dict.fromkeys(active)))
        print(f"Successfully cancelled partition reassignment{plural(active)} for: {_listed(active)}")
    else:
        print("None of the specified partition reassignments are active.")
    back = {replica: now for replica, (now, future) in places(admin, log_dirs).items() if now and future}
    if back:
        move_replicas(admin, back, _timeout_ms(arguments))
    else:
        sys.stdout.write("None of the specified partition moves are active.")
    if not arguments.has("preserve-throttles"):
        _end_throttles(admin, wanted)


def _list(_: Arguments, admin: ClusterAdmin) -> None:
    moving = list_reassignments(admin)
    if not moving:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for partition, (replicas, adding, removing) in sorted(moving.items(), key=lambda item: str(item[0])):
        added = f" adding: {','.join(map(str, adding))}." if adding else ""
        removed = f" removing: {','.join(map(str, removing))}." if removing else ""
        print(f"{partition}: replicas: {','.join(map(str, replicas))}.{added}{removed}")


# --- verify ---


def _verify(arguments: Arguments, admin: ClusterAdmin) -> None:
    wanted, log_dirs = read_reassignment(arguments.required("reassignment-json-file"))
    moving = list_reassignments(admin)
    known = list_topics(admin)
    current = _assignment(admin, [partition.topic for partition in wanted if partition.topic in known])
    print("Status of partition reassignment:")
    for partition, replicas in sorted(wanted.items(), key=lambda item: (item[0].topic, item[0].partition)):
        found = current.get(partition, ())
        if partition in moving:
            print(f"Reassignment of partition {partition} is still in progress.")
        elif found == replicas:
            print(f"Reassignment of partition {partition} is completed.")
        else:
            shown = [",".join(map(str, each)) for each in (found, replicas)]
            print(
                f"There is no active reassignment of partition {partition}, but replica set is {shown[0]} rather than "
                f"{shown[1]}."
            )
    found_places = places(admin, log_dirs)
    print("\n".join(standing(replica, place, log_dirs[replica]) for replica, place in found_places.items()))
    # the same broker settings throttle moves that another file began
    is_busy = bool(moving) or any(map(is_under_way, found_places.values()))
    if not arguments.has("preserve-throttles") and not is_busy:
        _end_throttles(admin, wanted)


def _end_throttles(admin: ClusterAdmin, wanted: Assignment) -> None:
    """Covers all brokers: the file no longer names a broker that a replica has left."""
    named = {broker for replicas in wanted.values() for broker in replicas}
    brokers = sorted(named.union(admin.cluster().broker_ids()))
    topics = sorted({partition.topic for partition in wanted})
    print(f"Clearing broker-level throttles on broker{plural(brokers)} {','.join(map(str, brokers))}")
    end_throttles(admin, brokers, ())
    print(f"Clearing topic-level throttles on topic{plural(topics)} {','.join(topics)}")
    end_throttles(admin, (), topics)


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return ",".join(str(each) for each in sorted(partitions, key=lambda each: (each.topic, each.partition)))
