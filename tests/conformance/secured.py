"""A cluster on SASL_SSL with ACLs, of Moldau or of Apache Kafka, and the user of all clients."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from moldau.testing import Cluster
from tests.conformance.clients import login
from tests.conformance.clients.interface import TIMEOUT_S

USER = "alice"
ALLOWED = (
    (ResourceType.TOPIC, "topic-", ResourcePatternType.PREFIXED, AclOperation.ALL),
    # kafkajs reads as a group with the topic's name
    (ResourceType.GROUP, "topic-", ResourcePatternType.PREFIXED, AclOperation.ALL),
    (ResourceType.GROUP, "group-", ResourcePatternType.PREFIXED, AclOperation.ALL),
    # of a librdkafka consumer that is not a member
    (ResourceType.GROUP, "unused", ResourcePatternType.LITERAL, AclOperation.READ),
    (ResourceType.TRANSACTIONAL_ID, "id-", ResourcePatternType.PREFIXED, AclOperation.ALL),
)


def give_rights(own: AdminClient) -> None:
    """Gives the user all rights that the tests need on their names."""
    acls = [
        AclBinding(kind, name, pattern, f"User:{USER}", "*", operation, AclPermissionType.ALLOW)
        for kind, name, pattern, operation in ALLOWED
    ]
    for future in own.create_acls(acls).values():
        future.result(TIMEOUT_S)


@contextmanager
def secured_cluster(against: str) -> Iterator[str]:
    """Gives the bootstrap servers; the environment has the login meanwhile. `against`: moldau or apache."""
    password = secrets.token_hex(8)
    with tempfile.TemporaryDirectory(prefix="moldau-secured-") as folder:
        start = {"moldau": _moldau, "apache": _apache}[against]
        with start(Path(folder), password) as (servers, own, authority):
            give_rights(own)
            names = {login.USER: USER, login.PASSWORD: password, login.AUTHORITY: authority}
            os.environ.update(names)
            try:
                yield servers
            finally:
                for name in names:
                    del os.environ[name]


@contextmanager
def _moldau(folder: Path, password: str) -> Iterator[tuple[str, AdminClient, str]]:
    with Cluster(security="sasl_ssl", users={USER: password}, acls=()) as cluster:
        authority = folder / "authority.pem"
        authority.write_text(cluster.client_properties()["ssl.truststore.certificates"])
        yield cluster.bootstrap_servers, AdminClient(cluster.client_settings()), str(authority)


@contextmanager
def _apache(folder: Path, password: str) -> Iterator[tuple[str, AdminClient, str]]:
    from benchmarks.peers import CACHE, ApacheKafka, fetch_kafka
    from tests.differential.oracle import settings_with_users

    own, own_password = "admin", secrets.token_hex(8)
    peer = ApacheKafka("apache", folder, has_tls=True, libraries=fetch_kafka(CACHE))
    peer.passwords = {USER: password, own: own_password}
    peer.settings = settings_with_users(own, own_password, "SASL_SSL")
    peer.start()
    try:
        settings = login.librdkafka_as(own, own_password, str(peer.authority))
        admin = AdminClient({"bootstrap.servers": peer.bootstrap_servers, **settings})
        yield peer.bootstrap_servers, admin, str(peer.authority)
    finally:
        peer.stop()
