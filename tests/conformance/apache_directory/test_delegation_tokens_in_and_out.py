"""Delegation tokens of Moldau are valid under Apache Kafka and vice versa; both reject the same requests (KIP-48).

Needs a Java (JAVA_HOME, or on the PATH) and the jars of Apache Kafka: MOLDAU_KAFKA_LIBS names their directory.
"""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moldau.errors import KafkaError
from moldau.wire.protocol.messages.acls import AclCreation, CreateAclsRequest
from moldau.wire.protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from moldau.wire.protocol.messages.scram import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from moldau.wire.protocol.sasl_tokens import Credentials, salted_password
from tests.support.apache_kafka import CLIENT_S, NEEDS_APACHE_KAFKA
from tests.support.brokers_with_logins import SETTINGS, Served, Serving, apache_with_logins, moldau_with_logins
from tests.support.wire import RawConnection

pytestmark = [*NEEDS_APACHE_KAFKA, pytest.mark.timeout(600)]

SECRET_KEY = "the-secret-of-both"
WITH_TOKENS = {**SETTINGS, "delegation.token.secret.key": SECRET_KEY}
moldau, apache = moldau_with_logins(WITH_TOKENS, SECRET_KEY), apache_with_logins(WITH_TOKENS)
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ANN, BEN = (Credentials("SCRAM-SHA-512", name, f"of-{name}") for name in ("ann", "ben"))
OWNER = ("User", "ann")
LONG_MS, SHORT_MS = 3_600_000, 600_000


BOTH = {"moldau": moldau, "kafka": apache}


def set_up(served: Served) -> None:
    """Creates the users ann and ben."""
    salt = b"a salt of twenty byt"
    with RawConnection(served.servers) as admin:
        for user in (ANN, BEN):
            salted = salted_password(user.mechanism, user.password, salt, 4_096)
            upsertion = ScramCredentialUpsertion(user.username, 2, 4_096, salt, salted)
            request = AlterUserScramCredentialsRequest(upsertions=(upsertion,))
            assert admin.ask(request, 0).results[0].error_code == 0
    for user in (ANN, BEN):
        wait_for_login(served, user)


def wait_for_login(served: Served, credentials: Credentials) -> None:
    """Apache Kafka answers a change before its broker has applied it."""
    for _ in range(50):
        try:
            served.connect(credentials).socket.close()
        except KafkaError:
            continue
        return
    pytest.fail(f"{credentials} is never let in")


def by(token: Any, mechanism: str = "SCRAM-SHA-512") -> Credentials:
    return Credentials(mechanism, token.token_id, base64.b64encode(token.hmac).decode(), is_token=True)


def create(connection: RawConnection, *renewers: str, lifetime_ms: int = -1, version: int = 3) -> Any:
    each = tuple(CreatableRenewers("User", renewer) for renewer in renewers)
    owner = (None, None) if version == 3 else ("", "")
    return connection.ask(CreateDelegationTokenRequest(*owner, each, lifetime_ms), version)


def seen(served: Served, credentials: Credentials = ANN) -> dict[str, DescribedDelegationToken]:
    with served.connect(credentials) as connection:
        answer = connection.ask(DescribeDelegationTokenRequest(None), 3)
    assert answer.error_code == 0
    return {token.token_id: token for token in answer.tokens}


def check_login(served: Served, token: Any) -> None:
    """By both mechanisms, as a session that may not create tokens."""
    for mechanism in MECHANISMS:
        wait_for_login(served, by(token, mechanism))
        with served.connect(by(token, mechanism)) as connection:
            connection.assert_alive()
            assert create(connection).error_code == 64


def is_refused(served: Served, credentials: Credentials) -> bool:
    try:
        served.connect(credentials).socket.close()
    except KafkaError as error:
        return error.name == "SASL_AUTHENTICATION_FAILED"
    return False


@pytest.mark.parametrize(("first", "second"), [(moldau, apache), (apache, moldau)], ids=["moldau first", "kafka first"])
def test_tokens_hold_under_both(tmp_path: Path, first: Serving, second: Serving) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with first(tmp_path / "one", data) as served:
        set_up(served)
        with served.connect(ANN) as ann:
            kept, ended = create(ann, "ben", lifetime_ms=LONG_MS), create(ann, lifetime_ms=LONG_MS)
        for token in (kept, ended):
            assert token.error_code == 0
            check_login(served, token)
        before = seen(served)
        assert before.keys() == {kept.token_id, ended.token_id}
    with second(tmp_path / "two", data) as served:
        assert seen(served) == before
        assert seen(served, BEN).keys() == {kept.token_id}
        check_login(served, kept)
        with served.connect(BEN) as ben:
            renewed = ben.ask(RenewDelegationTokenRequest(kept.hmac, SHORT_MS), 2)
        with served.connect(ANN) as ann:
            gone = ann.ask(ExpireDelegationTokenRequest(ended.hmac, -1), 2)
            other = create(ann)
        assert (renewed.error_code, gone.error_code, other.error_code) == (0, 0, 0)
        check_login(served, other)
        before = seen(served)
        assert before[kept.token_id].expiry_timestamp == renewed.expiry_timestamp_ms
        assert before.keys() == {kept.token_id, other.token_id}
    with first(tmp_path / "three", data) as served:
        assert seen(served) == before
        for token in (kept, other):
            check_login(served, token)
        assert is_refused(served, by(ended))


def is_now(time_ms: int) -> bool:
    """Whether that millisecond has not passed."""
    return time.time_ns() // 1_000_000 <= time_ms


def answers_to_bad_input(served: Served) -> list[tuple[str, Any]]:
    """Rejected requests, with each response without its own ids and times."""
    found: list[tuple[str, Any]] = []
    set_up(served)
    with served.connect(ANN) as ann, served.connect(BEN) as ben, RawConnection(served.servers) as plain:
        own = create(ann, lifetime_ms=LONG_MS)
        check_login(served, own)
        bearer = served.connect(by(own))

        def note(title: str, connection: RawConnection, request: Any, version: int) -> None:
            answer = connection.ask(request, version)
            has_token = getattr(answer, "token_id", "")
            found.append((f"{title} v{version}", "a token" if has_token else answer))

        for version in (1, 2, 3):
            owner = (None, None) if version == 3 else ("", "")
            for title, connection in (("plaintext", plain), ("by token", bearer)):
                note(f"create {title}", connection, CreateDelegationTokenRequest(*owner), version)
                note(f"describe {title}", connection, DescribeDelegationTokenRequest(None), version)
            group = (CreatableRenewers("Group", "g"),)
            note("create for a group", ann, CreateDelegationTokenRequest(*owner, group), version)
            note("describe none", ann, DescribeDelegationTokenRequest(()), version)
            stranger = (DescribeDelegationTokenOwner("User", "ann"),)
            note("describe of another", ben, DescribeDelegationTokenRequest(stranger), version)
        for version in (1, 2):
            for title, connection in (("plaintext", plain), ("by token", bearer)):
                note(f"renew {title}", connection, RenewDelegationTokenRequest(own.hmac), version)
                note(f"expire {title}", connection, ExpireDelegationTokenRequest(own.hmac, -1), version)
            for title, hmac in (("empty", b""), ("short", b"x"), ("unknown", bytes(64))):
                note(f"renew {title}", ann, RenewDelegationTokenRequest(hmac, -1), version)
                note(f"expire {title}", ann, ExpireDelegationTokenRequest(hmac, -1), version)
            note("renew of another", ben, RenewDelegationTokenRequest(own.hmac, -1), version)
            note("expire of another", ben, ExpireDelegationTokenRequest(own.hmac, -1), version)
        for kind, name in (("User", "ann"), ("User", ""), ("User", "nobody"), ("Group", "g"), ("User", "a:b")):
            note(f"create for {kind}:{name}", ben, CreateDelegationTokenRequest(kind, name), 3)
        with RawConnection(served.servers) as admin:
            acl = AclCreation(7, "User:ann", 3, "User:ben", "*", 13, 3)
            assert admin.ask(CreateAclsRequest((acl,)), 3).results[0].error_code == 0
        for _ in range(50):
            if ben.ask(CreateDelegationTokenRequest("User", "ann"), 3).error_code == 0:
                break
        note("create for ann with the right", ben, CreateDelegationTokenRequest("User", "ann"), 3)
        note("create for bob with the right to ann", ben, CreateDelegationTokenRequest("User", "bob"), 3)
        now = ann.ask(ExpireDelegationTokenRequest(own.hmac, 0), 2)
        assert now.error_code == 0
        deadline_s = time.monotonic() + CLIENT_S
        while seen(served)[own.token_id].expiry_timestamp != now.expiry_timestamp_ms or is_now(now.expiry_timestamp_ms):
            assert time.monotonic() < deadline_s
        note("renew expired", ann, RenewDelegationTokenRequest(own.hmac, -1), 2)
        note("renew expired of another", ben, RenewDelegationTokenRequest(own.hmac, -1), 2)
        note("expire expired", ann, ExpireDelegationTokenRequest(own.hmac, 1_000), 2)
        note("expire expired of another", ben, ExpireDelegationTokenRequest(own.hmac, 1_000), 2)
        bearer.socket.close()
    return [(title, msgspec.to_builtins(answer)) for title, answer in found]


def test_both_refuse_the_same(tmp_path: Path) -> None:
    told = {}
    for name, serving in BOTH.items():
        data = tmp_path / name
        data.mkdir()
        with serving(tmp_path / f"{name}-scratch", data) as served:
            told[name] = answers_to_bad_input(served)
    assert told["moldau"] == told["kafka"]
    codes = {answer["error_code"] for _, answer in told["moldau"] if isinstance(answer, dict)}
    assert codes == {0, 62, 63, 64, 65, 66, 67}
