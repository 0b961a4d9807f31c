"""Asks Apache Kafka's StandardAuthorizer, in a Java process."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.peers import fetch_kafka
from tests.acl_decisions.generate import Cluster

_SOURCE = Path(__file__).parent / "java" / "AclOracle.java"
_CACHE = Path(".cache")
_SECONDS = 600


def ask(clusters: Iterable[Cluster]) -> Iterator[str]:
    """Kafka's answers for each cluster, a digit for each question."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"
    jars = f"{fetch_kafka(_CACHE).resolve()}/*"
    command = [java, "-Xmx300m", "-XX:+UseSerialGC", "-cp", jars, str(_SOURCE)]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as asked, tempfile.TemporaryFile("w+") as answers:
        for of in clusters:
            asked.write("\n".join(of.lines()) + "\n")
        asked.seek(0)
        done = subprocess.run(
            command, stdin=asked, stdout=answers, stderr=subprocess.PIPE, text=True, timeout=_SECONDS, check=False
        )
        if done.returncode:
            raise RuntimeError(f"the Java program failed: {done.stderr[-2_000:]}")
        answers.seek(0)
        yield from (line.strip() for line in answers)
