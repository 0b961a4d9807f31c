"""SCRAM by delegation tokens: known, unknown and expired ones (KIP-48)."""

from __future__ import annotations

import base64

import pytest

from moldau.core.authentication.delegation_tokens import token_hmac, token_keys
from moldau.core.authentication.exchange import Accepted, AuthenticationRefusedError
from moldau.core.authentication.scram import ScramExchange, ScramUsers
from moldau.core.authentication.token_logins import TokenLogins
from moldau.wire.protocol.messages.metadata_records import DelegationTokenRecord
from moldau.wire.protocol.sasl_tokens import decode_server_first, encode_client_first
from tests.unit.core.authentication.conftest import ScramClient, Users

KEY, NOW_MS = "the key of a cluster", 1_000_000
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class Cluster:
    """Its tokens, and a listener that offers SCRAM."""

    def __init__(self) -> None:
        self.users = Users()
        self.now_ms = NOW_MS
        self.logins = TokenLogins(KEY, self.users.directory, lambda: self.now_ms)

    def add(self, token_id: str, owner: str = "User:ann", expires_ms: int = NOW_MS + 500) -> None:
        record = DelegationTokenRecord(owner, "User:ben", (), 1, NOW_MS + 9_000, expires_ms, token_id)
        self.users.kept["token", token_id] = record
        self.users.directory.changed(self.users.kept)

    def begin(self, client: ScramClient) -> tuple[ScramExchange, bytes]:
        begun = ScramExchange(ScramUsers(client.mechanism, self.users.directory), "server", self.logins)
        answer = begun.evaluate(client.first())
        assert isinstance(answer, bytes)
        return begun, answer

    def log_in(self, client: ScramClient) -> Accepted:
        """Raises AuthenticationRefusedError."""
        begun, answer = self.begin(client)
        accepted = begun.evaluate(client.final(answer))
        assert isinstance(accepted, Accepted)
        return accepted


def bearer(token_id: str, mechanism: str = "SCRAM-SHA-256", password: str = "", flag: str = "true") -> ScramClient:
    """The messages of a client that has a token's HMAC, or another password."""
    hmac = base64.b64encode(token_hmac(KEY, token_id)).decode()
    client = ScramClient(token_id, password or hmac, mechanism)
    client.bare = f"{encode_client_first(token_id, 'rOprNGfwEbeRWgbNEkqO')},tokenauth={flag}"
    return client


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("flag", ["true", "True"])
def test_the_bearer_of_a_token_is_its_owner_for_the_time_it_holds(mechanism: str, flag: str) -> None:
    cluster = Cluster()
    cluster.add("t")
    accepted = cluster.log_in(bearer("t", mechanism, flag=flag))
    assert (accepted.username, accepted.delegation_token, accepted.lifetime_ms) == ("ann", "t", 500)


@pytest.mark.parametrize(
    "client",
    [bearer("unknown"), bearer("expired"), bearer("t", password="wrong"), bearer("t", flag="false"), bearer("ann")],
    ids=["unknown", "expired", "wrong HMAC", "no token", "a user"],
)
def test_what_is_no_token_is_refused_as_a_wrong_password_is(client: ScramClient) -> None:
    cluster = Cluster()
    cluster.users.add("ann", "pencil")
    cluster.add("t")
    cluster.add("expired", expires_ms=NOW_MS - 1)
    begun, answer = cluster.begin(client)
    with pytest.raises(AuthenticationRefusedError, match="Invalid client credentials"):
        begun.evaluate(client.final(answer))


def test_an_unknown_token_is_asked_as_a_known_one_and_the_same_each_time() -> None:
    cluster = Cluster()
    cluster.add("t")
    known, unknown, again = (
        decode_server_first(cluster.begin(bearer(name))[1]) for name in ("t", "unknown", "unknown")
    )
    assert (known.iterations, len(known.salt)) == (unknown.iterations, len(unknown.salt)) == (4_096, 20)
    assert known.salt != unknown.salt == again.salt
    cluster.add("unknown")
    assert decode_server_first(cluster.begin(bearer("unknown"))[1]).salt == again.salt


def test_a_stranger_costs_no_hashes_of_thousands() -> None:
    cluster = Cluster()
    cluster.add("t")
    before = token_keys.cache_info().misses
    for number in range(20):
        with pytest.raises(AuthenticationRefusedError):
            cluster.log_in(bearer(f"unknown {number}"))
    for _ in range(3):
        cluster.log_in(bearer("t", "SCRAM-SHA-512"))
    assert token_keys.cache_info().misses - before <= 1


def test_a_bearer_may_stay_as_long_as_the_token_holds() -> None:
    cluster = Cluster()
    cluster.add("t")
    assert [cluster.logins.still_holds(name) for name in ("t", "unknown")] == [True, False]
    cluster.now_ms += 501
    assert not cluster.logins.still_holds("t")
    cluster.add("t", expires_ms=NOW_MS + 5_000)
    assert cluster.logins.still_holds("t")


@pytest.mark.parametrize("first", [b"n,a=ann,n=t,r=abc,tokenauth=true", b"n,a=other,n=t,r=abc,tokenauth=true"])
def test_a_bearer_asks_for_no_other_identity(first: bytes) -> None:
    cluster = Cluster()
    cluster.add("t")
    begun = ScramExchange(ScramUsers("SCRAM-SHA-256", cluster.users.directory), "server", cluster.logins)
    with pytest.raises(AuthenticationRefusedError, match="authorization id"):
        begun.evaluate(first)


def test_a_change_of_tokens_alone_changes_nothing_of_unknown_users() -> None:
    """Each change of users makes it look at all credentials again."""
    cluster = Cluster()
    cluster.users.add("ann", "pencil")
    cluster.users.add("ben", "pencil", iterations=8_192)
    directory = cluster.users.directory
    assert directory.shapes(1) == ((4_096, 20), (8_192, 20))
    cluster.users.kept["scram", 1, "ann"] = cluster.users.kept["scram", 1, "ben"]
    directory.changed(cluster.users.kept, of_users=False)
    assert directory.shapes(1) == ((4_096, 20), (8_192, 20))
    directory.changed(cluster.users.kept)
    assert directory.shapes(1) == ((8_192, 20),)
