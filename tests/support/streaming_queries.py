"""Classes that replace Spark's streaming queries, and a pipeline that they belong to."""

from __future__ import annotations

from pyspark.errors import StreamingQueryException

SPEC = """\
name: copy
bootstrap_servers: a:1
source: {delta: from}
sql: select n from source
sink: {path: to}
"""


class Running:
    """A query of Spark."""

    isActive = True  # noqa: N815 - Spark's name
    lastProgress = None  # noqa: N815
    recentProgress = ()  # noqa: N815
    status = {"isTriggerActive": True, "message": "Processing new data"}  # noqa: RUF012

    def stop(self) -> None:
        self.isActive = False


class Ended(Running):
    """Ended by an error, soon after its start."""

    isActive = False  # noqa: N815

    def exception(self) -> Exception:
        return StreamingQueryException("No space left on device")


class Unstoppable(Running):
    """Its batch does not end."""

    def stop(self) -> None:
        raise StreamingQueryException("Stream Execution thread failed to stop within 120000 milliseconds")
