"""Queries that do not do what they are asked for. Without Spark: what stands in their place is Spark's own part."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from moldau.products.pipelines.page.page import parse_page
from moldau.products.pipelines.running.supervision import Supervised
from moldau.products.pipelines.running.watching import QueryProgress

PAGE = """\
name: copy
bootstrap_servers: a:1
source: {delta: from}
sql: select n from source
sink: {path: to}
"""


class Unstoppable:
    """A query of Spark whose batch does not end."""

    isActive = True  # noqa: N815 - Spark's name
    lastProgress = None  # noqa: N815
    recentProgress = ()  # noqa: N815
    status = {"isTriggerActive": True}  # noqa: RUF012

    def stop(self) -> None:
        raise StreamingQueryException("Stream Execution thread failed to stop within 120000 milliseconds")


def test_a_query_that_does_not_stop_is_told_and_hides_nothing_else(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    page = parse_page(PAGE, file_name="page.yaml", directory=tmp_path)
    supervised = Supervised(Unstoppable, QueryProgress(None, page, page.queries[0], ""))
    assert supervised.stop(lambda: True).state == "failed"
    assert "failed to stop within" in supervised.error
    supervised.end()
    assert "a query did not stop: " in caplog.text
