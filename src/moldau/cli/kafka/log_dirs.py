"""`kafka-log-dirs`: the log directories of brokers as one line of JSON."""

from __future__ import annotations

import json
from functools import partial

from moldau.cli.kafka.connection import run_on_cluster
from moldau.cli.kafka.options import (
    ArgumentError,
    Arguments,
    Option,
    bootstrap_server,
    check_required,
    command_config,
    is_number,
)
from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.error_texts import java_name
from moldau.client.admin.partitions import LogDirectory, describe_log_dirs

SUMMARY = "This tool helps to query log directory usage on the specified brokers."

OPTIONS = (
    bootstrap_server(),
    command_config(),
    Option("describe", "Print the log directories."),
    Option("broker-list", "These brokers only.", "broker ids"),
    Option("topic-list", "These topics only.", "topics"),
)


def run(arguments: Arguments) -> int:
    check_required(arguments, "bootstrap-server", "describe")
    return run_on_cluster(arguments, partial(describe, arguments), in_words=str)


def describe(arguments: Arguments, admin: ClusterAdmin) -> None:
    existing = admin.cluster().broker_ids()
    brokers = _broker_list(arguments.text("broker-list")) or existing
    unknown = [broker_id for broker_id in brokers if broker_id not in existing]
    if unknown:
        raise ArgumentError(
            f"ERROR: The given brokers do not exist from --broker-list: {_listed(unknown)}. "
            f"Current existent brokers: {_listed(existing)}"
        )
    topics = [name for name in (arguments.text("topic-list") or "").split(",") if name]
    print("Querying brokers for log directories information")
    described = [(broker_id, describe_log_dirs(admin, broker_id)) for broker_id in brokers]
    print(f"Received log directory information from brokers {_listed(brokers)}")
    document = {
        "brokers": [
            {"broker": broker_id, "logDirs": [_as_json(directory, topics) for directory in directories]}
            for broker_id, directories in described
        ],
        "version": 1,
    }
    print(json.dumps(document, separators=(",", ":"), ensure_ascii=False))


def _as_json(directory: LogDirectory, topics: list[str]) -> dict[str, object]:
    return {
        "partitions": [
            {
                "partition": str(replica.partition),
                "size": replica.size_bytes,
                "offsetLag": replica.offset_lag,
                "isFuture": replica.is_future,
            }
            for replica in directory.replicas
            if not topics or replica.partition.topic in topics
        ],
        "error": None if directory.error is None else java_name(directory.error),
        "logDir": directory.path,
    }


def _broker_list(text: str | None) -> list[int]:
    """The listed brokers without duplicates."""
    words = [word for word in (text or "").split(",") if word]
    for word in words:
        if not is_number(word, 31):
            raise ArgumentError(f'For input string: "{word}"')
    return sorted({int(word) for word in words})


def _listed(numbers: list[int]) -> str:
    return ",".join(str(number) for number in numbers)
