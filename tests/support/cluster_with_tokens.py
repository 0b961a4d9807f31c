"""A cluster of Moldau or of Apache Kafka that issues delegation tokens to SCRAM-SHA-512 users, without ACLs."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.peers import CACHE, ApacheKafka, fetch_kafka
from moldau.client.protocol.access import ClusterAccess
from moldau.testing import Cluster
from tests.differential.oracle import MECHANISM, settings_with_users

OWN = "admin"
"""The super user of Apache Kafka."""
SECRET_KEY = {"delegation.token.secret.key": "sesame"}


@contextmanager
def cluster_with_tokens(
    broker: str, passwords: Mapping[str, str], settings: Mapping[str, str] | None = None
) -> Iterator[tuple[str, ClusterAccess]]:
    """`broker`: moldau or kafka. Gives the bootstrap servers, and the access of the super user."""
    more = {**SECRET_KEY, **(settings or {})}
    if broker == "moldau":
        with Cluster(security="sasl_plaintext", users=dict(passwords), settings=more) as cluster:
            yield cluster.bootstrap_servers, cluster.access()
        return
    own_password = secrets.token_hex(8)
    with tempfile.TemporaryDirectory(prefix="moldau-tokens-") as folder:
        everybody = {**passwords, OWN: own_password}
        peer = ApacheKafka("apache", Path(folder), libraries=fetch_kafka(CACHE), passwords=everybody)
        peer.settings = settings_with_users(OWN, own_password, "SASL_PLAINTEXT") | more
        peer.settings["allow.everyone.if.no.acl.found"] = "true"
        peer.start()
        try:
            login = properties_of(OWN, own_password)
            yield (
                peer.bootstrap_servers,
                ClusterAccess.from_properties({"bootstrap.servers": peer.bootstrap_servers, **login}),
            )
        finally:
            peer.stop()


def properties_of(user: str, password: str) -> dict[str, str]:
    """The settings of this user's client, by the names of librdkafka, which Moldau's clients accept."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": MECHANISM,
        "sasl.username": user,
        "sasl.password": password,
    }
