"""A SparkSession on this machine that needs no installed Java (`java` finds or brings one).

One session per process: a start takes seconds, and Spark itself allows one context. The JVM ends with the process.

On a cluster (`spark.master` in the settings), the session is returned after each executor has confirmed that it has the
package.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from moldau.errors import MoldauError
from moldau.spark.session import class_cache, connect
from moldau.spark.session.java import Java, SparkStartError, find_java, java_home, program_home
from moldau.spark.session.worker_start import ADDRESS_VARIABLE, LOG_VARIABLE, launch_script, worker_host

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK_START = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Settings for a session of seconds, whose JVM ends before the work of its second compiler would pay off."""
_LOG4J_FILE = Path(__file__).with_name("log4j2.properties")


def open_session(
    application: str = "moldau",
    settings: Mapping[str, str] | None = None,
    *,
    cores: int | None = None,
    log_path: str | os.PathLike[str] | None = None,
) -> SparkSession:
    """This process's SparkSession with the format "moldau" registered. The first call creates it, later calls reuse it.

    `cores`: threads of `local[cores]`, by default all that this process may use. `settings`: Spark's settings, which
    override ours; for a reused session, only those that can change at run time take effect. `log_path`: the file for
    the output of the JVM and the workers (appended), by default a temporary file that is shown only if the start fails.
    With `spark.remote` in `settings`, it is a session of that Spark Connect server; `cores` and `log_path` have no
    effect there. Raises SparkStartError, and on a cluster ExecutorError.
    """
    from pyspark.sql import SparkSession

    from moldau.spark.session.executors import check_executors
    from moldau.spark.source.source import register

    running = SparkSession.getActiveSession()
    if running is not None:
        for name, value in (settings or {}).items():
            if running.conf.isModifiable(name):
                running.conf.set(name, value)
        register(running)
        return running
    if connect.REMOTE in (settings or {}):
        remote = connect.connect(settings or {})
        register(remote)
        return remote
    java = find_java()
    made = _start(java, application, _all_settings(java, cores, settings), log_path)
    try:
        if not made.sparkContext._jsc.sc().isLocal():
            check_executors(made.sparkContext)
    except MoldauError:
        made.stop()
        raise
    register(made)
    return made


def available_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def _all_settings(java: Java, cores: int | None, settings: Mapping[str, str] | None) -> dict[str, str]:
    threads = cores or available_cores()
    return {
        "spark.master": f"local[{threads}]",
        "spark.sql.shuffle.partitions": str(threads),
        "spark.ui.enabled": "false",
        # Spark keeps a thousand finished queries and stages for its web UI, which is off: 12 MiB of a long run's heap.
        "spark.sql.ui.retainedExecutions": "20",
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.timeType.enabled": "true",  # Avro, Iceberg and PostgreSQL have columns of this type
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.daemon.module": "moldau.spark.session.worker_daemon",
        # The other manager adds 10 ms for each of the small files of a micro-batch. It protects against two drivers on
        # one checkpoint, which the lease does here (moldau.products.pipelines.checkpoints.lease).
        "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager",
        # a bound for stopping a query; without it, Spark waits forever for a query that does not end
        "spark.sql.streaming.stopTimeout": "120s",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG4J_FILE.as_uri()} {class_cache.using(java)}",
        **(settings or {}),
    }


def _start(
    java: Java,
    application: str,
    settings: Mapping[str, str],
    log_path: str | os.PathLike[str] | None,
) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    home = str(java_home(java))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if settings["spark.master"].startswith("local"):
        with suppress(OSError):  # without a host, each Python process imports everything itself
            host = worker_host(settings.get("spark.executorEnv.OMP_NUM_THREADS", "1"))
            program = program_home("python", launch_script()) / "bin" / "python"
            os.environ.update({"PYSPARK_PYTHON": str(program), ADDRESS_VARIABLE: host.address})
            os.environ[LOG_VARIABLE] = os.devnull if log_path is None else os.path.abspath(log_path)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    conf = SparkConf(loadDefaults=False).setAppName(application)
    for name, value in settings.items():
        conf.set(name, value)
    with _open_log(log_path) as log, _set_while("JAVA_HOME", home):
        try:
            gateway = launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
        except PySparkRuntimeError as error:
            log.seek(0)
            said = log.read()[-2_000:].decode("utf-8", "replace").strip()
            raise SparkStartError(f"the JVM of {home} did not start: {said}") from error
    before = signal.getsignal(signal.SIGINT)
    context = SparkContext(conf=conf, gateway=gateway)
    if threading.current_thread() is threading.main_thread():
        # the context handles Ctrl-C itself; restores the previous handler
        signal.signal(signal.SIGINT, before)
    return SparkSession(context)


@contextmanager
def _set_while(variable: str, value: str) -> Iterator[None]:
    """Sets it in the environment. A process that this one starts later must find the user's own Java, whose class cache
    it knows."""
    before = os.environ.get(variable)
    os.environ[variable] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before


def _open_log(log_path: str | os.PathLike[str] | None) -> IO[bytes]:
    if log_path is None:
        return tempfile.TemporaryFile()
    return open(log_path, "ab+")
