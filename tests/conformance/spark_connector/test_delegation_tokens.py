"""Spark's official connector reads and writes by delegation tokens, which Spark's own provider gets and renews, on
Moldau and on Apache Kafka. The requirements are those of `test_spark_connector.py`."""

from __future__ import annotations

import os
import secrets

import pytest

from tests.conformance.spark_connector.needed import NEEDED, NEEDS_CONNECTOR
from tests.conformance.spark_connector.tokens import LIFETIME_MS, SETTINGS, USER, faults, run_job
from tests.support.cluster_with_tokens import cluster_with_tokens

pytestmark = NEEDS_CONNECTOR


@pytest.mark.parametrize(
    "broker",
    [
        "moldau",
        pytest.param(
            "kafka",
            marks=pytest.mark.skipif("MOLDAU_KAFKA_LIBS" not in os.environ, reason="MOLDAU_KAFKA_LIBS is not set"),
        ),
    ],
)
def test_a_stream_outlives_the_tokens_that_it_began_with(broker: str) -> None:
    password = secrets.token_hex(8)
    python, jars = (os.environ[name] for name in NEEDED)
    with cluster_with_tokens(broker, {USER: password}, SETTINGS) as (servers, access):
        run = run_job(access, servers, password, LIFETIME_MS * 1.5 / 1_000, python, jars)
    assert faults(run, password) == []
