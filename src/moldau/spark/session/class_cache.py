"""Stores Spark's loaded classes in a file, with which the next JVM starts in half the time.

`moldau pipeline warm-up` creates the file, with a JVM that records the classes that a pipeline uses. Every later
session on this machine's Java uses it. The file belongs to one installation of Java and Spark: the JVM compares the
size and modification time of each jar, and silently ignores the file if one differs. So the file's name has a digest of
them, and `warm-up` creates a new file after Spark is reinstalled.
"""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

import pyspark

from moldau.spark.session.java import Java, cache_folder

_ONE_STEP = 25
"""The first Java that creates the file at the end of one run, without an intermediate step (JEP 514)."""
SPARK_JARS = Path(pyspark.__file__).parent / "jars"


def class_cache(java: Java, jars: Path = SPARK_JARS) -> Path:
    """The path of the file for this Java and Spark, as currently installed."""
    files = (java.home / "release", java.home / "lib" / "modules", *sorted(jars.glob("*.jar")))
    digest = _digest(*(f"{file.name} {_state(file)}" for file in files))
    kind = "aot" if java.major_version >= _ONE_STEP else "jsa"
    return cache_folder() / f"classes-{_digest(str(java.home), str(jars))}-{digest}.{kind}"


def of_installations_before(now: Path) -> list[Path]:
    """The files for earlier installations of Java and Spark in the same places as those of `now`."""
    place, _, _ = now.name.rpartition("-")
    return [file for file in now.parent.glob(f"{place}-*") if file != now]


def _digest(*facts: str) -> str:
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]


def _state(file: Path) -> str:
    try:
        state = file.stat()
    except FileNotFoundError:
        return "missing"
    return f"{state.st_size} {state.st_mtime_ns}"


def using(java: Java, jars: Path = SPARK_JARS) -> str:
    """The JVM's options, in the form of Spark's settings; empty without the file."""
    file = class_cache(java, jars)
    if not file.is_file():
        return ""
    name = "AOTCache" if java.major_version >= _ONE_STEP else "SharedArchiveFile"
    return shlex.join((f"-XX:{name}={file}", "-XX:+VerifySharedSpaces"))  # ignores a damaged file


def noting(java: Java, file: Path) -> str:
    """The options of a JVM that writes `file` when it ends."""
    return shlex.quote(f"-XX:{'AOTCacheOutput' if java.major_version >= _ONE_STEP else 'ArchiveClassesAtExit'}={file}")
