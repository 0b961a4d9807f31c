"""An Apache Kafka to compare with: the named one, or a new one from its jars on loopback."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.peers import CACHE, ApacheKafka, fetch_kafka
from moldau.client.protocol.sasl import Credentials
from moldau.core.authorization.settings import STANDARD_AUTHORIZER
from moldau.wire.protocol.jaas import SCRAM_MODULE
from moldau.wire.protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.wire import RawConnection, log_in

LISTENER = "CLIENTS"
"""The listener of Apache Kafka for clients and for the broker itself."""
MECHANISM = "SCRAM-SHA-512"


def refuse_consumer_groups(bootstrap_servers: str, login: Credentials | None = None) -> None:
    """Downgrades `group.version` to 0, as in Moldau: requests of KIP-848 groups get error 35."""
    safe_downgrade = 2
    asked = FeatureUpdateKey("group.version", 0, upgrade_type=safe_downgrade)
    with RawConnection(bootstrap_servers) as connection:
        if login is not None:
            log_in(connection, login)
        answer = connection.ask(UpdateFeaturesRequest(feature_updates=(asked,)), 2)
    assert answer.error_code == 0, answer


@contextmanager
def running_kafka(bootstrap_servers: str | None) -> Iterator[str]:
    if bootstrap_servers is not None:
        yield bootstrap_servers
        return
    with tempfile.TemporaryDirectory(prefix="moldau-differential-") as folder:
        peer = ApacheKafka("apache", Path(folder), libraries=fetch_kafka(CACHE))
        peer.start()
        try:
            refuse_consumer_groups(peer.bootstrap_servers)
            yield peer.bootstrap_servers
        finally:
            peer.stop()


def settings_with_users(own: str, password: str, protocol: str) -> dict[str, str]:
    """For an Apache Kafka with SCRAM-SHA-512 logins and ACLs; `own` is a super user, with which the broker reaches
    itself."""
    jaas = f'{SCRAM_MODULE} required username="{own}" password="{password}";'
    return {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        # on a busy machine it must not fence its own broker
        "broker.session.timeout.ms": "60000",
        # for connections to the controller's listener, which no client uses
        "super.users": f"User:{own};User:ANONYMOUS",
        "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{LISTENER}:{protocol}",
        "sasl.enabled.mechanisms": MECHANISM,
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        f"listener.name.{LISTENER.lower()}.{MECHANISM.lower()}.sasl.jaas.config": jaas,
    }


@contextmanager
def running_kafka_with_users(own: str, passwords: Mapping[str, str], more: Mapping[str, str]) -> Iterator[str]:
    """On SASL_PLAINTEXT. `own`, one of the users, is the super user. `more`: further settings."""
    with tempfile.TemporaryDirectory(prefix="moldau-differential-") as folder:
        peer = ApacheKafka("apache", Path(folder), libraries=fetch_kafka(CACHE), passwords=dict(passwords))
        peer.settings = {**settings_with_users(own, passwords[own], "SASL_PLAINTEXT"), **more}
        peer.start()
        try:
            refuse_consumer_groups(peer.bootstrap_servers, Credentials(MECHANISM, own, passwords[own]))
            yield peer.bootstrap_servers
        finally:
            peer.stop()
