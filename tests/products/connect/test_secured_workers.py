"""Workers with logins over TLS, on a cluster with logins: their tasks, the roles, and what they forward."""

from __future__ import annotations

import base64
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moldau.testing import Cluster
from tests.support.certificates import authority
from tests.support.connect_workers import Rest
from tests.support.talking_process import line_of, running

PASSWORDS = {"worker": "worker's", "ada": "ada's", "vera": "vera's"}
PEOPLE = """
[login]
mechanism = "SCRAM-SHA-512"

[roles]
admin = ["ada"]
viewer = ["vera"]

[tls]
ssl.keystore.type = "PEM"
ssl.keystore.location = "server.pem"
"""
OWN = """
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset.storage.partitions=2
status.storage.partitions=2
moldau.shares=8
"""


@contextmanager
def secured_worker(config: Path, login: Path) -> Iterator[str]:
    """The address of a process."""
    command = [sys.executable, "-m", "moldau", "connect", "serve", "--port", "0"]
    command += ["--config", str(config), "--login", str(login)]
    with running(command, stdout=subprocess.PIPE) as process:
        word, _, address = line_of(process.stdout).strip().partition(" ")
        assert word == "connect"
        yield address.rstrip("/")
        process.terminate()
        assert process.wait(60) == 0


def as_user(address: str, ca: str, user: str) -> Rest:
    login = base64.b64encode(f"{user}:{PASSWORDS.get(user, 'none')}".encode()).decode()
    return Rest(address, {"authorization": f"Basic {login}"}, ssl.create_default_context(cafile=ca))


@pytest.mark.slow
def test_tasks_and_forwarded_requests_with_logins_and_tls(tmp_path: Path) -> None:
    authority().issue("CN=connect").write(tmp_path, "server")
    ca = str(authority().write(tmp_path))
    login = tmp_path / "people.toml"
    login.write_text(PEOPLE)
    login.chmod(0o600)
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    source = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": "lines"}
    sink = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out.txt"), "topics": "lines"}
    texts = {f"{part}.converter": "string" for part in ("key", "value")}
    with Cluster(security="sasl_ssl", users=PASSWORDS) as cluster:
        config = tmp_path / "worker.properties"
        given = {name: value.replace("\n", "\\n") for name, value in cluster.client_properties("worker").items()}
        client = "".join(f"{name}={value}\n" for name, value in given.items())
        config.write_text(f"{client}{OWN}rest.ssl.ca.location={ca}\n")
        config.chmod(0o600)
        with secured_worker(config, login) as one, secured_worker(config, login) as other:
            admins = [as_user(address, ca, "ada") for address in (one, other)]
            viewer = as_user(one, ca, "vera")
            wrong = as_user(one, ca, "nobody")
            # one of them does not lead, and forwards the request with the login
            for rest, name, own in zip(admins, ("in", "out"), (source, sink), strict=True):
                status, found = rest.settled("POST", "/connectors", {"name": name, "config": {**own, **texts}})
                assert status == 201, found
            for rest in admins:
                rest.until_states("in", "RUNNING")
                rest.until_states("out", "RUNNING")
                assert rest.settled("PUT", "/connectors/in/pause")[0] == 202
                rest.until_states("in", "PAUSED")
                assert rest.settled("PUT", "/connectors/in/resume")[0] == 202
                rest.until_states("in", "RUNNING")
            admins[0].until("/connectors/out/offsets", lambda _: (tmp_path / "out.txt").exists())
            admins[0].until("/connectors", lambda _: (tmp_path / "out.txt").read_text() == "one\ntwo\n")
            assert viewer.ask("GET", "/connectors/in/status")[0] == 200
            assert viewer.ask("GET", "/connectors/in/progress")[1]["delivery"] == "exactly-once"
            assert viewer.ask("PUT", "/connectors/in/pause")[0] == 403
            assert viewer.ask("DELETE", "/connectors/in")[0] == 403
            assert wrong.ask("GET", "/connectors")[0] == 401
