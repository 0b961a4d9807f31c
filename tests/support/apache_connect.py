"""A worker of Apache Kafka Connect, with its file connectors.

MOLDAU_CONNECT_LIBS names a folder with the jars: Apache Kafka's (`kafka_2.13`, `kafka-tools`), `connect-runtime`,
`connect-json`, `connect-transforms` of 4.4.0, and `connect-file` of 4.3.1, the newest on Maven Central.
"""

from __future__ import annotations

import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.apache_kafka import START_S, free_port, java

NEEDS_APACHE_CONNECT = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.skipif("MOLDAU_CONNECT_LIBS" not in os.environ, reason="MOLDAU_CONNECT_LIBS names no Kafka Connect"),
]
MOVED_CLASS = """package org.apache.kafka.common.utils;
public class AppInfoParser { public static String getVersion() { return "4.4.0"; } }
"""
"""What connect-file 4.3.1 calls, and Apache Kafka 4.4.0 has moved."""
TRIES = 10 * START_S
JSON = "org.apache.kafka.connect.json.JsonConverter"


def properties(servers: str, port: int) -> str:
    topics = {f"{one}.storage.topic": f"connect-{one}s" for one in ("config", "offset", "status")}
    replicas = {f"{one}.storage.replication.factor": "1" for one in ("config", "offset", "status")}
    values = {
        "bootstrap.servers": servers,
        "group.id": "connect-cluster",
        "key.converter": JSON,
        "value.converter": JSON,
        "listeners": f"HTTP://127.0.0.1:{port}",
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        "offset.flush.interval.ms": "1000",
        **topics,
        **replicas,
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())


@contextmanager
def apache_connect(scratch: Path, servers: str) -> Iterator[str]:
    """Gives the URL of its REST interface once that answers."""
    source = scratch / "AppInfoParser.java"
    source.write_text(MOVED_CLASS)
    subprocess.run(["javac", "-d", str(scratch / "classes"), str(source)], check=True, timeout=START_S)
    port = free_port()
    (scratch / "connect.properties").write_text(properties(servers, port))
    classes = f"{os.environ['MOLDAU_CONNECT_LIBS']}/*:{scratch / 'classes'}"
    command = [java(), "-Xmx384m", "-cp", classes, "org.apache.kafka.connect.cli.ConnectDistributed"]
    output = scratch / "connect.log"
    with output.open("w") as log:
        process = subprocess.Popen(
            [*command, str(scratch / "connect.properties")], cwd=scratch, stdout=log, stderr=subprocess.STDOUT
        )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until_healthy(url, process, output)
        yield url
    finally:
        process.terminate()
        process.wait(START_S)


def wait_until_healthy(url: str, process: subprocess.Popen[bytes], output: Path) -> None:
    for _ in range(TRIES):
        assert process.poll() is None, output.read_text()
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=START_S) as answer:
                if answer.status == 200:
                    return
        except urllib.error.HTTPError as error:
            error.close()
        except OSError:
            pass
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    pytest.fail(output.read_text())
