"""Apache Kafka's own transforms, asked line by line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers import CACHE, fetch_jars

PROGRAM = Path(__file__).parent / "java" / "TransformsOracle.java"
SECONDS = 600


def ask(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """An answer for each line: see the program."""
    libraries = fetch_jars(CACHE, "connect", ("connect-json", "connect-transforms"))
    jars = ":".join(str(jar) for jar in sorted(libraries.glob("*.jar")))
    command = ["java", "-Xmx300m", "-XX:+UseSerialGC", "-Duser.timezone=UTC", "-cp", jars, str(PROGRAM)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"the Java program failed: {done.stderr[-2_000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]
