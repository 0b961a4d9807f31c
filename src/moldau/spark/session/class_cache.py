"""Keeps Spark's loaded classes in a file, so that the next JVM starts in half the time.

`moldau pipeline warm-up` makes the file, by a JVM that notes which classes a pipeline uses; every session on this
machine's Java uses it from then on. The file belongs to one installation of Java and of Spark: the JVM compares the
size and the modification time of each jar, and ignores the file, without a message, where one differs. So the file's
name is a digest of them: after Spark is reinstalled, `warm-up` makes another file.
"""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

import pyspark

from moldau.spark.session.java import Java, cache_folder

_ONE_STEP = 25
"""The first Java that makes the file at the end of one run, with nothing of its own to build on (JEP 514)."""
SPARK_JARS = Path(pyspark.__file__).parent / "jars"


def class_cache(java: Java, jars: Path = SPARK_JARS) -> Path:
    """Where the file of this Java and of this Spark, as they are installed now, is to be."""
    files = (java.home / "release", java.home / "lib" / "modules", *sorted(jars.glob("*.jar")))
    digest = _digest(*(f"{file.name} {_state(file)}" for file in files))
    kind = "aot" if java.major_version >= _ONE_STEP else "jsa"
    return cache_folder() / f"classes-{_digest(str(java.home), str(jars))}-{digest}.{kind}"


def of_installations_before(now: Path) -> list[Path]:
    """The files of a Java and a Spark that were installed in the places of those of `now`."""
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
    """The JVM's options, as Spark's settings have them; none where there is no such file."""
    file = class_cache(java, jars)
    if not file.is_file():
        return ""
    name = "AOTCache" if java.major_version >= _ONE_STEP else "SharedArchiveFile"
    return shlex.join((f"-XX:{name}={file}", "-XX:+VerifySharedSpaces"))  # which leaves a damaged file alone


def noting(java: Java, file: Path) -> str:
    """The options of a JVM that writes `file` when it ends."""
    return shlex.quote(f"-XX:{'AOTCacheOutput' if java.major_version >= _ONE_STEP else 'ArchiveClassesAtExit'}={file}")
