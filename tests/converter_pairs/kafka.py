"""The answers of Apache Kafka's converters: from Java, and as recorded for machines without Java."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers import CACHE, fetch_jars

PROGRAM = Path(__file__).parent / "java" / "ConverterOracle.java"
RECORDED = Path(__file__).parent / "recorded.json.gz"
SECONDS = 120


def ask(cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """An answer for each: {"payload", "schema", "value"}, or {"error": the class}."""
    libraries = _libraries()
    command = ["java", "-Xmx300m", "-XX:+UseSerialGC", "-Duser.timezone=UTC", "-cp", f"{libraries}/*", str(PROGRAM)]
    asked = "".join(json.dumps(case) + "\n" for case in cases)
    done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"the Java program failed: {done.stderr[-2_000:]}")
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def _libraries() -> Path:
    given = os.environ.get("MOLDAU_KAFKA_LIBS")
    if given and list(Path(given).glob("connect-json-*.jar")):
        return Path(given)
    return fetch_jars(CACHE, "connect", ("connect-json", "connect-runtime"))


def recorded() -> dict[str, dict[str, Any]]:
    """By the name of the case."""
    found: dict[str, dict[str, Any]] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return found


def record(answers: dict[str, dict[str, Any]]) -> None:
    text = json.dumps(answers, sort_keys=True)
    RECORDED.write_bytes(gzip.compress(text.encode(), mtime=0))
