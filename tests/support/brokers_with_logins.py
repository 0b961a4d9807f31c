"""Moldau or Apache Kafka on a data directory that both may open in turn, with a listener for users with logins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from moldau.core.authorization.settings import STANDARD_AUTHORIZER
from moldau.wire.protocol.jaas import SCRAM_MODULE
from moldau.wire.protocol.sasl_tokens import Credentials
from tests.support.apache_kafka import apache_kafka
from tests.support.held_port import held_port, port_of
from tests.support.running_broker import RunningBroker
from tests.support.wire import RawConnection, log_in

SETTINGS: Final = {
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.login.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    "listener.name.login.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
}


class Served(NamedTuple):
    """The listeners' addresses: for super users, and for users that log in."""

    servers: str
    login: str

    def connect(self, credentials: Credentials) -> RawConnection:
        """A client that has logged in. Raises KafkaError."""
        connection = RawConnection(self.login)
        log_in(connection, credentials)
        return connection


Serving = Callable[[Path, Path], AbstractContextManager[Served]]
"""From a scratch folder and the data directory."""


def apache_with_logins(settings: Mapping[str, str]) -> Serving:
    @contextmanager
    def serving(scratch: Path, data: Path) -> Iterator[Served]:
        with held_port() as held:
            login = f"127.0.0.1:{port_of(held)}"
            with apache_kafka(scratch, data, dict(settings), listeners=[f"LOGIN://{login}"]) as servers:
                yield Served(servers, login)

    return serving


def moldau_with_logins(settings: Mapping[str, str], secret: str) -> Serving:
    """Fails if the broker printed the `secret`."""

    @contextmanager
    def serving(scratch: Path, data: Path) -> Iterator[Served]:
        scratch.mkdir(exist_ok=True)
        with held_port() as held:
            login = f"127.0.0.1:{port_of(held)}"
            own = {"listeners": f"PLAINTEXT://127.0.0.1:0,LOGIN://{login}", "log.dirs": str(data)}
            config = scratch / "node.properties"
            config.write_text("".join(f"{name}={text}\n" for name, text in {**settings, **own}.items()))
            broker = RunningBroker("--no-console", "--config", str(config)).wait_until_ready()
            try:
                yield Served(broker.address, login)
            finally:
                assert broker.stop() == 0
            assert secret not in "".join(broker.output)

    return serving
