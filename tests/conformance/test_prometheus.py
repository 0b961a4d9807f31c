"""Prometheus itself, with the configuration of `deploy/prometheus.yml`: allowed and denied scrapes.

Run by `make prometheus`. Uses Debian's `prometheus`; PROMETHEUS names another place.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from moldau.testing import Cluster
from moldau.transport.http_authorization import new_secret
from tests.support.certificates import authority
from tests.support.running_broker import RunningBroker
from tests.support.schema_registry import SchemaRegistry
from tests.support.source_tree import ROOT
from tests.support.talking_process import TalkingProcess

PROMETHEUS = os.environ.get("PROMETHEUS") or shutil.which("prometheus")
WAIT_S = 60.0
SECRET, KEPT = new_secret()
PEOPLE = f"""
[machines.prometheus]
role = "viewer"
sha256 = "{KEPT}"

[tls]
ssl.keystore.type = "PEM"
ssl.keystore.location = "server.pem"
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.server,
    pytest.mark.skipif(PROMETHEUS is None, reason="there is no prometheus on this machine"),
]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the files that the configuration names, and those of the servers."""
    authority().write(tmp_path, "authority")
    authority().issue("CN=server").write(tmp_path, "server")
    (tmp_path / "prometheus.secret").write_text(SECRET)
    (tmp_path / "users.txt").write_text(f"prometheus={KEPT}\n")
    login = tmp_path / "people.toml"
    login.write_text(PEOPLE)
    login.chmod(0o600)
    return tmp_path


@pytest.fixture
def broker(folder: Path) -> Iterator[str]:
    """The address of its metrics."""
    settings = {
        "moldau.http.listener": "127.0.0.1:0",
        "moldau.http.tls": "true",
        "moldau.http.users.file": str(folder / "users.txt"),
        "listener.name.http.ssl.keystore.type": "PEM",
        "listener.name.http.ssl.keystore.location": str(folder / "server.pem"),
    }
    flags = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    running = RunningBroker("--in-memory", "--no-console", "--listen", "127.0.0.1:0", *flags).wait_until_ready()
    address = next(word for line in running.output for word in line.split() if word.endswith("/metrics"))
    yield urlsplit(address).netloc
    running.kill()


@pytest.fixture
def registry(folder: Path, cluster: Cluster) -> Iterator[str]:
    registry = SchemaRegistry(cluster.access(), login=folder / "people.toml")
    yield urlsplit(registry.url).netloc
    registry.close()


class Scraping:
    """Prometheus with a configuration, from the constructor's return to `close`."""

    def __init__(self, folder: Path, jobs: list[dict[str, Any]]) -> None:
        config = folder / "prometheus.yml"
        config.write_text(yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}))
        flags = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"]
        self._process = TalkingProcess([str(PROMETHEUS), *flags, "--web.listen-address=127.0.0.1:0"])
        is_listening = self._process.wait_for(lambda line: 'msg="Listening on"' in line, time.monotonic() + WAIT_S)
        assert is_listening, self._process.output
        line = next(line for line in self._process.output if 'msg="Listening on"' in line)
        self.address = line.rpartition("address=")[2].strip()

    def health(self) -> dict[str, str]:
        """By job: up, down with its reason, or unknown."""
        try:
            with urllib.request.urlopen(f"http://{self.address}/api/v1/targets", timeout=30) as answer:
                targets = json.loads(answer.read())["data"]["activeTargets"]
        except urllib.error.HTTPError as starting:
            starting.close()
            return {}
        return {target["labels"]["job"]: f"{target['health']} {target['lastError']}".strip() for target in targets}

    def knows(self, jobs: int) -> bool:
        """Whether that many were scraped at least once."""
        health = self.health()
        return len(health) == jobs and "unknown" not in health.values()

    def close(self) -> None:
        self._process.kill()


def test_the_configuration_that_we_give_scrapes_brokers_and_services(
    folder: Path, broker: str, registry: str, cluster: Cluster
) -> None:
    given = yaml.safe_load((ROOT / "deploy" / "prometheus.yml").read_text())["scrape_configs"]
    jobs = {job["job_name"]: job for job in given}
    jobs["moldau-brokers"]["static_configs"] = [{"targets": [broker]}]
    jobs["moldau-services"]["static_configs"] = [{"targets": [registry]}]
    nobody = {name: value for name, value in jobs["moldau-brokers"].items() if name != "basic_auth"}
    stranger = {name: value for name, value in jobs["moldau-services"].items() if name != "tls_config"}
    more = [{**nobody, "job_name": "nobody"}, {**stranger, "job_name": "without-authority"}]
    scraping = Scraping(folder, [*given, *more])
    try:
        cluster.wait_for(lambda: scraping.knows(4), timeout=WAIT_S)
        health = scraping.health()
    finally:
        scraping.close()
    assert health["moldau-brokers"] == health["moldau-services"] == "up"
    assert health["nobody"] == "down server returned HTTP status 401 Unauthorized"
    assert "x509: certificate signed by unknown authority" in health["without-authority"]
