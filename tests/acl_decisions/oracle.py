"""Asks Apache Kafka's StandardAuthorizer, in a process of Java."""

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


def ask(clusters: Iterable[Cluster]) -> Iterator[tuple[Cluster, str]]:
    """Each cluster with Kafka's answers, a digit for each question."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/" if home else ""
    jars = f"{fetch_kafka(_CACHE).resolve()}/*"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([f"{java}javac", "-cp", jars, "-d", folder, str(_SOURCE)], check=True)
        command = [f"{java}java", "-Xmx300m", "-XX:+UseSerialGC", "-cp", f"{folder}:{jars}", "AclOracle"]
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        ) as oracle:
            assert oracle.stdin is not None
            assert oracle.stdout is not None
            for of in clusters:
                oracle.stdin.write("\n".join(of.lines()) + "\n")
                oracle.stdin.flush()
                yield of, oracle.stdout.readline().strip()
            oracle.stdin.close()
