"""`kafka-transactions`: lists and describes transactions, finds hanging ones, aborts them."""

from __future__ import annotations

import time
from functools import partial
from typing import NoReturn

from moldau.cli.kafka.connection import run_on_cluster
from moldau.cli.kafka.options import (
    ArgumentError,
    Arguments,
    Option,
    bootstrap_server,
    check_required,
    command_config,
)
from moldau.cli.kafka.subcommands import ClusterCommand, chosen_command
from moldau.cli.kafka.tables import print_table
from moldau.client.admin import transactions
from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.topics import list_topics
from moldau.errors import KafkaError
from moldau.types import TopicPartition

SUMMARY = (
    "This tool is used to analyze the transactional state of producers in the cluster. It can be used to detect and "
    "recover from hanging transactions.\n\nusage: kafka-transactions --bootstrap-server HOST:PORT COMMAND ...\n\n"
    "commands: list, describe, describe-producers, abort, find-hanging, forceTerminateTransaction"
)

OPTIONS = (
    bootstrap_server(),
    command_config(),
    Option("duration-filter", "list: only transactions that run longer; below 0, all.", "ms", kind="long"),
    Option("transactional-id-pattern", "list: only ids that this regular expression matches.", "pattern"),
    Option("transactional-id", "describe: the transactional id.", "id"),
    Option("transactionalId", "forceTerminateTransaction: the transactional id.", "id"),
    Option("topic", "abort, describe-producers, find-hanging: the topic.", "topic"),
    Option("partition", "abort, describe-producers, find-hanging: the partition.", "number", kind="int"),
    Option("broker-id", "describe-producers, find-hanging: the replica on this broker.", "id", kind="int"),
    Option("start-offset", "abort: where the transaction begins on the partition.", "offset", kind="long"),
    Option("producer-id", "abort, without --start-offset: the producer id.", "id", kind="long"),
    Option("producer-epoch", "abort, with --producer-id: the producer epoch.", "epoch", kind="int"),
    Option("coordinator-epoch", "abort, with --producer-id: the coordinator epoch.", "epoch", kind="int"),
    Option(
        "max-transaction-timeout",
        "find-hanging: the longest that a transaction may take, in minutes.",
        "minutes",
        kind="int",
        default="15",
    ),
)
_LIST_COLUMNS = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
_DESCRIBE_COLUMNS = (
    "CoordinatorId",
    "TransactionalId",
    "ProducerId",
    "ProducerEpoch",
    "TransactionState",
    "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "TopicPartitions",
)
_PRODUCER_COLUMNS = (
    "ProducerId",
    "ProducerEpoch",
    "LatestCoordinatorEpoch",
    "LastSequence",
    "LastTimestamp",
    "CurrentTransactionStartOffset",
)
_HANGING_COLUMNS = (
    "Topic",
    "Partition",
    "ProducerId",
    "ProducerEpoch",
    "CoordinatorEpoch",
    "StartOffset",
    "LastTimestamp",
    "Duration(min)",
)
_NOTHING_OPEN = "None"
_MINUTE_MS = 60_000


def run(arguments: Arguments) -> int:
    command = chosen_command(arguments, COMMANDS, SUMMARY)
    check_required(arguments, "bootstrap-server")
    return run_on_cluster(arguments, partial(command.run, arguments), in_words=str)


def _list(arguments: Arguments, admin: ClusterAdmin) -> None:
    duration_ms = arguments.integer("duration-filter")
    try:
        found = transactions.list_transactions(
            admin,
            longer_than_ms=-1 if duration_ms is None else duration_ms,
            pattern=arguments.text("transactional-id-pattern"),
        )
    except KafkaError as error:
        _fail("Failed to list transactions", error)
    print_table(
        _LIST_COLUMNS, [(row.transactional_id, row.coordinator_id, row.producer_id, row.state) for row in found]
    )


def _describe(arguments: Arguments, admin: ClusterAdmin) -> None:
    transactional_id = arguments.required("transactional-id")
    try:
        found = transactions.describe_transaction(admin, transactional_id)
    except KafkaError as error:
        reason = str(error)
        if error.name == "TRANSACTIONAL_ID_NOT_FOUND":
            asked = f"DescribeTransactions request for transactionalId `{transactional_id}`"
            reason = f"{asked} failed because the ID could not be found"
        _fail(f"Failed to describe transaction state of transactional-id `{transactional_id}`", reason)
    is_open = found.start_time_ms >= 0
    row = (
        found.coordinator_id,
        found.transactional_id,
        found.producer_id,
        found.producer_epoch,
        found.state,
        found.timeout_ms,
        found.start_time_ms if is_open else _NOTHING_OPEN,
        _now_ms() - found.start_time_ms if is_open else _NOTHING_OPEN,
        ",".join(map(str, found.partitions)),
    )
    print_table(_DESCRIBE_COLUMNS, [row])


def _describe_producers(arguments: Arguments, admin: ClusterAdmin) -> None:
    partition, broker_id = _partition(arguments), arguments.integer("broker-id")
    try:
        found = transactions.describe_producers(admin, [partition], broker_id)[partition]
        if isinstance(found, KafkaError):
            raise found
    except KafkaError as error:
        where = "leader" if broker_id is None else f"broker {broker_id}"
        _fail(f"Failed to describe producers for partition {partition} on {where}", error)
    rows = [
        (
            row.producer_id,
            row.producer_epoch,
            row.coordinator_epoch,
            row.last_sequence,
            row.last_timestamp_ms,
            row.start_offset if row.start_offset >= 0 else _NOTHING_OPEN,
        )
        for row in found
    ]
    print_table(_PRODUCER_COLUMNS, rows)


def _abort(arguments: Arguments, admin: ClusterAdmin) -> None:
    partition, start_offset = _partition(arguments), arguments.integer("start-offset")
    producer_id = arguments.integer("producer-id")
    if start_offset is None and producer_id is None:
        raise ArgumentError(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or "
            "with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    if start_offset is not None:
        producer = _producer_at(admin, partition, start_offset)
        producer_id, epochs = producer.producer_id, (producer.producer_epoch, producer.coordinator_epoch)
    else:
        epochs = _epoch(arguments, "producer-epoch"), _epoch(arguments, "coordinator-epoch")
    try:
        transactions.abort_transaction(
            admin,
            partition,
            producer_id=producer_id or 0,
            producer_epoch=epochs[0],
            coordinator_epoch=epochs[1],
        )
    except KafkaError as error:
        spec = (
            f"AbortTransactionSpec(topicPartition={partition}, producerId={producer_id}, producerEpoch={epochs[0]}, "
            f"coordinatorEpoch={max(epochs[1], 0)})"
        )
        _fail(f"Failed to abort transaction {spec}", error)


def _producer_at(admin: ClusterAdmin, partition: TopicPartition, start_offset: int) -> transactions.ProducerDescription:
    try:
        found = transactions.open_transaction_at(admin, partition, start_offset)
    except KafkaError as error:
        _fail(f"Failed to validate producer state for partition {partition}", error)
    if found is None:
        raise ArgumentError(
            f"Could not find any open transactions starting at offset {start_offset} on partition {partition}"
        )
    return found


def _epoch(arguments: Arguments, name: str) -> int:
    epoch = arguments.integer(name)
    if epoch is None:
        raise ArgumentError(f"Missing required argument --{name}")
    return epoch


def _find_hanging(arguments: Arguments, admin: ClusterAdmin) -> None:
    broker_id, topic, index = arguments.integer("broker-id"), arguments.text("topic"), arguments.integer("partition")
    if topic is None and broker_id is None:
        raise ArgumentError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )
    if topic is None and index is not None:
        raise ArgumentError("The --partition argument requires --topic to be provided")
    partitions = [TopicPartition(topic or "", index)] if index is not None else _to_search(admin, topic, broker_id)
    now_ms = _now_ms()
    found, failed = transactions.find_hanging(
        admin,
        partitions,
        broker_id=broker_id,
        longer_than_ms=(arguments.integer("max-transaction-timeout") or 0) * _MINUTE_MS,
        now_ms=now_ms,
    )
    for partition, error in failed.items():
        _fail(f"Failed to describe producers for partition {partition}", error)
    rows = [
        (
            one.partition.topic,
            one.partition.partition,
            one.producer.producer_id,
            one.producer.producer_epoch,
            one.producer.coordinator_epoch,
            one.producer.start_offset,
            one.producer.last_timestamp_ms,
            (now_ms - one.producer.last_timestamp_ms) // _MINUTE_MS,
        )
        for one in found
    ]
    print_table(_HANGING_COLUMNS, rows)


def _to_search(admin: ClusterAdmin, topic: str | None, broker_id: int | None) -> list[TopicPartition]:
    """The partitions to search: those of this topic, or of all, on this broker, or on any."""
    known = list_topics(admin)
    if topic is not None and topic not in known:
        raise ArgumentError(f"Failed to describe topic {topic}: there is no such topic")
    return [
        TopicPartition(name, partition.index)
        for name, described in known.items()
        if topic in (None, name)
        for partition in described.partitions
        if broker_id is None or broker_id in partition.replicas
    ]


def _terminate(arguments: Arguments, admin: ClusterAdmin) -> None:
    transactional_id = arguments.required("transactionalId")
    try:
        transactions.terminate_transaction(admin, transactional_id)
    except KafkaError as error:
        _fail(f"Failed to force terminate transactionalId `{transactional_id}`", error)


COMMANDS = {
    "list": ClusterCommand(optional=("duration-filter", "transactional-id-pattern"), run=_list),
    "describe": ClusterCommand(required=("transactional-id",), run=_describe),
    "describe-producers": ClusterCommand(
        required=("topic", "partition"), optional=("broker-id",), run=_describe_producers
    ),
    "abort": ClusterCommand(
        required=("topic", "partition"),
        optional=("start-offset", "producer-id", "producer-epoch", "coordinator-epoch"),
        run=_abort,
    ),
    "find-hanging": ClusterCommand(
        optional=("broker-id", "topic", "partition", "max-transaction-timeout"), run=_find_hanging
    ),
    "forceTerminateTransaction": ClusterCommand(required=("transactionalId",), run=_terminate),
}


def _partition(arguments: Arguments) -> TopicPartition:
    return TopicPartition(arguments.required("topic"), arguments.integer("partition") or 0)


def _now_ms() -> int:
    return int(time.time() * 1000)


def _fail(what: str, reason: object) -> NoReturn:
    raise ArgumentError(f"{what}: {reason}. Enable debug logging for additional detail.")
