"""Apache Avro for Java, from PySpark's jars, asked line by line."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyspark

PROGRAM = Path(__file__).parent / "java" / "AvroOracle.java"
JARS = ("avro-1", "jackson-core-2", "jackson-databind", "jackson-annotations", "slf4j-api", "commons-compress")
SECONDS = 600


def ask(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """An answer for each: {"value": ...}, or {"error": ...}."""
    folder = Path(pyspark.__file__).parent / "jars"
    jars = ":".join(str(jar) for name in JARS for jar in sorted(folder.glob(f"{name}*.jar")))
    command = ["java", "-Xmx300m", "-XX:+UseSerialGC", "-cp", jars, str(PROGRAM)]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as asked:
        asked.writelines(json.dumps(line) + "\n" for line in lines)
        asked.seek(0)
        done = subprocess.run(command, stdin=asked, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"the Java program failed: {done.stderr[-2_000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]
