"""Runs one case with Kafka's tools or with ours, and makes the outputs comparable."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer

from moldau.cli.main import main
from moldau.client.admin.configs import BROKER, describe_configs
from moldau.client.protocol.access import ClusterAccess
from moldau.transport.access import open_admin
from tests.conformance.kafka_tools.cases import files
from tests.conformance.kafka_tools.dump_cases import log_files
from tests.conformance.kafka_tools.formatter_cases import coordinator_records
from tests.conformance.kafka_tools.step import Step

RECORDED = Path(__file__).parent / "recorded.json"
PREFIX = "PREFIX"
"""Replaces the case's own prefix in a recording; it has the same length, so columns keep their widths."""

ORACLES_RELEASE = "4.3"
"""The release whose feature levels the cluster of Kafka's tools has: we format with the same levels."""
_LEVEL_OF_A_FORMAT = re.compile(r"(?<= with metadata\.version )(4\.3-IV0|4\.4-IV2)(?=\.$)")
_RELEASE_FLAGS = (" -r", "--release-version", "metadata.version=")

TIMEOUT_S = 60
SETTLE_S = 10
_READING = ("--describe", "--list", "kafka-get-offsets", "--dry-run")
JAVA_CLASSES = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
}

Ran = tuple[int, str, str]
"""Exit code, standard output, standard error."""

Tool = Callable[[Sequence[str], str], Ran]


def run_kafkas(words: Sequence[str], text: str) -> Ran:
    """Kafka's own tool, from the jars in MOLDAU_KAFKA_LIBS."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"
    # times without a zone are in the machine's zone
    command = [java, "-Xmx256m", "-Duser.timezone=UTC", "-cp", os.environ["MOLDAU_KAFKA_LIBS"] + "/*"]
    done = subprocess.run(
        [*command, JAVA_CLASSES[words[0]], *words[1:]],
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    errors = [line for line in done.stderr.splitlines(keepends=True) if not line.startswith("SLF4J")]
    return done.returncode, done.stdout, "".join(errors)


def run_ours(words: Sequence[str], text: str) -> Ran:
    """Our tool, in this process."""
    inputs = io.TextIOWrapper(io.BytesIO(text.encode()))
    output, errors = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = inputs, output, errors
    try:
        code = main(list(words))
        output.flush()
        errors.flush()
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
    return code, _written(output), _written(errors)


def _written(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


def run_case(
    steps: Sequence[Step],
    tool: Tool,
    servers: str,
    prefix: str,
    scratch: Path,
    expected: Sequence[dict[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """The recorded output of each step.

    A broker of Apache Kafka shows a change a moment later: a step that only reads is repeated for a while, until its
    output is the expected one.
    """
    assert len(prefix) == len(PREFIX)
    scratch.mkdir(parents=True, exist_ok=True)
    for name, content in files().items():
        (scratch / name).write_text(content.replace("{p}", prefix).replace("{tmp}", str(scratch)))
    values = {"p": prefix, "b": servers, "tmp": str(scratch)}
    answers = []
    with ExitStack() as until_the_end:
        for number, step in enumerate(steps):
            words = _words(step.command, values)
            if words[0] in _OWN_STEPS:
                _OWN_STEPS[words[0]](servers, words[1:], until_the_end)
                ran: Ran = (0, "", "")
            else:
                ran = tool(words, step.text)
            answer = _answer(step, ran, values)
            deadline = time.monotonic() + SETTLE_S
            while (
                expected is not None
                and answer != expected[number]
                and any(word in words for word in _READING)
                and time.monotonic() < deadline
            ):
                answer = _answer(step, tool(words, step.text), values)
            answers.append(answer)
    return answers


def _produce(servers: str, words: Sequence[str], _: ExitStack) -> None:
    producer = Producer({"bootstrap.servers": servers})
    # one timestamp for all: which record has the largest one must not depend on the clock
    now_ms = time.time_ns() // 1_000_000
    for number in range(int(words[1])):
        producer.produce(words[0], value=f"v{number}".encode(), partition=0, timestamp=now_ms)
    assert producer.flush(TIMEOUT_S) == 0


def _coordinate(servers: str, words: Sequence[str], _: ExitStack) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for key, value in coordinator_records(words[1]):
        producer.produce(words[0], key=key, value=value, partition=0)
    assert producer.flush(TIMEOUT_S) == 0


def _write_log(_servers: str, words: Sequence[str], _: ExitStack) -> None:
    folder = Path(words[0])
    folder.mkdir()
    for name, content in log_files().items():
        (folder / name).write_bytes(content)


def _join(servers: str, words: Sequence[str], until_the_end: ExitStack) -> None:
    """A member that owns all partitions before this returns, and polls in a thread until the case ends."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": words[0], "client.id": "member"})
    assigned, is_over = threading.Event(), threading.Event()
    consumer.subscribe([words[1]], on_assign=lambda *_: assigned.set())

    def poll() -> None:
        while not is_over.is_set():
            consumer.poll(0.1)

    thread = threading.Thread(target=poll)
    thread.start()
    until_the_end.callback(consumer.close)
    until_the_end.callback(thread.join)
    until_the_end.callback(is_over.set)
    assert assigned.wait(TIMEOUT_S)


def _transact(servers: str, words: Sequence[str], until_the_end: ExitStack) -> None:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": words[0]})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    errors: list[object] = []
    for partition in (0, 1):
        for number in range(int(words[2])):
            value = f"v{number}".encode()
            producer.produce(words[1], value, partition=partition, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    assert not any(errors), errors
    until_the_end.callback(producer.purge)  # also keeps the producer alive: a deleted producer aborts nothing


def _until(servers: str, words: Sequence[str], _: ExitStack) -> None:
    """An Apache broker applies a change when it has read it from its metadata log."""
    deadline = time.monotonic() + TIMEOUT_S
    with open_admin(ClusterAccess(servers, client_id="moldau-tests")) as admin:
        while True:
            settings = {row.name: row.value for row in describe_configs(admin, BROKER, ["1"])["1"]}
            if settings[words[0]] == words[1]:
                return
            assert time.monotonic() < deadline, settings[words[0]]


_OWN_STEPS: dict[str, Callable[[str, Sequence[str], ExitStack], None]] = {
    "produce": _produce,
    "coordinate": _coordinate,
    "join": _join,
    "write-log": _write_log,
    "transact": _transact,
    "until": _until,
}


def _words(command: str, values: Mapping[str, str]) -> list[str]:
    words = shlex.split(command)
    for name, value in values.items():
        words = [word.replace(f"{{{name}}}", value) for word in words]
    return words


def _answer(step: Step, ran: Ran, values: Mapping[str, str]) -> dict[str, Any]:
    code, output, errors = ran
    answer: dict[str, Any] = {"command": step.command, "exit": code}
    if step.is_quiet:
        return answer
    # kafka-storage prints the records that it writes as Java objects, with keys of credentials: ours does not
    shown = [line for line in output.splitlines() if not line.startswith("Bootstrap metadata: ")]
    lines = [_normal(line, values) for line in shown]
    if not any(flag in step.command for flag in _RELEASE_FLAGS):
        # ours also stays at the levels that Apache Kafka 4.3 opens
        lines = [_LEVEL_OF_A_FORMAT.sub("DEFAULT", line) for line in lines]
    if step.is_masked:
        lines = [re.sub(r"(?<![^\t])\d+ *(?=\t)", "N", line) for line in lines]
    if step.only_own:
        lines = [re.sub(" +", " ", line) for line in lines if PREFIX in line or line.startswith("GROUP")]
    answer["output"] = sorted(lines) if step.is_sorted else lines
    if step.says:
        answer["says"] = _normal(errors.split("\n", 1)[0], values)
    return answer


_RANDOM = (
    (r"TopicId: [\w-]{22}", "TopicId: ID"),
    (r"127\.0\.0\.1([: ])\d{5}", r"127.0.0.1\1PPPPP"),
    (r"Cluster ID: [\w-]{22}", "Cluster ID: ID"),
    (r"directory.id=[\w-]{22}", "directory.id=ID"),
    (r"(ClusterId: +)[\w-]{22}", r"\1ID"),
    (r"(LeaderEpoch: +|HighWatermark: +)\d+", r"\1N"),
    (r'("directoryId": ")[\w-]{22}', r"\1ID"),
    (r"CONTROLLER://[^\"]*", "CONTROLLER://HOST:PORT"),
    (r"^(\d+ *\t)[\w-]{22}(?=\t)", r"\1DIRECTORYDIRECTORYDIRE"),
    (r"\d+ ms ago *", "SOME ms ago"),
    (r"(LogEndOffset|Lag|LastFetchTimestamp|LastCaughtUpTimestamp) *\t", r"\1\t"),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "MEMBERMEMBERMEMBERMEMBERMEMBERMEMBER"),
    (r"(CreateTime|LogAppendTime):\d+", r"\1:TIME"),
    (r'"logDir":"[^"]*"', '"logDir":"DIR"'),
    # of the figures of performance tools only the counts are the same each time
    (r"(?<= records sent), .*", ", FIGURES"),
    (r"^(?:[-\d]+ [:\d]+, ){2}([.\d]+), [^,]+, (\d+), .*", r"TIME, TIME, \1, RATE, \2, FIGURES"),
)


def _normal(line: str, values: Mapping[str, str]) -> str:
    line = line.replace(values["p"], PREFIX).replace(values["tmp"], "TMP")
    for pattern, replacement in _RANDOM:
        line = re.sub(pattern, replacement, line)
    # a Java HashMap orders these
    line = re.sub(r"(?<=' are )SCRAM-.*", lambda found: ", ".join(sorted(found[0].split(", "))), line)
    for comma in (",", ", "):
        names = rf"{PREFIX}t-\d({comma}{PREFIX}t-\d)+"
        line = re.sub(names, lambda found, comma=comma: comma.join(sorted(found[0].split(comma))), line)
    return re.sub(r"(?<=Configs: ).*", lambda found: ",".join(sorted(found[0].split(","))), line)
