"""The requirements of tests of Spark's official connector: a Python with pyspark, and the connector's jars for it."""

from __future__ import annotations

import os

import pytest

NEEDED = ("MOLDAU_BENCH_SPARK_PYTHON", "MOLDAU_SPARK_KAFKA_JARS")
NEEDS_CONNECTOR = [
    pytest.mark.java,
    pytest.mark.skipif(any(name not in os.environ for name in NEEDED), reason=f"{' and '.join(NEEDED)} are not set"),
]
