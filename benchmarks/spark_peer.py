"""Spark's own Kafka connector and Avro functions, the peers of ours: jars, and an environment with their Spark release.

The connector of the newest Spark may not be published yet, so both sources are measured with the release named here.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from benchmarks.peers import PeerError, python_with

SPARK_VERSION = "4.2.0"
JARS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_VERSION),
    ("org.apache.spark", "spark-avro_2.13", "4.1.1"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", SPARK_VERSION),
    ("org.apache.kafka", "kafka-clients", "3.9.1"),
    ("org.apache.commons", "commons-pool2", "2.12.0"),
)
ROOT = Path(__file__).resolve().parents[1]


def fetch_connector(cache: Path) -> str:
    """The connector's jars in the form of Spark's `spark.jars`, fetched once from Maven Central."""
    given = os.environ.get("MOLDAU_SPARK_KAFKA_JARS")
    if given:
        return given
    folder = cache / f"spark-kafka-{SPARK_VERSION}"
    for group, artifact, version in JARS:
        if (folder / f"{artifact}-{version}.jar").exists():
            continue
        copy = [
            "mvn",
            "-q",
            "dependency:copy",
            f"-Dartifact={group}:{artifact}:{version}",
            f"-DoutputDirectory={folder}",
        ]
        try:
            subprocess.run(copy, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise PeerError(f"Spark's Kafka connector cannot be fetched: {error}") from error
    # the folder may also have jars of an older list
    return ",".join(str(folder / f"{artifact}-{version}.jar") for _, artifact, version in JARS)


def spark_python(cache: Path) -> str:
    """An interpreter with that Spark release and this project, made once."""
    given = os.environ.get("MOLDAU_BENCH_SPARK_PYTHON")
    if given:
        return given
    packages = (f"pyspark[sql]=={SPARK_VERSION}", "-e", f"{ROOT}[avro]")
    return python_with(cache / f"spark-{SPARK_VERSION}-avro", packages)
