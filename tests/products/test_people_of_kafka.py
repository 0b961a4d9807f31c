"""The web console with users of Apache Kafka and of three brokers: what each user sees, and the end of their tokens.

Apache Kafka needs a Java (JAVA_HOME, or on the PATH) and its jars: MOLDAU_KAFKA_LIBS names their directory.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from html import unescape
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer
from msgspec.structs import replace

from moldau.client.admin.acls import create_acls
from moldau.client.admin.scram import Credential, alter_credentials
from moldau.client.admin.tokens import DelegationToken, describe_tokens
from moldau.client.admin.topics import create_topic
from moldau.client.protocol.access import ClusterAccess
from moldau.client.protocol.secrets import Secret
from moldau.client.protocol.security import SASL_PASSWORD, ClientLogin
from moldau.errors import KafkaError
from moldau.products.service.logins.cluster import WITHOUT_TOKENS, WRONG
from moldau.shell.io.simulated.random import SeededRandom
from moldau.testing import Cluster, allow
from moldau.transport.access import open_admin
from moldau.wire.protocol.jaas import PLAIN_MODULE
from tests.support.apache_kafka import NEEDS_APACHE_KAFKA
from tests.support.brokers_with_logins import SETTINGS, apache_with_logins
from tests.support.web_console import WebBrowser, console_of, sentence_in, token_in

PEOPLE = ("alice", "bob", "carol")
PASSWORDS = {name: f"PLANTED-{name}-secret" for name in (*PEOPLE, "console")}
ACLS = [
    allow("alice", "read", "describe", "describe_configs", topic="orders"),
    allow("bob", "describe", topic="orders"),
    allow("bob", "read", "describe", topic="returns"),
    allow("console", "read", "describe", topic="*"),
]
TOPICS = ("orders", "returns", "salaries")
SECRET_KEY = {"delegation.token.secret.key": "the key of all tokens"}
FILE = '[roles]\nadmin = ["alice"]\nviewer = ["*"]\n'
SCRAM, PLAIN = "SCRAM-SHA-512", "PLAIN"
TRIES = 100


class Place(NamedTuple):
    """A cluster with users. `servers`: each broker separately."""

    access: Callable[[str], ClusterAccess]
    servers: Sequence[str]

    def tokens_of(self, name: str) -> list[DelegationToken]:
        with open_admin(self.access(name)) as admin:
            return describe_tokens(admin, [f"User:{name}"])

    def lets_in(self, token: DelegationToken, server: str) -> bool:
        """Whether a broker accepts the token."""
        return self._error_of(token, server) is None

    def refuses(self, token: DelegationToken, server: str) -> bool:
        return self._error_of(token, server) == "SASL_AUTHENTICATION_FAILED"

    def _error_of(self, token: DelegationToken, server: str) -> str | None:
        login = ClientLogin(SCRAM, token.token_id, Secret.in_memory(SASL_PASSWORD, token.password), is_token=True)
        access = self.access("alice")
        own = replace(access, bootstrap_servers=server, security=replace(access.security, login=login))
        try:
            with open_admin(own) as admin:
                admin.cluster()
        except KafkaError as error:
            return error.name
        return None


def wait_until(is_so: Callable[[], bool]) -> None:
    """Bounded, because each look is a login at a broker."""
    assert any(is_so() for _ in range(TRIES))


def logged_in(address: str, name: str) -> WebBrowser:
    browser = WebBrowser(address)
    status, page = browser.log_in(name, PASSWORDS[name])
    assert status == 200, sentence_in(page)
    return browser


def access_to(server: str, mechanism: str) -> Callable[[str], ClusterAccess]:
    def access(name: str) -> ClusterAccess:
        return ClusterAccess.from_properties(
            {
                "bootstrap.servers": server,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
                "sasl.username": name,
                "sasl.password": PASSWORDS[name],
            }
        )

    return access


@contextmanager
def apache(tmp_path: Path, mechanisms: Sequence[str], own: Mapping[str, str]) -> Iterator[Place]:
    """Apache Kafka with the topics, the ACLs and the users, who log in by the first mechanism."""
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    settings = {
        **SETTINGS,
        "sasl.enabled.mechanisms": ",".join(mechanisms),
        "listener.name.login.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users};",
        "connection.failed.authentication.delay.ms": "0",
        **own,
    }
    (tmp_path / "data").mkdir()
    with apache_with_logins(settings)(tmp_path / "scratch", tmp_path / "data") as served:
        with open_admin(ClusterAccess(served.servers)) as admin:
            create_acls(admin, [acl for rights in ACLS for acl in rights])
            for name, password in PASSWORDS.items():
                alter_credentials(admin, SeededRandom(1), name, [Credential(SCRAM, 4_096, password)], [])
            for topic in TOPICS:
                create_topic(admin, topic, partitions=1)
        producer = Producer({"bootstrap.servers": served.servers})
        for topic in TOPICS:
            for number in range(5):
                producer.produce(topic, f"{topic} {number}")
        assert producer.flush(60) == 0
        place = Place(access_to(served.login, mechanisms[0]), [served.login])
        for name in PASSWORDS:
            wait_until(partial(is_known, place.access(name)))
        yield place


def is_known(access: ClusterAccess) -> bool:
    """Apache Kafka answers a change before its broker has applied it."""
    try:
        with open_admin(access) as admin:
            admin.cluster()
    except KafkaError:
        return False
    return True


@contextmanager
def three_brokers() -> Iterator[Place]:
    with Cluster(brokers=3, security="sasl_plaintext", users=PASSWORDS, acls=ACLS, settings=SECRET_KEY) as cluster:
        for topic in TOPICS:
            cluster.create_topic(topic)
            cluster.produce(topic, *(f"{topic} {number}" for number in range(5)))
        yield Place(cluster.access, cluster.bootstrap_servers.split(","))


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((SCRAM,), marks=NEEDS_APACHE_KAFKA, id="kafka"),
        pytest.param((PLAIN, SCRAM), marks=NEEDS_APACHE_KAFKA, id="kafka with plain passwords"),
        pytest.param((), marks=pytest.mark.slow, id="three brokers"),
    ],
)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    mechanisms = request.param
    found = apache(tmp_path_factory.mktemp("kafka"), mechanisms, SECRET_KEY) if mechanisms else three_brokers()
    with found as place:
        yield place


def test_each_person_sees_what_the_cluster_lets_this_person_see(place: Place, tmp_path: Path) -> None:
    with console_of(place.access("console"), tmp_path, FILE) as address:
        browsers = {name: logged_in(address, name) for name in PEOPLE}
        pages = {name: browser.get("/topics")[1] for name, browser in browsers.items()}
        seen = {name: [topic for topic in TOPICS if f">{topic}<" in page] for name, page in pages.items()}
        assert seen == {"alice": ["orders"], "bob": ["orders", "returns"], "carol": []}
        assert not any("acts as" in page for page in pages.values())
        assert "orders 4" in browsers["alice"].get("/topics/orders/records")[1]
        assert "returns 4" in browsers["bob"].get("/topics/returns/tail")[1]
        status, page = browsers["bob"].get("/topics/orders/records")
        assert (status, "orders 4" in page, "uthoriz" in page) == (502, False, True)
        assert browsers["alice"].get("/topics/salaries")[0] == 404
        assert "denies you Describe on the cluster" in browsers["alice"].get("/brokers")[1]
        for path in ("/", "/brokers", "/brokers/1", "/groups", "/pipelines", "/topics/orders"):
            assert browsers["alice"].get(path)[0] == 200, path


def test_log_out_ends_the_token_at_every_broker(place: Place, tmp_path: Path) -> None:
    with console_of(place.access("console"), tmp_path, FILE) as address:
        wait_until(lambda: place.tokens_of("alice") == [])
        browser = logged_in(address, "alice")
        [token] = place.tokens_of("alice")
        assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:alice", ("User:console",))
        for server in place.servers:
            wait_until(partial(place.lets_in, token, server))
        status, page = browser.get("/me")
        assert (status, base64.b64encode(token.hmac).decode() in page) == (200, False)
        browser.post("/logout", {"csrf": token_in(page)})
        assert browser.get("/topics", accept="text/plain")[0] == 401
        wait_until(lambda: place.tokens_of("alice") == [])
        for server in place.servers:
            wait_until(partial(place.refuses, token, server))


def test_a_wrong_password_lets_nobody_in(place: Place, tmp_path: Path) -> None:
    with console_of(place.access("console"), tmp_path, FILE) as address:
        status, page = WebBrowser(address).log_in("alice", "wrong")
        assert (status, sentence_in(page)) == (403, WRONG)


@pytest.mark.parametrize("mechanisms", [pytest.param((PLAIN,), marks=NEEDS_APACHE_KAFKA)])
def test_where_no_token_can_log_in_the_login_is_refused_or_the_service_reads(
    mechanisms: Sequence[str], tmp_path: Path
) -> None:
    """A listener without SCRAM: the cluster creates tokens, but accepts none there."""
    with apache(tmp_path, mechanisms, SECRET_KEY) as place:
        with console_of(place.access("console"), tmp_path, FILE) as address:
            status, page = WebBrowser(address).log_in("alice", PASSWORDS["alice"])
            assert (status, unescape(sentence_in(page))) == (403, WITHOUT_TOKENS)
        wait_until(lambda: place.tokens_of("alice") == [])
        with console_of(place.access("console"), tmp_path, f'[login]\nwithout_tokens = "service"\n{FILE}') as address:
            browser = logged_in(address, "alice")
            _, page = browser.get("/topics")
            assert ("acts as" in page, ">salaries<" in page) == (True, True)
