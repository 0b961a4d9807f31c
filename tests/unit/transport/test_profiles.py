"""Profiles name clusters, in a file that only its owner can read."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.client.protocol.bearer import BearerLogin
from moldau.client.protocol.secrets import Secret
from moldau.errors import KafkaError
from moldau.transport.profiles import profile_access, profiles_path
from moldau.transport.secrets import read_secret

TEXT = """
[profiles.prod]
bootstrap.servers = "a:1"
request.timeout.ms = 3000
security.protocol = "SASL_SSL"
ssl.truststore.type = "PEM"
ssl.truststore.location = "~/ca.pem"
sasl.mechanism = "PLAIN"
sasl.username = "alice"
sasl.password = {env = "MOLDAU_TEST_PASSWORD"}

[profiles."of.test"]
"bootstrap.servers" = "b:1"
"security.protocol" = "SASL_PLAINTEXT"
"sasl.mechanism" = "PLAIN"
"sasl.username" = "alice"
"sasl.password" = "hidden"

[profiles.in_file]
bootstrap.servers = "c:1"
security.protocol = "SASL_PLAINTEXT"
sasl.mechanism = "PLAIN"
sasl.username = "alice"
sasl.password = {file = "password"}

[profiles.tokens]
bootstrap.servers = "e:1"
security.protocol = "SASL_PLAINTEXT"
sasl.mechanism = "OAUTHBEARER"
sasl.oauthbearer.token.endpoint.url = "https://issuer.example.org/token"
sasl.oauthbearer.client.credentials.client.id = "service"
sasl.oauthbearer.client.credentials.client.secret = {env = "MOLDAU_TEST_PASSWORD"}
https.ca.location = "~/issuer.pem"

[profiles.wrong]
bootstrap.servers = "d:1"
sasl.password = ["hidden"]
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = profiles_path()
    path.parent.mkdir()
    path.write_text(TEXT)
    path.chmod(0o600)
    return path


def password_of(access: ClusterAccess) -> str:
    assert access.security.login is not None
    return read_secret(access.security.login.password, "sasl.password")


def test_a_profile_has_the_names_of_kafka(path: Path) -> None:
    access = profile_access("prod")
    assert (str(access), access.request_timeout_ms) == ("a:1", 3_000)
    assert dict(access.security.tls)["ssl.truststore.location"] == str(Path.home() / "ca.pem")
    assert access.security.login is not None
    assert access.security.login.password == Secret.in_environment("MOLDAU_TEST_PASSWORD")
    assert str(profile_access("prod", servers="z:2")) == "z:2"
    assert profile_access("prod", servers="z:2").security == access.security


@pytest.mark.parametrize("profile", ["of.test", "in_file"])
def test_a_secret_of_a_profile_is_read_again_where_it_is_used(path: Path, profile: str) -> None:
    (path.parent / "password").write_text("hidden\n")
    access = profile_access(profile)
    sent = pickle.dumps(access)
    assert b"hidden" not in sent
    assert password_of(pickle.loads(sent)) == "hidden"
    options = {name.removeprefix("kafka."): text for name, text in access.spark_options().items()}
    assert password_of(ClusterAccess.from_properties(options)) == "hidden"


def test_a_profile_names_an_issuer_of_tokens(path: Path) -> None:
    access = profile_access("tokens")
    login = access.security.login
    assert isinstance(login, BearerLogin)
    assert (login.client_id, login.client_secret) == ("service", Secret.in_environment("MOLDAU_TEST_PASSWORD"))
    assert login.ca_location == str(Path.home() / "issuer.pem")
    assert pickle.loads(pickle.dumps(access)) == access


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_reach_is_refused(path: Path, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(KafkaError, match=f"others can read it .* chmod 600 {path}"):
        profile_access("prod")


@pytest.mark.parametrize(
    ("profile", "text", "told"),
    [
        ("prud", TEXT, r"has no profile prud.*prod"),
        ("wrong", TEXT, "profile wrong in .* sasl.password must be a text or a number"),
        ("prod", "[profiles.prod]\n", "bootstrap.servers must be set"),
        ("prod", "[profiles.prod\n", "is not TOML"),
        ("prod", "profiles = 3\n", "profiles must be a table"),
        ("prod", "", "has no profile prod"),
    ],
)
def test_a_profile_that_reaches_no_cluster_is_refused(path: Path, profile: str, text: str, told: str) -> None:
    path.write_text(text)
    with pytest.raises(KafkaError, match=told) as refused:
        profile_access(profile)
    assert "hidden" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    with pytest.raises(KafkaError, match=r"cannot read the profiles in .*none/moldau/profiles\.toml: No such file"):
        profile_access("prod")
