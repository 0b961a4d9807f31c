"""`kafka-delete-records`: deletes what lies before an offset of each partition that a JSON file names."""

from __future__ import annotations

import json
import sys

from moldau.cli.arguments import input_path
from moldau.cli.kafka.connection import open_admin
from moldau.cli.kafka.options import ArgumentError, Arguments, Option, bootstrap_server, check_required, command_config
from moldau.client.admin.error_texts import as_java_says
from moldau.client.admin.partitions import delete_records
from moldau.errors import KafkaError
from moldau.types import TopicPartition

SUMMARY = "This tool helps to delete records of the given partitions down to the specified offset."

OPTIONS = (
    bootstrap_server(),
    command_config(),
    Option(
        "offset-json-file",
        'A file of the form {"partitions": [{"topic": "foo", "partition": 1, "offset": 1}], "version": 1}; offset -1 '
        "deletes up to the high watermark.",
        "JSON file",
        is_required=True,
    ),
)


def run(arguments: Arguments) -> int:
    check_required(arguments, "bootstrap-server", "offset-json-file")
    try:
        offsets = read_offsets(arguments.required("offset-json-file"))
        with open_admin(arguments) as admin:
            print("Executing records delete operation")
            results = delete_records(admin, offsets)
    except (KafkaError, ArgumentError) as error:
        print(error, file=sys.stderr)
        return 1
    print("Records delete operation completed:")
    for partition, result in results.items():
        told = f"error: {as_java_says(result)}" if isinstance(result, KafkaError) else f"low_watermark: {result}"
        print(f"partition: {partition}\t{told}")
    return 0


def read_offsets(path: str) -> dict[TopicPartition, int]:
    """The offset before which each partition is to be cut."""
    try:
        content = json.loads(input_path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ArgumentError(f"Unable to read file {path}") from error
    except ValueError as error:
        raise ArgumentError("The input string is not a valid JSON") from error
    if not isinstance(content, dict):
        raise ArgumentError("The input string is not a valid JSON")
    if content.get("version", 1) != 1:
        raise ArgumentError(f"Not supported version field value {content['version']}")
    if "partitions" not in content:
        raise ArgumentError("Missing partitions field")
    offsets: dict[TopicPartition, int] = {}
    repeated: list[str] = []
    for row in content["partitions"]:
        for field in ("topic", "partition", "offset"):
            if field not in row:
                raise ArgumentError(f"No such field exists: `{field}`")
        partition = TopicPartition(str(row["topic"]), int(row["partition"]))
        if partition in offsets:
            repeated.append(str(partition))
        offsets[partition] = int(row["offset"])
    if repeated:
        raise ArgumentError(f"Offset json file contains duplicate topic partitions: {','.join(repeated)}")
    return offsets
