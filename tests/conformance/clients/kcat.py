"""kcat: librdkafka from the shell."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.clients import login
from tests.conformance.clients.interface import TIMEOUT_S, Client, Member, Received, parse_kcat
from tests.conformance.clients.member import HEARTBEAT_MS, SESSION_TIMEOUT_MS

FIRST_WITH_ONE_NONCE = 2, 6, 1
"""The version of librdkafka."""


def _login() -> list[str]:
    return [word for name, value in login.librdkafka().items() for word in ("-X", f"{name}={value}")]


class Kcat(Client):
    name = "kcat"
    has_transactions = False

    @classmethod
    def missing(cls) -> str | None:
        if shutil.which("kcat"):
            return None
        return "kcat is not installed; it comes from the system's packages (apt-get install kcat)"

    @classmethod
    def version(cls) -> str:
        said = subprocess.run(["kcat", "-V"], capture_output=True, text=True, timeout=TIMEOUT_S, check=True).stdout
        return said.partition("Version ")[2].partition(" ")[0]

    @classmethod
    def refused_login(cls) -> str | None:
        said = subprocess.run(["kcat", "-V"], capture_output=True, text=True, timeout=TIMEOUT_S, check=True).stdout
        found = re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", said)
        if found is None or tuple(map(int, found.groups())) >= FIRST_WITH_ONE_NONCE:
            return None
        return f"the SCRAM of {found[0]} sends its nonce twice, which Apache Kafka refuses (CVE-2024-56128)"

    def _run(self, *arguments: str, text: bytes = b"") -> bytes:
        command = ["kcat", "-b", self.bootstrap_servers, "-X", "client.id=kcat", *_login(), "-q", *arguments]
        done = subprocess.run(command, input=text, capture_output=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def produce(self, topic: str, records: Sequence[Received], *, codec: str = "none", partition: int = 0) -> None:
        """One run per record. A value is a file; for a null value the text after the key is empty, with -Z."""
        for record in records:
            arguments = ["-P", "-t", topic, "-p", str(partition), "-z", codec, "-X", "message.max.bytes=2000000"]
            for name, value in record.headers:
                arguments += ["-H", name if value is None else f"{name}={value.decode()}"]
            if record.value is None:
                self._run(*arguments, "-Z", "-K", "|", text=(record.key or b"") + b"|\n")
                continue
            arguments += ["-k", record.key.decode()] if record.key is not None else []
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "value"
                path.write_bytes(record.value)
                self._run(*arguments, str(path))

    def read(self, topic: str, count: int, *, partition: int = 0) -> list[Received]:
        lines = self._run("-C", "-J", "-t", topic, "-p", str(partition), "-o", "beginning", "-c", str(count))
        received = []
        for line in lines.splitlines():
            record = json.loads(line)
            names, values = record.get("headers", [])[::2], record.get("headers", [])[1::2]
            headers = tuple((n, None if v is None else v.encode()) for n, v in zip(names, values, strict=True))
            key, value = record["key"], record["payload"]
            received.append(
                Received(None if key is None else key.encode(), None if value is None else value.encode(), headers)
            )
        return received

    def read_and_commit(self, topic: str, group: str, count: int) -> list[bytes | None]:
        """kcat commits the offsets of records that it has read when it leaves."""
        lines = self._run("-G", group, "-c", str(count), "-X", "auto.offset.reset=earliest", topic)
        return list(lines.splitlines())

    def member(self, topic: str, group: str) -> Member:
        settings = {
            "auto.offset.reset": "earliest",
            "session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "heartbeat.interval.ms": str(HEARTBEAT_MS),
            "auto.commit.interval.ms": "200",
        }
        extra = [part for name, value in settings.items() for part in ("-X", f"{name}={value}")]
        return Member(
            ["kcat", "-b", self.bootstrap_servers, "-X", "client.id=kcat", *_login(), "-u", *extra, "-G", group, topic],
            parse_kcat,
        )
