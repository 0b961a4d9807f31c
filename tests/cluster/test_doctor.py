"""`moldau doctor`: its findings, on healthy and unhealthy clusters."""

from __future__ import annotations

import json
from itertools import repeat

import pytest

from moldau.cli.diagnosis.steps import is_loopback
from moldau.cli.main import main
from moldau.client.admin.groups import ListedGroup, list_groups
from moldau.client.protocol.access import ClusterAccess
from moldau.testing import Cluster
from moldau.transport.access import open_admin
from tests.support.odd_server import odd_server


class Report:
    def __init__(self, code: int, output: str) -> None:
        self.code = code
        self.rows: list[dict[str, str]] = json.loads(output)

    def failures(self) -> list[str]:
        return [row["step"] for row in self.rows if row["level"] == "failed"]

    def row(self, step: str) -> dict[str, str]:
        return next(row for row in reversed(self.rows) if row["step"] == step)


@pytest.fixture
def examine(capsys: pytest.CaptureFixture[str]) -> object:
    def run(address: str, *options: str) -> Report:
        code = main(["doctor", address, "--json", "--timeout", "5", *options])
        return Report(code, capsys.readouterr().out)

    return run


def test_a_healthy_cluster(examine) -> None:
    with Cluster() as cluster:
        report = examine(cluster.bootstrap_servers)
        assert (report.code, report.failures()) == (0, [])
        assert "which is reached from here" in report.row("advertised")["text"]
        assert "Fetch 4-" in report.row("versions")["text"]
        assert not any(row["step"] == "round trip" for row in report.rows)


def test_there_and_back_leaves_nothing_behind(examine) -> None:
    with Cluster() as cluster:
        report = examine(cluster.bootstrap_servers, "--round-trip")
        assert (report.code, report.failures()) == (0, [])
        steps = [row["text"].split()[0] for row in report.rows if row["step"] == "round trip"]
        assert steps == ["wrote", "read"]
        assert report.row("clock")["level"] == "ok"
        left = [name for name in cluster.node.broker.image.topics_by_name if not name.startswith("__")]
        assert left == []
        assert [group.group_id for group in _groups(cluster)] == []


def _groups(cluster: Cluster) -> list[ListedGroup]:
    with open_admin(ClusterAccess(cluster.bootstrap_servers, client_id="test")) as admin:
        return list_groups(admin, only_consumers=False)


def test_clocks_that_disagree(examine) -> None:
    with Cluster() as cluster:
        cluster.advance(minutes=5)
        report = examine(cluster.bootstrap_servers, "--round-trip")
        assert report.code == 0
        clock = report.row("clock")
        assert (clock["level"], clock["text"]) == ("warning", "the broker's clock is 300.0 s ahead of this machine's")
        assert "NTP" in clock["advice"]


@pytest.mark.parametrize(
    ("advertised", "found"),
    [("127.0.0.1:9", "nothing listens there"), ("broker.invalid:9092", "the name broker.invalid is not known here")],
)
def test_an_advertised_address_that_leads_nowhere(examine, advertised: str, found: str) -> None:
    with Cluster(settings={"advertised.listeners": f"PLAINTEXT://{advertised}"}) as cluster:
        report = examine(cluster.bootstrap_servers, "--round-trip")
        assert (report.code, report.failures()) == (1, ["advertised"])
        row = report.row("advertised")
        assert f"broker 1 advertises {advertised}" in row["text"]
        assert found in row["text"]
        assert f"advertised.listeners=PLAINTEXT://{cluster.bootstrap_servers}" in row["advice"]


def test_an_advertised_address_of_somebody_else(examine) -> None:
    with (
        Cluster() as other,
        Cluster(settings={"advertised.listeners": f"PLAINTEXT://{other.bootstrap_servers}"}) as cluster,
    ):
        report = examine(cluster.bootstrap_servers)
        assert report.failures() == ["advertised"]
        assert "another cluster answers there" in report.row("advertised")["text"]


def test_a_full_disk_is_found_by_the_round_trip(examine) -> None:
    with Cluster() as cluster, cluster.faults.disk_full():
        report = examine(cluster.bootstrap_servers, "--round-trip", "--timeout", "0.5")
        assert (report.code, report.failures()) == (1, ["round trip"])


def test_nobody_listens_or_nobody_knows_the_name(examine) -> None:
    assert examine("127.0.0.1:9").failures() == ["port"]
    report = examine("nowhere.invalid:9092")
    assert report.failures() == ["name"]
    assert "/etc/hosts" in report.row("name")["advice"]


def test_something_else_listens(examine) -> None:
    for greeting, advice in (
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "Use the port of the broker's listener"),
        (b"220 mail.example ESMTP\r\n", "Something else than a Kafka broker"),
    ):
        with odd_server(repeat(greeting)) as address:
            report = examine(address)
            assert report.failures() == ["protocol"]
            assert advice in report.row("protocol")["advice"]


def test_a_listener_that_speaks_tls(examine) -> None:
    handshake_failure = b"\x15\x03\x03\x00\x02\x02\x28"
    with odd_server(repeat(handshake_failure)) as address:
        report = examine(address)
        assert report.failures() == ["protocol"]
        assert "security.protocol to SSL" in report.row("protocol")["advice"]


def test_people_get_lines_and_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster() as cluster:
        assert main(["doctor", cluster.bootstrap_servers]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:2] == ["ok", "name"]
    assert lines[-1] == "Clients on this machine can work with this cluster."
    assert main(["doctor", "127.0.0.1:9"]) == 1
    assert "FAIL  port" in capsys.readouterr().out
    assert main(["doctor", "host:port:or:so"]) == 1


def test_loopback_addresses_are_known() -> None:
    assert [is_loopback(host) for host in ("localhost", "127.0.0.9", "::1", "10.0.0.1", "broker")] == [
        True,
        True,
        True,
        False,
        False,
    ]
