"""`kafka-topics`: create, list, describe, alter and delete topics."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import msgspec

from moldau.cli.kafka.connection import open_admin
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
from moldau.client.admin import topics as topic_questions
from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.configs import DEFAULT_CONFIG, TOPIC, Setting, describe_configs
from moldau.client.admin.partitions import list_reassignments
from moldau.client.admin.topics import PartitionDescription, TopicDescription
from moldau.errors import KafkaError
from moldau.types import ZERO_UUID, TopicPartition, Uuid, uuid_to_text

SUMMARY = "This tool helps to create, delete, describe, or change a topic."

OPTIONS = (
    bootstrap_server(),
    command_config(),
    Option("create", "Create a topic."),
    Option("list", "Print the names of the topics."),
    Option("describe", "Print topics with their partitions."),
    Option("alter", "Add partitions to a topic."),
    Option("delete", "Delete topics with all their records."),
    Option("topic", "The topic; a regular expression, except with --create.", "topic"),
    Option("topic-id", "Describe the topic of this id.", "topic id"),
    Option("partitions", "The number of partitions of the topic.", "# of partitions", kind="int"),
    Option("replication-factor", "The number of replicas of each partition.", "replication factor", kind="int"),
    Option(
        "replica-assignment",
        "The brokers of each partition's replicas, partitions separated by commas, brokers by colons.",
        "1:2,2:3,...",
    ),
    Option("config", "A setting of the new topic; may be repeated.", "name=value"),
    Option("delete-config", "No longer supported, does nothing.", "name", is_deprecated=True),
    Option("if-exists", "Do nothing where the topic does not exist."),
    Option("if-not-exists", "Do nothing where the topic exists."),
    Option("exclude-internal", "Leave out the topics of the broker itself."),
    Option("topics-with-overrides", "Describe only topics with their own settings, without partitions."),
    Option("unavailable-partitions", "Describe only partitions without a leader that lives."),
    Option("under-replicated-partitions", "Describe only partitions with replicas out of sync."),
    Option("under-min-isr-partitions", "Describe only partitions with fewer replicas in sync than required."),
    Option("at-min-isr-partitions", "Describe only partitions with no more replicas in sync than required."),
    Option(
        "partition-size-limit-per-response",
        "How many partitions one answer of the broker may hold.",
        "# of partitions",
        kind="int",
    ),
)

_ACTIONS = ("create", "list", "alter", "describe", "delete")
_REPORTS = (
    "under-replicated-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "unavailable-partitions",
)
_ALLOWED_WITH = {
    "config": ("alter", "create"),
    "partitions": ("alter", "create"),
    "replication-factor": ("create",),
    "replica-assignment": ("alter", "create"),
    "topics-with-overrides": ("describe",),
    **dict.fromkeys(_REPORTS, ("describe",)),
    "if-exists": ("alter", "delete", "describe"),
    "if-not-exists": ("create",),
    "exclude-internal": ("list", "describe"),
}
_COLLISION_WARNING = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)
_CONFIG_FORMAT = 'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
_DEFAULT_PAGE = 2_000
_MAX_REPLICATION_FACTOR = 32_767


def run(arguments: Arguments) -> int:
    check(arguments)
    if arguments.has("delete-config"):
        print(
            "delete-config option is no longer supported and deprecated since version 4.0. "
            "The config will be fully removed in future releases.",
            file=sys.stderr,
        )
    actions: dict[str, Callable[[Arguments, ClusterAdmin], None]] = {
        "create": create,
        "alter": alter,
        "list": list_names,
        "describe": describe,
        "delete": delete,
    }
    action = next(action for name, action in actions.items() if arguments.has(name))
    try:
        with open_admin(arguments) as admin:
            action(arguments, admin)
    except (KafkaError, ArgumentError) as error:
        print(f"Error while executing topic command : {error}")
        return 1
    return 0


def check(arguments: Arguments) -> None:
    if sum(arguments.has(name) for name in _ACTIONS) != 1:
        raise UsageError("Command must include exactly one action: --list, --describe, --create, --alter or --delete")
    if not arguments.has("bootstrap-server"):
        raise ArgumentError("--bootstrap-server must be specified")
    if arguments.has("describe") and arguments.has("if-exists") and not arguments.has("topic", "topic-id"):
        raise UsageError("--topic or --topic-id is required to describe a topic")
    if not arguments.has("list", "describe"):
        check_required(arguments, "topic")
    if arguments.has("alter"):
        if arguments.has("config"):
            raise UsageError(
                'Option combination "[[bootstrap-server], [config]]" can\'t be used with option "[alter]" '
                "(To alter topic configurations, the kafka-configs tool can be used.)"
            )
        check_required(arguments, "partitions")
    for name, allowed in _ALLOWED_WITH.items():
        check_excluded(arguments, name, *(action for action in _ACTIONS if action not in allowed))
    if arguments.has("create"):
        check_excluded(arguments, "replica-assignment", "partitions", "replication-factor")
    for report in _REPORTS:
        check_excluded(arguments, report, "topics-with-overrides")


# --- actions ---


def create(arguments: Arguments, admin: ClusterAdmin) -> None:
    name = arguments.required("topic")
    if "." in name or "_" in name:
        print(_COLLISION_WARNING)
    configs: dict[str, str] = {}
    for text in arguments.texts("config"):
        parts = re.split(r"\s*=\s*", text)
        if len(parts) != 2 or not parts[1]:
            raise ArgumentError(_CONFIG_FORMAT)
        configs[parts[0].strip()] = parts[1].strip()
    partitions, replication_factor = arguments.integer("partitions"), arguments.integer("replication-factor")
    if partitions is not None and partitions < 1:
        raise ArgumentError("The partitions must be greater than 0")
    if replication_factor is not None and not 1 <= replication_factor <= _MAX_REPLICATION_FACTOR:
        raise ArgumentError("The replication factor must be between 1 and 32767 inclusive")
    try:
        topic_questions.create_topic(
            admin,
            name,
            partitions=topic_questions.BY_DEFAULT if partitions is None else partitions,
            replication_factor=topic_questions.BY_DEFAULT if replication_factor is None else replication_factor,
            assignment=parse_replica_assignment(arguments.text("replica-assignment")),
            configs=configs,
        )
    except KafkaError as error:
        if error.name == "TOPIC_ALREADY_EXISTS" and arguments.has("if-not-exists"):
            return
        raise
    print(f"Created topic {name}.")


def parse_replica_assignment(text: str | None) -> list[list[int]]:
    """[[1, 2], [2, 3]] of "1:2,2:3". Raises ArgumentError for repeated brokers and lists of different lengths."""
    if not text:
        return []
    assignment: list[list[int]] = []
    for part in text.split(","):
        try:
            brokers = [int(broker.strip()) for broker in part.split(":")]
        except ValueError as error:
            raise ArgumentError(f'For input string: "{part}"') from error
        repeated = sorted({broker for broker in brokers if brokers.count(broker) > 1})
        if repeated:
            listed = ",".join(str(broker) for broker in repeated)
            raise ArgumentError(f"Partition replica lists may not contain duplicate entries: {listed}")
        assignment.append(brokers)
        if len(brokers) != len(assignment[0]):
            raise ArgumentError(f"Partition {len(assignment) - 1} has different replication factor: {brokers}")
    return assignment


def list_names(arguments: Arguments, admin: ClusterAdmin) -> None:
    print("\n".join(matching(topic_questions.list_topics(admin), arguments)))


def alter(arguments: Arguments, admin: ClusterAdmin) -> None:
    topics = topic_questions.list_topics(admin)
    names = matching(topics, arguments)
    check_exists(names, arguments)
    assignment = parse_replica_assignment(arguments.text("replica-assignment"))
    count = arguments.integer("partitions") or 0
    for name in names:
        has = len(topics[name].partitions)
        added = assignment[has:]
        if assignment and not added and count > has:
            # without assignments, the controller would choose the brokers
            raise ArgumentError(
                f"Attempted to add {count - has} additional partition(s), but only 0 assignment(s) were specified."
            )
        topic_questions.create_partitions(admin, name, count, added)


def delete(arguments: Arguments, admin: ClusterAdmin) -> None:
    names = matching(topic_questions.list_topics(admin), arguments)
    check_exists(names, arguments)
    for name in names:
        topic_questions.delete_topic(admin, name)


def matching(topics: dict[str, TopicDescription], arguments: Arguments) -> list[str]:
    """The names that match `--topic` (all without it) and `--exclude-internal`, sorted."""
    pattern = topic_pattern(arguments.text("topic"))
    excluded = arguments.has("exclude-internal")
    return [
        name
        for name, topic in topics.items()
        if (pattern is None or pattern.fullmatch(name)) and not (excluded and topic.is_internal)
    ]


def topic_pattern(text: str | None) -> re.Pattern[str] | None:
    """Kafka's reading of a topic expression: commas mean "or", and surrounding blanks and quotes are dropped."""
    if text is None:
        return None
    cleaned = text.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        return re.compile(cleaned)
    except re.error as error:
        raise ArgumentError(f"{cleaned} is an invalid regex.") from error


def check_exists(names: list[str], arguments: Arguments) -> None:
    if not names and arguments.has("topic") and not arguments.has("if-exists"):
        raise ArgumentError(f"Topic '{arguments.text('topic')}' does not exist as expected")


# --- describe ---


class _View(msgspec.Struct, frozen=True):
    """The facts that decide which partitions of a topic are shown."""

    reports: tuple[str, ...]
    live_brokers: tuple[int, ...]
    min_isr: int
    moving: dict[TopicPartition, tuple[tuple[int, ...], tuple[int, ...]]]
    """Partitions that are being reassigned: replicas added, replicas removed."""

    def is_shown(self, topic: str, partition: PartitionDescription) -> bool:
        if not self.reports:
            return True
        adding, _ = self.moving.get(TopicPartition(topic, partition.index), ((), ()))
        is_true = {
            # replicas that a reassignment adds do not count as missing (KIP-352)
            "under-replicated-partitions": len(partition.isr) < len(partition.replicas) - len(adding),
            "under-min-isr-partitions": len(partition.isr) < self.min_isr,
            "at-min-isr-partitions": len(partition.isr) == self.min_isr,
            "unavailable-partitions": partition.leader_id not in self.live_brokers,
        }
        return any(is_true[report] for report in self.reports)


def describe(arguments: Arguments, admin: ClusterAdmin) -> None:
    topics = _described(arguments, admin)
    if not topics:
        return
    settings = describe_configs(admin, TOPIC, [topic.name for topic in topics])
    reports = tuple(report for report in _REPORTS if arguments.has(report))
    live_brokers = tuple(admin.cluster().broker_ids())
    moving = _moving(admin)
    only_overrides = arguments.has("topics-with-overrides")
    for topic in topics:
        own = [setting for setting in settings.get(topic.name, ()) if setting.config_source != DEFAULT_CONFIG]
        if not reports and (own or not only_overrides):
            _print_topic(topic, own)
        if only_overrides:
            continue
        min_isr = next((s.value for s in settings.get(topic.name, ()) if s.name == "min.insync.replicas"), "1")
        view = _View(reports, live_brokers, int(min_isr or 1), moving)
        for partition in topic.partitions:
            if view.is_shown(topic.name, partition):
                _print_partition(topic.name, partition, view)


def _described(arguments: Arguments, admin: ClusterAdmin) -> list[TopicDescription]:
    topics = topic_questions.list_topics(admin)
    id_text = arguments.text("topic-id")
    if id_text is not None:
        topic_id = parse_topic_id(id_text)
        known = [topic for topic in topics.values() if topic.topic_id == topic_id and topic_id != ZERO_UUID]
        if not known and not arguments.has("if-exists"):
            raise ArgumentError(f"TopicId '{id_text}' does not exist as expected")
        # for a topic id, the response lacks eligible leaders
        return known
    names = matching(topics, arguments)
    check_exists(names, arguments)
    page = arguments.integer("partition-size-limit-per-response") or _DEFAULT_PAGE
    described = topic_questions.describe_topics(admin, names, page_size=page)
    return [described[name] for name in names]


def parse_topic_id(text: str) -> Uuid:
    from base64 import urlsafe_b64decode

    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError as error:
        raise ArgumentError(f"Input string `{text}` is not a base64-encoded UUID") from error
    if len(raw) != 16:
        raise ArgumentError(
            f"Input string `{text}` decoded as {len(raw)} bytes, which is not equal to the expected 16 bytes of a "
            "base64-encoded UUID"
        )
    return Uuid(raw)


def _moving(admin: ClusterAdmin) -> dict[TopicPartition, tuple[tuple[int, ...], tuple[int, ...]]]:
    try:
        return {row: (adding, removing) for row, (_, adding, removing) in list_reassignments(admin).items()}
    except KafkaError as error:
        if error.name != "UNSUPPORTED_VERSION":
            raise
        return {}


def _print_topic(topic: TopicDescription, own: list[Setting]) -> None:
    topic_id = "" if topic.topic_id == ZERO_UUID else f"\tTopicId: {uuid_to_text(topic.topic_id)}"
    print(
        f"Topic: {topic.name}{topic_id}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {topic.replication_factor}"
        f"\tConfigs: {','.join(f'{setting.name}={setting.value}' for setting in own)}"
    )


def _print_partition(topic: str, partition: PartitionDescription, view: _View) -> None:
    leader = "none" if partition.leader_id < 0 else partition.leader_id
    line = (
        f"\tTopic: {topic}\tPartition: {partition.index}\tLeader: {leader}"
        f"\tReplicas: {_listed(partition.replicas)}\tIsr: {_listed(partition.isr)}"
    )
    moving = view.moving.get(TopicPartition(topic, partition.index))
    if moving is not None:
        line += f"\tAdding Replicas: {_listed(moving[0])}\tRemoving Replicas: {_listed(moving[1])}"
    print(f"{line}\tElr: {_listed(partition.elr)}\tLastKnownElr: {_listed(partition.last_known_elr)}")


def _listed(brokers: tuple[int, ...] | None) -> str:
    return "N/A" if brokers is None else ",".join(str(broker) for broker in brokers)
