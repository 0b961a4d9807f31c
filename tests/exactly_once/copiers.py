"""The copier programs: their commands, and the meaning of their lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.peers import CACHE, fetch_kafka
from tests.exactly_once.copier import AT_END, COMMITTED

JAVA_TRANSACTION_SIZE = 2
"""With 20 records in each, most copiers ended by themselves before their kill."""
JAVA_COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"


class CopierKind(msgspec.Struct, frozen=True):
    """`command`: from the broker's address, the source, the target, the group, and the history file, which only some
    copiers write. The other two: the meaning of a line."""

    partitions: int
    command: Callable[[str, str, str, str, Path], list[str]]
    has_committed: Callable[[str], bool]
    is_at_end: Callable[[str], bool]


def librdkafka(*, is_member: bool) -> CopierKind:
    def command(address: str, source: str, target: str, group: str, history: Path) -> list[str]:
        names = [address, source, target, group, str(history)]
        return [sys.executable, "-m", "tests.exactly_once.copier", *names, *["--member"] * is_member]

    return CopierKind(3, command, lambda line: line.startswith(COMMITTED), lambda line: line.startswith(AT_END))


def java(*, is_member: bool) -> CopierKind:
    """Kafka's TransactionalMessageCopier, whose session time-out is 10 s. Outside of a group it copies one partition.
    It ends by itself once it has copied the records that were there at its start."""
    libraries = fetch_kafka(CACHE)

    def command(address: str, source: str, target: str, group: str, history: Path) -> list[str]:
        options = {
            "--broker-list": address,
            "--input-topic": source,
            "--output-topic": target,
            "--consumer-group": group,
            "--transactional-id": f"copy-{group}",
            "--transaction-size": str(JAVA_TRANSACTION_SIZE),
            # it asks for its offset before it fences the copier before it, and therefore waits for this time-out
            "--transaction-timeout": "5000",
            "--input-partition": "0",
        }
        words = [word for option in options.items() for word in option]
        member = ["--group-mode", "--use-group-metadata"] if is_member else []
        return ["java", "-Xmx128m", "-cp", f"{libraries}/*", JAVA_COPIER, *words, *member]

    return CopierKind(3 if is_member else 1, command, _has_java_committed, _is_java_at_end)


def _said(line: str) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _has_java_committed(line: str) -> bool:
    return int(_said(line).get("totalProcessed", 0)) > 0


def _is_java_at_end(line: str) -> bool:
    said = _said(line)
    return said.get("stage") == "ShutdownComplete" and int(said.get("remaining", 1)) == 0
