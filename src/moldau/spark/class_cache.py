"""What a JVM keeps for the next one: the classes of Spark, read, verified and linked. With such a file Spark starts,
and runs its first queries, in little more than half the time.

`moldau pipeline warm-up` makes the file, by a JVM that notes which classes a pipeline uses; every session on this
machine's Java uses it from then on. The file belongs to one Java and one Spark: it has both in its name, and the JVM
looks at them again, and goes on without the file where they do not match.
"""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

import pyspark

from moldau.spark.java import Java, cache_folder

_ONE_STEP = 25
"""The first Java that makes the file at the end of one run, with nothing of its own to build on (JEP 514)."""


def class_cache(java: Java) -> Path:
    """Where the file of this Java and of this Spark is to be."""
    release = java.home / "release"
    facts = (str(java.home), release.read_text("utf-8", "replace") if release.is_file() else "", pyspark.__file__)
    digest = hashlib.sha256("\0".join((*facts, pyspark.__version__)).encode()).hexdigest()[:16]
    return cache_folder() / f"classes-{digest}.{'aot' if java.major_version >= _ONE_STEP else 'jsa'}"


def using(java: Java) -> str:
    """The JVM's options, as Spark's settings have them; none where there is no such file."""
    file = class_cache(java)
    if not file.is_file():
        return ""
    name = "AOTCache" if java.major_version >= _ONE_STEP else "SharedArchiveFile"
    return shlex.join((f"-XX:{name}={file}", "-XX:+VerifySharedSpaces"))  # which leaves a damaged file alone


def noting(java: Java, file: Path) -> str:
    """The options of a JVM that writes `file` when it ends."""
    return shlex.quote(f"-XX:{'AOTCacheOutput' if java.major_version >= _ONE_STEP else 'ArchiveClassesAtExit'}={file}")
