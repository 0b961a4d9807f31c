"""Sessions of a Spark Connect server, which have no SparkContext.

The server's own Python plans the sources and runs the tasks, so the package must be installed there too.
"""

from __future__ import annotations

import atexit
import socket
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow as pa

import moldau
from moldau.extras import require_extra
from moldau.spark.session.executors import ExecutorError, why_no_task
from moldau.spark.session.java import SparkStartError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REMOTE = "spark.remote"
"""The setting that names a server, as `sc://HOST:PORT`."""
DEFAULT_PORT = 15002
FIRST_CONTACT_S = 10.0
_ANSWER = "host string, version string"


def is_connect(spark: SparkSession) -> bool:
    """Whether this is a session of a Spark Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def connect(settings: Mapping[str, str]) -> SparkSession:
    """A session of the server in the setting REMOTE. It ends with this process. Raises SparkStartError,
    MissingExtraError."""
    require_extra("a session of Spark Connect", "spark-connect")
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    url = settings[REMOTE]
    _reach(url)
    builder = SparkSession.builder.remote(url)
    for name, value in {"spark.sql.session.timeZone": "UTC", **settings}.items():
        if name != REMOTE:
            builder = builder.config(name, value)
    try:
        made = builder.getOrCreate()
    except PySparkException as error:
        raise SparkStartError(f"{url} gave no session: {error}") from error
    atexit.register(made.stop)
    return made


def count_tasks(spark: SparkSession) -> int:
    """How many tasks the server runs at once. Raises ExecutorError if its Python cannot run them."""
    from pyspark.errors import PySparkException

    try:
        answers = spark.range(1_000).mapInArrow(_answer, _ANSWER).collect()
    except PySparkException as error:
        raise ExecutorError(why_no_task(str(error))) from error
    for host, version in answers:
        if version != moldau.__version__:
            raise ExecutorError(f"Spark on {host} has Moldau {version}; this machine has {moldau.__version__}")
    return len(answers)


def _reach(url: str) -> None:
    """Fails early, because Spark's own client tries for ten minutes."""
    parts = urlsplit(url)
    if parts.scheme != "sc" or not parts.hostname:
        raise SparkStartError(
            f"{REMOTE} is {url!r}; it has to be sc://HOST:PORT, the address of a Spark Connect server"
        )
    try:
        socket.create_connection((parts.hostname, parts.port or DEFAULT_PORT), FIRST_CONTACT_S).close()
    except OSError as error:
        raise SparkStartError(f"no Spark Connect server answers at {url}: {error.strerror or error}") from error


def _answer(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pylist([{"host": socket.gethostname(), "version": moldau.__version__}])
