"""`kafka-delete-records`: deletes records before the offsets that a JSON file names."""

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
    """For each partition, the offset before which records are deleted."""
    try:
        content = json.loads(input_path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ArgumentError(f"Unable to read file {path}") from error
    except ValueError as error:
        raise ArgumentError("The input string is not a valid JSON") from error
    top = _object(content)
    if "version" in top and _number(top["version"], "Integer", 31) != 1:
        raise ArgumentError(f"Not supported version field value {top['version']}")
    if "partitions" not in top:
        raise ArgumentError("Missing partitions field")
    offsets: dict[TopicPartition, int] = {}
    repeated: dict[str, None] = {}
    if not isinstance(top["partitions"], list):
        raise ArgumentError(f"Expected JSON array, received {_shown(top['partitions'])}")
    for row in map(_object, top["partitions"]):
        for field in ("topic", "partition", "offset"):
            if field not in row:
                raise ArgumentError(f"No such field exists: `{field}`")
        if not isinstance(row["topic"], str):
            raise ArgumentError(f"Expected `String` value, received {_shown(row['topic'])}")
        partition = TopicPartition(row["topic"], _number(row["partition"], "Integer", 31))
        if partition in offsets:
            repeated[str(partition)] = None
        offsets[partition] = _number(row["offset"], "Long", 63)
    if repeated:
        raise ArgumentError(f"Offset json file contains duplicate topic partitions: {','.join(repeated)}")
    return offsets


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ArgumentError(f"Expected JSON object, received {_shown(value)}")
    return value


def _number(value: object, kind: str, bits: int) -> int:
    """A whole number that fits. Does not convert other values: a wrong guess would delete records."""
    if not isinstance(value, int) or isinstance(value, bool) or not -(1 << bits) <= value < 1 << bits:
        raise ArgumentError(f"Expected `{kind}` value, received {_shown(value)}")
    return value


def _shown(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
