"""A registry with logins, as Confluent's clients and ours see it: over TLS, with roles by subject."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from moldau.client.protocol.secrets import Secret
from moldau.products.pipelines.formats.registry import Registry, RegistryError
from moldau.products.pipelines.formats.registry_security import RegistrySecurity
from moldau.testing import Cluster
from moldau.transport.http_authorization import new_secret
from tests.support.certificates import authority
from tests.support.issuer import Client, Issuer
from tests.support.json_web_tokens import Forgery
from tests.support.schema_registry import SchemaRegistry

SALE = json.dumps({"type": "record", "name": "Sale", "fields": [{"name": "amount", "type": "int"}]})
OTHER = json.dumps({"type": "record", "name": "Other", "fields": [{"name": "at", "type": "long"}]})
SECRET, KEPT = new_secret()
PASSWORDS = {"vera": "vera's", "edna": "edna's: and more", "ada": "ada's", "sam": "sam's", "nobody": "no role"}
PEOPLE = """
[login]
mechanism = "SCRAM-SHA-512"

[roles]
admin = ["ada"]
editor = ["edna"]
viewer = ["vera"]

[subjects."sales-"]
editor = ["sam"]

[machines.builder]
subjects = {{"sales-" = "admin"}}
sha256 = "{kept}"

[tls]
ssl.keystore.type = "PEM"
ssl.keystore.location = "server.pem"
"""
AT_ONCE = {"connection.failed.authentication.delay.ms": 0}
"""The broker answers wrong passwords without its delay."""


class Secured:
    """A registry with logins over a cluster with logins. `ca`: the certificate that clients trust."""

    def __init__(self, directory: Path, cluster: Cluster) -> None:
        authority().issue("CN=registry").write(directory, "server")
        self.ca = str(authority().write(directory))
        login = directory / "people.toml"
        login.write_text(PEOPLE.format(kept=KEPT))
        login.chmod(0o600)
        self.cluster = cluster
        self.registry = SchemaRegistry(cluster.access(), login=login)
        self.url = self.registry.url

    def client(self, user: str, **more: Any) -> SchemaRegistryClient:
        login = {"basic.auth.user.info": f"{user}:{PASSWORDS[user]}"} if user else {}
        return SchemaRegistryClient({"url": self.url, "ssl.ca.location": self.ca, "max.retries": 0, **login, **more})

    def by_token(self, token: str) -> SchemaRegistryClient:
        given = {"credentials.source": "STATIC_TOKEN", "token": token, "logical.cluster": "lsrc-1"}
        return self.client("", **{f"bearer.auth.{name}": text for name, text in given.items()})

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], Any]:
        request = urllib.request.Request(self.url + path, headers=headers)
        context = ssl.create_default_context(cafile=self.ca)
        try:
            with urllib.request.urlopen(request, timeout=30, context=context) as answer:
                return answer.status, dict(answer.headers), json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, dict(error.headers), json.loads(error.read())


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with Cluster(security="sasl_ssl", users=PASSWORDS) as cluster:
        found = Secured(tmp_path_factory.mktemp("registry"), cluster)
        found.client("ada").register_schema("sales-eu-value", Schema(SALE))
        found.client("ada").register_schema("stock-value", Schema(OTHER))
        yield found
        found.registry.close()


def refused(act: Any, *arguments: Any, **named: Any) -> tuple[int, int]:
    """The status and the error code."""
    with pytest.raises(SchemaRegistryError) as error:
        act(*arguments, **named)
    return error.value.http_status_code, error.value.error_code


FORBIDDEN = (403, 40301)


@pytest.mark.parametrize("way", ["basic", "bearer"])
def test_serializers_work_over_tls_with_a_login(secured: Secured, way: str) -> None:
    at = SerializationContext(f"sales-{way}", MessageField.VALUE)
    writer, reader = (secured.by_token(SECRET) if way == "bearer" else secured.client("sam") for _ in range(2))
    written = AvroSerializer(writer, SALE)({"amount": 7}, at)
    assert AvroDeserializer(reader)(written, at) == {"amount": 7}


def test_nobody_gets_in_without_a_login(secured: Secured) -> None:
    for headers in ({}, {"Authorization": "Basic dmVyYTp3cm9uZw=="}, {"Authorization": f"Bearer {KEPT}"}):
        status, answered, body = secured.get("/subjects", **headers)
        assert (status, body["error_code"], body["message"]) == (401, 401, "Unauthorized")
        assert answered["www-authenticate"].startswith('Basic realm="')
    assert secured.get("/metrics")[0] == 401
    assert refused(secured.client("nobody").get_subjects) == FORBIDDEN


def test_a_viewer_reads(secured: Secured) -> None:
    vera = secured.client("vera")
    assert {"sales-eu-value", "stock-value"} <= set(vera.get_subjects())
    schema_id = vera.get_latest_version("stock-value").schema_id
    assert vera.get_schema(schema_id).schema_str == json.dumps(json.loads(OTHER), separators=(",", ":"))
    assert vera.lookup_schema("stock-value", Schema(OTHER)).version == 1
    assert vera.test_compatibility("stock-value", Schema(OTHER))
    assert refused(vera.register_schema, "new-value", Schema(SALE)) == FORBIDDEN
    assert refused(vera.delete_subject, "stock-value") == FORBIDDEN
    assert refused(vera.set_compatibility, "stock-value", "FULL") == FORBIDDEN


def test_an_editor_writes_and_an_admin_settles(secured: Secured) -> None:
    edna, ada = secured.client("edna"), secured.client("ada")
    edna.register_schema("edited-value", Schema(SALE))
    assert refused(edna.set_compatibility, "edited-value", "FULL") == FORBIDDEN
    assert edna.delete_subject("edited-value") == [1]
    assert refused(edna.delete_subject, "edited-value", permanent=True) == FORBIDDEN
    assert refused(edna.set_compatibility, None, "FULL") == FORBIDDEN
    ada.delete_subject("edited-value", permanent=True)
    ada.set_compatibility("stock-value", "FULL")
    assert ada.get_compatibility("stock-value") == "FULL"


def test_a_prefix_is_a_registry_of_its_own(secured: Secured) -> None:
    sam, ada = secured.client("sam"), secured.client("ada")
    assert all(subject.startswith("sales-") for subject in sam.get_subjects())
    assert "sales-eu-value" in sam.get_subjects()
    stock_id = ada.get_latest_version("stock-value").schema_id
    for act, *arguments in (
        (sam.get_latest_version, "stock-value"),
        (sam.get_versions, "stock-value"),
        (sam.get_versions, "absent-value"),  # the response does not say whether it exists
        (sam.register_schema, "stock-value", Schema(SALE)),
        (sam.get_schema, stock_id),
        (sam.get_compatibility, "stock-value"),
        (sam.set_compatibility, None, "NONE"),
        (sam.set_compatibility, "sales-eu-value", "NONE"),
    ):
        assert refused(act, *arguments) == FORBIDDEN
    shared = ada.register_schema("sales-shared-value", Schema(OTHER))
    assert shared == stock_id
    assert sam.get_schema(shared).schema_str
    places = secured.get(f"/schemas/ids/{shared}/versions", Authorization=f"Bearer {SECRET}")[2]
    assert [place["subject"] for place in places] == ["sales-shared-value"]
    listed = secured.get("/schemas", Authorization=f"Bearer {SECRET}")[2]
    assert {each["subject"].partition("-")[0] for each in listed} == {"sales"}
    ada.delete_subject("sales-shared-value")


def test_a_reference_needs_the_right_to_read_it(secured: Secured) -> None:
    body = {"schema": SALE, "references": [{"name": "Other", "subject": "stock-value", "version": 1}]}
    request = urllib.request.Request(
        f"{secured.url}/subjects/sales-eu-value/versions", json.dumps(body).encode(), method="POST"
    )
    request.add_header("Authorization", f"Bearer {SECRET}")
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request, timeout=30, context=ssl.create_default_context(cafile=secured.ca))
    with error.value as answer:
        told = json.loads(answer.read())
    assert (told["error_code"], told["message"]) == (40301, "User is denied operation Read on Subject: stock-value")


def test_our_own_client_logs_in(secured: Secured, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    for name, text in (("basic.auth.user.info", f"vera:{PASSWORDS['vera']}"), ("bearer.auth.token", SECRET)):
        secret.write_text(text + "\n")
        properties = {name: Secret.in_file(str(secret)).reference(), "ssl.ca.location": secured.ca}
        registry = Registry(secured.url, 1, RegistrySecurity.from_properties(properties))
        registry.check(1)
        assert registry.newest("sales-eu-value").kind == "AVRO"
        with pytest.raises(RegistryError, match=r"answered 403: .* (denied operation|no editor)") as error:
            registry.register("stock-value", SALE, "AVRO")
        assert text not in str(error.value)
    stranger = Registry(secured.url, 1, RegistrySecurity.from_properties({"ssl.ca.location": secured.ca}))
    with pytest.raises(RegistryError, match="answered 401: Unauthorized"):
        stranger.check(1)
    unsafe = Registry(secured.url, 1, RegistrySecurity())
    with pytest.raises(RegistryError, match="does not answer"):
        unsafe.newest("sales-eu-value")


@pytest.fixture
def issued(secured: Secured, tmp_path: Path) -> Iterator[tuple[SchemaRegistry, Issuer]]:
    """A registry that accepts an issuer's tokens."""
    with Issuer.running(tls=True) as issuer:
        authority().issue("CN=registry").write(tmp_path, "server")
        oidc = f'[oidc]\nissuer = "{issuer.url}"\nca = "{secured.ca}"\naudience = "registry"\n'
        login = tmp_path / "people.toml"
        login.write_text(PEOPLE.format(kept=KEPT).replace("[tls]", f'{oidc}principal.claim = "sub"\n[tls]'))
        login.chmod(0o600)
        issuer.audience = "registry"
        issuer.clients["sam"] = Client("PLANTED")
        registry = SchemaRegistry(secured.cluster.access(), login=login)
        yield registry, issuer
        registry.close()


def test_client_credentials_of_an_issuer_are_a_login(
    secured: Secured, issued: tuple[SchemaRegistry, Issuer], monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, issuer = issued
    monkeypatch.setenv("SSL_CERT_FILE", secured.ca)  # Confluent's client has no setting for the issuer's CA
    oauth = {
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.client.id": "sam",
        "bearer.auth.client.secret": "PLANTED",
        "bearer.auth.scope": "schemas",
        "bearer.auth.issuer.endpoint.url": issuer.token_url,
        "bearer.auth.logical.cluster": "lsrc-1",
    }
    client = SchemaRegistryClient({"url": registry.url, "ssl.ca.location": secured.ca, "max.retries": 0, **oauth})
    assert client.register_schema("sales-oauth-value", Schema(SALE)) >= 1
    assert refused(client.register_schema, "stock-value", Schema(SALE)) == FORBIDDEN
    assert issuer.requests.count("/token") == 1


@pytest.mark.parametrize("forgery", get_args(Forgery))
def test_a_forged_token_is_no_login(secured: Secured, issued: tuple[SchemaRegistry, Issuer], forgery: Forgery) -> None:
    registry, issuer = issued

    def status(token: str) -> int:
        request = urllib.request.Request(f"{registry.url}/subjects", headers={"Authorization": f"Bearer {token}"})
        try:
            with urllib.request.urlopen(request, timeout=60, context=context) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code

    context = ssl.create_default_context(cafile=secured.ca)
    assert status(issuer.token("sam")) == 200
    assert status(issuer.token("sam", forgery=forgery)) == 401


def test_an_issuer_that_is_away_is_one_clear_answer(secured: Secured, issued: tuple[SchemaRegistry, Issuer]) -> None:
    registry, issuer = issued
    issuer.faults["/.well-known/openid-configuration"] = "closed"
    token = issuer.token("sam")
    client = SchemaRegistryClient(
        {
            "url": registry.url,
            "ssl.ca.location": secured.ca,
            "max.retries": 0,
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": token,
            "bearer.auth.logical.cluster": "lsrc-1",
        }
    )
    assert refused(client.get_subjects) == (503, 503)
    del issuer.faults["/.well-known/openid-configuration"]
    assert "sales-eu-value" in client.get_subjects()


def test_a_thousand_wrong_passwords_from_ten_addresses_cost_little(tmp_path: Path) -> None:
    """Few of them reach the broker, and a user with the right password still logs in, also from one of the
    addresses."""
    with Cluster(security="sasl_plaintext", users=PASSWORDS, settings=AT_ONCE) as cluster:
        login = tmp_path / "people.toml"
        login.write_text(PEOPLE.format(kept=KEPT).partition("[tls]")[0])
        login.chmod(0o600)
        registry = SchemaRegistry(cluster.access(), login=login)
        port = int(registry.url.rpartition(":")[2])

        def ask(address: str, name: str, password: str) -> int:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60, source_address=(address, 0))
            user = base64.b64encode(f"{name}:{password}".encode()).decode()
            connection.request("GET", "/subjects", headers={"Authorization": f"Basic {user}"})
            status = connection.getresponse().status
            connection.close()
            return status

        def guess(number: int) -> int:
            return ask(f"127.0.0.{number % 10 + 2}", ("ada", "vera", "x")[number % 3], f"wrong {number}")

        assert ask("127.0.0.2", "vera", PASSWORDS["vera"]) == 200
        with ThreadPoolExecutor(10) as threads:
            statuses = Counter(threads.map(guess, range(1_000)))
        assert set(statuses) <= {401, 429, 503}
        assert statuses[401] <= 10 * 30  # five of each address at first, and one after each pause
        assert ask("127.0.0.2", "vera", PASSWORDS["vera"]) == 200  # known
        assert ask("127.0.0.99", "ada", PASSWORDS["ada"]) == 200
        registry.close()


def test_a_login_while_the_cluster_restarts_is_one_clear_answer(tmp_path: Path) -> None:
    login = tmp_path / "people.toml"
    login.write_text(PEOPLE.format(kept=KEPT).partition("[tls]")[0])
    login.chmod(0o600)
    with Cluster(security="sasl_plaintext", users=PASSWORDS, data_dir=tmp_path / "data") as cluster:
        registry = SchemaRegistry(cluster.access(), login=login)
        user = {"basic.auth.user.info": f"ada:{PASSWORDS['ada']}", "max.retries": 0}
        client = SchemaRegistryClient({"url": registry.url, **user})
        cluster.kill()
        assert refused(client.get_subjects) == (503, 503)
        cluster.restart()
        assert client.get_subjects() == []
        registry.close()
