"""`moldau kafka-delegation-tokens` and Kafka's own tool have the same words and columns, on Moldau and on Apache Kafka.
A token that one of them made logs in with the other."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.client.admin.tokens import describe_tokens
from moldau.client.protocol.access import ClusterAccess
from moldau.transport.access import open_admin
from moldau.wire.protocol.jaas import SCRAM_MODULE, LoginModule, encode_jaas_config
from tests.conformance.kafka_tools.runner import Ran, Tool, run_kafkas, run_ours
from tests.support.apache_kafka import NEEDS_APACHE_KAFKA
from tests.support.cluster_with_tokens import cluster_with_tokens

pytestmark = NEEDS_APACHE_KAFKA
USERS = ("alice", "bob", "eve")
KNOWN_S = 30.0
TOOL = "kafka-delegation-tokens"
SHOWN = (
    (r"tokenId : [\w-]{22}", "tokenId : TOKENTOKENTOKENTOKENTO"),
    (r"^[\w-]{22} ", "TOKENTOKENTOKENTOKENTO "),
    (r"[A-Za-z0-9+/]{86}==", "HMAC"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d", "0000-00-00T00:00"),
)


class Users:
    """The client settings files, and the tools that take them."""

    def __init__(self, servers: str, access: ClusterAccess, folder: Path, passwords: dict[str, str]) -> None:
        self.servers, self.access, self.folder = servers, access, folder
        for user, password in passwords.items():
            self.write(user, {"username": user, "password": password})

    def write(self, name: str, options: dict[str, str]) -> None:
        lines = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": encode_jaas_config(LoginModule(SCRAM_MODULE, options)),
        }
        (self.folder / name).write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    def run(self, tool: Tool, user: str, *words: str) -> Ran:
        config = str(self.folder / user)
        return tool([TOOL, "--bootstrap-server", self.servers, "--command-config", config, *words], "")

    def wait_until_known(self, hmac: str) -> None:
        """Apache Kafka's broker knows a token a moment after its controller has answered."""
        deadline_s = time.monotonic() + KNOWN_S
        with open_admin(self.access) as admin:
            while hmac not in [token.password for token in describe_tokens(admin)]:
                assert time.monotonic() < deadline_s


@pytest.fixture(scope="module", params=["moldau", "kafka"])
def users(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    passwords = {user: secrets.token_hex(8) for user in USERS}
    with cluster_with_tokens(request.param, passwords) as (servers, access):
        yield Users(servers, access, tmp_path_factory.mktemp("users"), passwords)


def shown(ran: Ran) -> tuple[int, str, str]:
    """Exit code, output, and the first line of errors, without the random parts."""
    output = ran[1]
    for pattern, replacement in SHOWN:
        output = re.sub(pattern, replacement, output, flags=re.MULTILINE)
    return ran[0], output, ran[2].partition("\n")[0]


def life_of_a_token(users: Users, tool: Tool) -> list[tuple[int, str, str]]:
    """The tool's output for a token, from its creation to its end."""
    words = ("--max-life-time-period", "7200000", "--renewer-principal", "User:bob")
    made = users.run(tool, "alice", "--create", *words)
    found = re.search(r"[A-Za-z0-9+/]{86}==", made[1])
    assert found is not None, made
    users.wait_until_known(found[0])
    hmac = ("--hmac", found[0])
    steps = [
        made,
        users.run(tool, "alice", "--create", "--max-life-time-period", "-1", "--renewer-principal", "Group:bob"),
        users.run(tool, "alice", "--describe"),
        users.run(tool, "alice", "--describe", "--owner-principal", "User:alice"),
        users.run(tool, "bob", "--renew", *hmac, "--renew-time-period", "3600000"),
        users.run(tool, "eve", "--renew", *hmac, "--renew-time-period", "-1"),
        users.run(tool, "alice", "--expire", *hmac, "--expiry-time-period", "-1"),
        users.run(tool, "alice", "--renew", "--hmac", "aaaa", "--renew-time-period", "-1"),
    ]
    return [shown(step) for step in steps]


def test_both_tools_print_the_same_of_the_life_of_a_token(users: Users) -> None:
    ours, theirs = life_of_a_token(users, run_ours), life_of_a_token(users, run_kafkas)
    assert ours == theirs
    assert [code for code, _, _ in theirs] == [0, 1, 0, 0, 0, 1, 0, 1]


@pytest.mark.parametrize(("maker", "user"), [(run_ours, run_kafkas), (run_kafkas, run_ours)])
def test_a_token_of_one_tool_logs_in_with_the_other(users: Users, maker: Tool, user: Tool) -> None:
    made = users.run(maker, "alice", "--create", "--max-life-time-period", "-1")
    row = made[1].rstrip().rpartition("\n")[2].split()
    users.wait_until_known(row[1])
    users.write("token", {"username": row[0], "password": row[1], "tokenauth": "true"})
    asked = users.run(user, "token", "--create", "--max-life-time-period", "-1")
    # it is logged in, and a token cannot create a token
    refusal = "org.apache.kafka.common.errors.UnsupportedByAuthenticationException: Delegation Token requests are not"
    assert (asked[0], asked[2][: len(refusal)]) == (1, refusal)
