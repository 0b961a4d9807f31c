"""Spark's official connector on a cluster that gives it short-lived delegation tokens, which its own provider renews.

    python -m tests.conformance.spark_connector.tokens [--minutes 10] [--broker moldau|kafka]

`MOLDAU_BENCH_SPARK_PYTHON` and `MOLDAU_SPARK_KAFKA_JARS` name the Python and the jars; else both are fetched.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.peers import CACHE
from moldau.client.admin.tokens import DelegationToken, describe_tokens
from moldau.client.admin.topics import create_topic
from moldau.client.protocol.access import ClusterAccess
from moldau.transport.access import open_admin
from moldau.wire.protocol.jaas import SCRAM_MODULE, LoginModule, encode_jaas_config
from tests.support.cluster_with_tokens import cluster_with_tokens

USER = "alice"
LIFETIME_MS = 30_000
"""Spark gets a new token after a third of it."""
SETTINGS = {
    "delegation.token.expiry.time.ms": str(LIFETIME_MS),
    "delegation.token.expiry.check.interval.ms": "1000",
}
TOPICS = ("token-source", "token-target")
START_S = 300
LOG4J = """rootLogger.level = warn
rootLogger.appenderRef.c.ref = c
appender.c.type = Console
appender.c.name = c
appender.c.target = SYSTEM_ERR
appender.c.layout.type = PatternLayout
appender.c.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
logger.a.name = org.apache.spark.kafka010.KafkaConfigUpdater
logger.a.level = debug
"""
BY_TOKEN = "Delegation token detected, using it for login"
"""The connector's log message about a client with a token."""


class Run(msgspec.Struct, frozen=True):
    """`tokens`: ids of Spark's tokens, `left`: those that the cluster has at the end; `logins`: clients that the
    connector made with a token."""

    tokens: list[str]
    left: list[DelegationToken]
    written: int
    read: list[int]
    logins: int
    output: str


def faults(run: Run, password: str) -> list[str]:
    """The faults of a run that took longer than the lifetime of a token; empty if none."""
    found = []
    if run.read != list(range(run.written)):
        found.append(f"{run.written} records were written, and {len(run.read)} read")
    if len(run.tokens) < 3:
        found.append(f"Spark had {len(run.tokens)} tokens: they were not renewed")
    if not run.logins:
        found.append("no client of the connector logged in by a token")
    if {token.owner for token in run.left} - {f"User:{USER}"}:
        found.append(f"the cluster has tokens of others: {run.left}")
    if not {token.token_id for token in run.left} & set(run.tokens):
        found.append("the cluster does not know the tokens that Spark had")
    if password in run.output:
        found.append("a password is in the output of Spark")
    return found


def run_job(
    access: ClusterAccess, bootstrap_servers: str, password: str, seconds: float, python: str, jars: str
) -> Run:
    """`access`: of the super user. Raises RuntimeError if the job fails."""
    with open_admin(access) as admin:
        for topic in TOPICS:
            create_topic(admin, topic, partitions=1)
    login = LoginModule(SCRAM_MODULE, {"username": USER, "password": password})
    with tempfile.TemporaryDirectory(prefix="moldau-tokens-") as folder:
        log4j = Path(folder) / "log4j2.properties"
        log4j.write_text(LOG4J)
        environment = {
            **os.environ,
            "MOLDAU_SPARK_KAFKA_JARS": jars,
            "MOLDAU_TOKEN_LOGIN": encode_jaas_config(login),
            "MOLDAU_LOG4J": log4j.as_uri(),
        }
        job = str(Path(__file__).with_name("token_job.py"))
        command = [python, job, bootstrap_servers, *TOPICS, f"{folder}/checkpoint", str(seconds)]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=START_S + seconds * 2, check=False
        )
    if done.returncode:
        raise RuntimeError(done.stdout[-1_000:] + done.stderr[-6_000:])
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    told = json.loads(line.removeprefix("RESULT "))
    with open_admin(access) as admin:
        left = describe_tokens(admin, [f"User:{USER}"])
    output = done.stdout + done.stderr
    return Run(told["tokens"], left, told["written"], told["read"], output.count(BY_TOKEN), output)


def main(words: list[str]) -> int:
    from benchmarks.spark_peer import fetch_connector, spark_python

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--broker", choices=["moldau", "kafka"], default="moldau")
    asked: Any = parser.parse_args(words)
    jars, python = fetch_connector(CACHE), spark_python(CACHE)
    password = secrets.token_hex(8)
    with cluster_with_tokens(asked.broker, {USER: password}, SETTINGS) as (servers, access):
        run = run_job(access, servers, password, asked.minutes * 60, python, jars)
    wrong = faults(run, password)
    print(f"{asked.broker}: {run.written} records, {len(run.tokens)} tokens, {run.logins} logins by a token")
    print("\n".join(wrong) or "all records were read once, by tokens that were renewed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
