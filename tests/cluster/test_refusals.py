"""TLS, logins and ACLs that reject a client: `moldau doctor` and other commands name the cause and the remedy."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from moldau.cli.main import main
from moldau.testing import Cluster
from moldau.testing.rights import allow
from moldau.transport import authority as authorities
from moldau.wire.x509 import not_before_ms
from tests.support.certificates import LIFETIME_DAYS, NOW, Issued, authority, name_of

PASSWORD = "of-alice-and-nobody-else"
TOPIC = "orders"


class Run:
    """Runs commands in this process, with a settings file for the client."""

    def __init__(self, scratch: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._scratch = scratch
        self._capsys = capsys
        self._count = 0

    def words(self, properties: dict[str, str]) -> list[str]:
        self._count += 1
        path = self._scratch / f"client-{self._count}.properties"
        path.write_text("".join(f"{name}={_escaped(text)}\n" for name, text in properties.items()))
        path.chmod(0o600)
        return ["--command-config", str(path)]

    def doctor(self, properties: dict[str, str], *options: str) -> dict[str, str]:
        """The first finding that failed."""
        code = main(["doctor", "--json", "--timeout", "10", *options, *self.words(properties)])
        rows: list[dict[str, str]] = json.loads(self._capsys.readouterr().out)
        assert code == 1, rows
        return next(row for row in rows if row["level"] == "failed")

    def command(self, properties: dict[str, str], *words: str) -> str:
        """The message of a command that fails."""
        code = main([*words, *self.words(properties)])
        captured = self._capsys.readouterr()
        assert code == 1, captured
        return captured.out + captured.err


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(tmp_path, capsys)


def says_the_same(run: Run, properties: dict[str, str]) -> dict[str, str]:
    """The doctor's finding; `topics list` prints the same."""
    found = run.doctor(properties)
    assert f"{found['text']}. {found['advice']}" in run.command(properties, "topics", "list")
    return found


# -- the protocol of a port


@pytest.fixture(scope="module")
def logins() -> Iterator[Cluster]:
    no_delay = {"connection.failed.authentication.delay.ms": 0}
    with Cluster(security="sasl_ssl", users={"alice": PASSWORD}, acls=[], settings=no_delay) as cluster:
        cluster.create_topic(TOPIC)
        yield cluster


@pytest.fixture(scope="module")
def alice(logins: Cluster) -> dict[str, str]:
    return logins.client_properties("alice")


def test_plain_text_on_a_port_of_tls(run: Run, logins: Cluster) -> None:
    found = says_the_same(run, {"bootstrap.servers": logins.bootstrap_servers})
    assert found["text"] == f"{logins.bootstrap_servers} speaks TLS, and this client speaks plain text"
    assert "security.protocol to SSL or SASL_SSL" in found["advice"]


def test_tls_on_a_port_of_plain_text(run: Run, alice: dict[str, str]) -> None:
    with Cluster() as plain:
        address = plain.bootstrap_servers
        found = says_the_same(run, {**alice, "bootstrap.servers": address})
    assert found["text"] == f"{address} speaks plain text, without TLS"
    assert "security.protocol=PLAINTEXT" in found["advice"]


def test_tls_on_a_port_of_logins_in_plain_text(run: Run, alice: dict[str, str]) -> None:
    with Cluster(security="sasl_plaintext", users={"alice": PASSWORD}) as plain:
        found = run.doctor({**alice, "bootstrap.servers": plain.bootstrap_servers})
    assert "security.protocol=SASL_PLAINTEXT" in found["advice"]


def test_no_login_where_one_is_asked_for(run: Run, alice: dict[str, str]) -> None:
    without = {name: text for name, text in alice.items() if not name.startswith("sasl.")}
    found = says_the_same(run, {**without, "security.protocol": "SSL"})
    assert "asks for a login by SASL, and this client has none; it offers SCRAM-SHA-512" in found["text"]
    assert "security.protocol=SASL_SSL" in found["advice"]


def test_a_login_where_none_is_asked_for(run: Run, alice: dict[str, str]) -> None:
    with Cluster(security="ssl") as cluster:
        found = says_the_same(run, {**alice, "bootstrap.servers": cluster.bootstrap_servers})
    assert "may be a listener without SASL" in found["text"]
    assert "Set security.protocol=SSL" in found["advice"]


# -- certificates


def certificate_of(of: authorities.Authority, *hosts: str, begins_in_days: int = 0, days: int = 10) -> Issued:
    begin = NOW + timedelta(days=begins_in_days)
    return Issued(*of.issue(name_of("CN=node-1"), hosts or ("127.0.0.1",), begin, days))


OLD = authorities.Authority.create(name_of("CN=Old authority"), NOW - timedelta(days=1_000), LIFETIME_DAYS)


def trusting(address: str, pem: str = OLD.pem) -> dict[str, str]:
    return {
        "bootstrap.servers": address,
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": pem,
    }


def served_with(issued: Issued, listening: str = "127.0.0.1") -> Cluster:
    return Cluster(
        settings={
            "listeners": f"SSL://{listening}:0",
            "advertised.listeners": "",
            "security.inter.broker.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": issued.key_pem,
            "ssl.keystore.certificate.chain": issued.chain_pem,
        }
    )


def test_a_certificate_that_has_expired(run: Run) -> None:
    with served_with(certificate_of(OLD, begins_in_days=-20)) as cluster:
        found = says_the_same(run, trusting(cluster.bootstrap_servers))
    ended = (NOW - timedelta(days=10)).strftime("%Y-%m-%d")
    assert f"(CN=node-1) has expired: it was valid until {ended}" in found["text"]
    assert "moldau certs issue" in found["advice"]


def test_a_certificate_that_is_not_valid_yet(run: Run) -> None:
    issued = certificate_of(OLD, begins_in_days=5)
    with served_with(issued) as cluster:
        found = says_the_same(run, trusting(cluster.bootstrap_servers))
    begins = datetime.fromtimestamp(not_before_ms(ssl.PEM_cert_to_DER_cert(issued.chain_pem)) / 1_000, UTC)
    assert f"is not valid yet: it is valid from {begins:%Y-%m-%d %H:%M} UTC on" in found["text"]
    assert "clocks" in found["advice"]


def test_a_certificate_of_a_foreign_authority(run: Run) -> None:
    with served_with(certificate_of(OLD)) as cluster:
        found = says_the_same(run, trusting(cluster.bootstrap_servers, authority().pem))
    assert "is signed by CN=Old authority, which this client does not trust" in found["text"]
    assert "ssl.truststore.location" in found["advice"]


def test_a_certificate_of_other_hosts(run: Run) -> None:
    with served_with(certificate_of(OLD, "kafka.example", "10.0.0.7", "::1")) as cluster:
        found = says_the_same(run, trusting(cluster.bootstrap_servers))
    assert found["text"].endswith("is not one for 127.0.0.1: it is for 10.0.0.7, ::1, kafka.example")
    assert "--host 127.0.0.1" in found["advice"]


# -- logins


def test_a_wrong_password_and_an_unknown_user_are_told_alike(run: Run, alice: dict[str, str]) -> None:
    texts = []
    for user, password in (("alice", "wrong"), ("alina", PASSWORD)):
        login = {"sasl.username": user, "sasl.password": password}
        others = {name: text for name, text in alice.items() if name != "sasl.jaas.config"}
        found = says_the_same(run, {**others, **login})
        assert found["step"] == "login"
        assert password not in found["text"] + found["advice"]
        texts.append((found["text"] + found["advice"]).replace(user, "USER"))
    assert texts[0] == texts[1]
    assert "refused the user USER by SCRAM-SHA-512: there is no such user, or its password is another" in texts[0]


def test_a_mechanism_that_is_not_offered(run: Run, alice: dict[str, str]) -> None:
    found = says_the_same(run, {**alice, "sasl.mechanism": "SCRAM-SHA-256"})
    assert "does not offer the SASL mechanism SCRAM-SHA-256: it offers SCRAM-SHA-512" in found["text"]
    assert "Set sasl.mechanism" in found["advice"]


# -- rights


@pytest.mark.parametrize(
    ("words", "operation"),
    [
        (("topics", "describe", TOPIC), "describe"),
        (("topics", "create", TOPIC), "create"),
        (("topics", "delete", TOPIC), "delete"),
        (("topics", "alter", TOPIC, "--set", "retention.ms=1"), "alter-configs"),
        (("consume", TOPIC, "--until-end"), "read"),
        (("produce", TOPIC, "coffee"), "write"),
    ],
    ids=lambda words: " ".join(words[:2]) if isinstance(words, tuple) else None,
)
def test_a_missing_right_to_a_topic(run: Run, alice: dict[str, str], words: tuple[str, ...], operation: str) -> None:
    said = run.command(alice, *words)
    assert f"User:alice may not {operation} topic {TOPIC}" in said
    assert f"moldau acls add User:alice --operation {operation} --topic {TOPIC}" in said


@pytest.mark.parametrize(
    ("words", "right", "line"),
    [
        (("groups", "describe", "kitchen"), "describe group kitchen", "--operation describe --group kitchen"),
        (("acls", "list"), "describe the cluster", "--operation describe --cluster"),
        (("acls", "add", "ben", "--operation", "read", "--topic", TOPIC), "alter the cluster", "alter --cluster"),
        (("quotas", "describe"), "describe-configs the cluster", "--operation describe-configs --cluster"),
    ],
    ids=["group", "acls", "acls add", "quotas"],
)
def test_a_missing_right_to_others(
    run: Run, alice: dict[str, str], words: tuple[str, ...], right: str, line: str
) -> None:
    said = run.command(alice, *words)
    assert f"User:alice may not {right}" in said
    assert line in said


def test_the_line_that_is_told_gives_the_right(run: Run) -> None:
    rights = [allow("alice", "read", topic=TOPIC)]
    with Cluster(security="sasl_plaintext", users={"alice": PASSWORD}, acls=rights) as cluster:
        cluster.create_topic(TOPIC)
        alice, admin = cluster.client_properties("alice"), cluster.client_properties()
        assert "User:alice may not read group kitchen" in run.command(alice, "consume", TOPIC, "--group", "kitchen")
        _, _, told = run.command(alice, "produce", TOPIC, "coffee").partition("allows it: moldau ")
        assert main([*told.partition(" (0 ")[0].split(), *run.words(admin)]) == 0
        assert main(["produce", TOPIC, "coffee", *run.words(alice)]) == 0


def test_the_doctor_names_the_rights_to_a_topic(run: Run, alice: dict[str, str]) -> None:
    found = run.doctor(alice, "--topic", TOPIC)
    assert (found["step"], found["text"]) == ("rights", f"User:alice may not read topic {TOPIC}")
    assert f"--operation read --topic {TOPIC}" in found["advice"]


def test_the_doctor_names_the_rights_of_its_round_trip(run: Run, alice: dict[str, str]) -> None:
    found = run.doctor(alice, "--round-trip")
    assert (found["step"], found["text"]) == ("round trip", "User:alice may not create topic moldau-doctor-...")
    assert "--operation create --operation write --operation read --operation delete" in found["advice"]
    assert "--topic moldau-doctor- --prefixed" in found["advice"]
