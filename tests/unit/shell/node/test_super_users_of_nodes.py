"""A node with ACLs warns at its start if the other nodes' principals are not in super.users."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from moldau.core.authorization.settings import STANDARD_AUTHORIZER
from moldau.core.config.broker_settings import parse_broker_settings
from moldau.shell.node.authorization import principals_of_nodes
from moldau.wire.protocol.jaas import PLAIN_MODULE
from tests.support.certificates import authority
from tests.unit.shell.conftest import StartNode

InVirtualTime = Callable[[Callable[[StartNode], Awaitable[None]]], None]

ANONYMOUS = "User:ANONYMOUS"
LISTENERS = {"listeners": "CLIENTS://10.0.0.1:9092,CONTROLLER://10.0.0.1:9093", "inter.broker.listener.name": "CLIENTS"}
SASL = {
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.clients.plain.sasl.jaas.config": f'{PLAIN_MODULE} required username="n" password="p" user_n="p";',
}
WARNED = "super.users does not name the nodes of this cluster: they come as "


def principals(protocols: str, **texts: str) -> dict[str, str]:
    issued = authority().issue("CN=node")
    tls = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": issued.key_pem,
        "ssl.keystore.certificate.chain": issued.chain_pem,
    }
    more = {name.replace("_", "."): text for name, text in texts.items()}
    return principals_of_nodes(
        parse_broker_settings(LISTENERS | SASL | tls | {"listener.security.protocol.map": protocols} | more)
    )


def test_as_whom_nodes_come_is_said_for_the_listeners_that_nodes_use() -> None:
    plain = {"CLIENTS": ANONYMOUS, "CONTROLLER": ANONYMOUS}
    assert principals("CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT") == plain
    assert principals("CLIENTS:SSL,CONTROLLER:SSL") == plain
    assert principals("CLIENTS:SSL,CONTROLLER:SSL", ssl_client_auth="required") == {}
    others = {"controller_quorum_voters": "1@10.0.0.1:9093,2@10.0.0.2:9093"}
    assert principals("CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT", **others) == plain | {"CLIENTS": "User:n"}


def test_a_listener_for_clients_alone_is_nothing_to_nodes() -> None:
    both = "CLIENTS://10.0.0.1:9092,INSIDE://10.0.0.1:9094,CONTROLLER://10.0.0.1:9093"
    protocols = "CLIENTS:PLAINTEXT,INSIDE:SSL,CONTROLLER:SSL"
    assert principals(protocols, listeners=both, ssl_client_auth="required") == {"CLIENTS": ANONYMOUS}
    inside = {"inter_broker_listener_name": "INSIDE", "ssl_client_auth": "required"}
    assert principals(protocols, listeners=both, **inside) == {}


BOTH = f"{ANONYMOUS} on the listener PLAINTEXT, {ANONYMOUS} on the listener CONTROLLER"


@pytest.mark.parametrize(("super_users", "said"), [("User:x", [BOTH]), (f"User:x;{ANONYMOUS}", [])])
def test_a_start_warns_of_what_is_missing(
    in_virtual_time: InVirtualTime, caplog: pytest.LogCaptureFixture, super_users: str, said: list[str]
) -> None:
    async def run(start_node: StartNode) -> None:
        await start_node(
            {
                "listeners": "PLAINTEXT://10.0.0.1:9092,CONTROLLER://10.0.0.1:9093",
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": super_users,
            }
        )

    in_virtual_time(run)
    told = [each.getMessage() for each in caplog.records if WARNED in each.getMessage()]
    assert [line.removeprefix(WARNED).split(".")[0] for line in told] == said
