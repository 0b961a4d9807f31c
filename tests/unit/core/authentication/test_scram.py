"""SCRAM on the server's side: RFC 5802, RFC 7677, and missing users."""

from __future__ import annotations

import base64
import sys
import tracemalloc
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from moldau.core.authentication.exchange import Accepted, AuthenticationRefusedError
from moldau.core.authentication.scram import ScramExchange, ScramUsers
from moldau.core.authentication.users import ScramDirectory
from moldau.core.metadata.login_records import LoginRecords
from moldau.errors import ProtocolError
from moldau.wire.protocol.sasl_tokens import decode_client_first, decode_server_first
from tests.unit.core.authentication.conftest import SALT, ScramClient, Users

NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"


def exchange(users: Users, mechanism: str = "SCRAM-SHA-256") -> ScramExchange:
    return ScramExchange(ScramUsers(mechanism, users.directory), NONCE)


def begin(users: Users, token: bytes) -> tuple[ScramExchange, bytes]:
    begun = exchange(users)
    answer = begun.evaluate(token)
    assert isinstance(answer, bytes)
    return begun, answer


def refusal(users: Users, *tokens: bytes) -> AuthenticationRefusedError:
    """The error for the last token."""
    begun = exchange(users)
    for token in tokens[:-1]:
        begun.evaluate(token)
    with pytest.raises(AuthenticationRefusedError) as refused:
        begun.evaluate(tokens[-1])
    return refused.value


def test_the_exchange_of_rfc_7677_is_answered_as_it_stands_there() -> None:
    users = Users()
    users.add("user", "pencil", salt=base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    begun, answer = begin(users, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert answer == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert begun.evaluate(final) == Accepted("user", b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("name", ["alice", "a,b=c", "müller"])
@pytest.mark.parametrize("header", ["n,,", "y,,"])
def test_a_user_with_the_right_password_is_accepted(mechanism: str, name: str, header: str) -> None:
    users, client = Users(), ScramClient(name, "pencil", mechanism, header)
    users.add(name, "pencil", mechanism)
    begun = exchange(users, mechanism)
    answer = begun.evaluate(client.first())
    assert isinstance(answer, bytes)
    accepted = begun.evaluate(client.final(answer))
    assert isinstance(accepted, Accepted)
    assert accepted.username == name
    assert accepted.token.startswith(b"v=")


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n",
        b"\xff\xfe",
        b"n,,n=,r=abc",
        b"n,,n=alice,r=",
        b"n,,n=alice,r=a b",
        b"n,,n=al=ice,r=abc",
        b"n,,n=ali\x00ce,r=abc",
        b"n,,m=ext,n=alice,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,a=bob,n=alice,r=abc",
        b"n,,n=alice,r=abc,tokenauth=true",
        b"\x00alice\x00pencil",
        b"n,,n=alice,r=" + b"a" * 100_000 + b",",
    ],
)
def test_a_malformed_first_message_or_one_that_asks_for_more_is_refused(first: bytes) -> None:
    users = Users()
    users.add("alice", "pencil")
    assert "pencil" not in str(refusal(users, first))


@pytest.mark.parametrize(
    ("head", "repeated", "tail"),
    [
        (b"n,,n=", b"a", b",r=abc"),
        (b"n,,n=", b"=2C", b",r=abc"),
        (b"n,,n=alice,r=", b"r", b""),
        (b"n,a=", b"u", b",n=a,r=abc"),
        (b"n,,n=", b"a", b"\0"),
        (b"n,,n=alice,r=", b"r", b"\0"),
        (b"n,,n=", b",", b""),
    ],
)
def test_a_long_first_message_takes_memory_for_its_bytes_alone(head: bytes, repeated: bytes, tail: bytes) -> None:
    """The stack of the regular expression engine took 300 bytes for each byte."""
    token = head + repeated * (100_000 // len(repeated)) + tail
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        with suppress(ProtocolError):
            decode_client_first(token)
        assert tracemalloc.get_traced_memory()[1] - before < 10 * len(token)
    finally:
        tracemalloc.stop()


def test_only_the_user_itself_may_be_asked_for_and_kafka_says_so() -> None:
    users = Users()
    users.add("alice", "pencil")
    told = "Authentication failed: Client requested an authorization id that is different from username"
    assert refusal(users, b"n,a=bob,n=alice,r=abc").told == told
    begun, _ = begin(users, b"n,a=alice,n=alice,r=abc")
    assert begun is not None


@pytest.mark.parametrize(
    "changed",
    [
        {"nonce": "rOprNGfwEbeRWgbNEkqO"},
        {"nonce": NONCE},
        {"nonce": "x" + "rOprNGfwEbeRWgbNEkqO" + NONCE},
        {"header": "y,,"},
        {"header": "p=tls-unique,,"},
    ],
)
def test_a_last_message_with_another_nonce_or_binding_is_refused(changed: dict[str, str]) -> None:
    users, client = Users(), ScramClient("alice", "pencil")
    users.add("alice", "pencil")
    begun, answer = begin(users, client.first())
    with pytest.raises(AuthenticationRefusedError):
        begun.evaluate(client.final(answer, **changed))


def test_a_client_may_send_its_own_nonce_twice_as_old_librdkafka_does() -> None:
    users, client = Users(), ScramClient("alice", "pencil")
    users.add("alice", "pencil")
    begun, answer = begin(users, client.first())
    doubled = client.final(answer, nonce="rOprNGfwEbeRWgbNEkqO" * 2 + NONCE)
    assert isinstance(begun.evaluate(doubled), Accepted)


@pytest.mark.parametrize("proof", [b"", b"AAAA", b"!!!!", b"A" * 44, base64.b64encode(b"\0" * 32)])
def test_a_last_message_without_a_right_proof_is_refused(proof: bytes) -> None:
    users, client = Users(), ScramClient("alice", "pencil")
    users.add("alice", "pencil")
    begun, answer = begin(users, client.first())
    last = client.final(answer)
    with pytest.raises(AuthenticationRefusedError):
        begun.evaluate(last[: last.index(b",p=") + 3] + proof)


def test_a_wrong_password_and_an_unknown_user_are_refused_at_the_same_step_alike() -> None:
    users = Users()
    users.add("alice", "pencil")
    refusals = []
    for name in ("alice", "nobody"):
        client = ScramClient(name, "wrong")
        begun, answer = begin(users, client.first())
        with pytest.raises(AuthenticationRefusedError) as refused:
            begun.evaluate(client.final(answer))
        refusals.append((str(refused.value), refused.value.told))
    assert refusals[0] == refusals[1]


def test_an_unknown_user_gets_the_same_salt_each_time_and_one_of_its_own() -> None:
    users = Users()
    users.add("alice", "pencil")
    answers = [decode_server_first(begin(users, ScramClient(name, "").first())[1]) for name in ("x", "x", "y")]
    salts = [answer.salt for answer in answers]
    assert salts[0] == salts[1] != salts[2]
    assert [len(salt) for salt in salts] == [len(SALT)] * 3
    assert {answer.iterations for answer in answers} == {4_096}


def test_unknown_users_get_the_iterations_and_lengths_of_salts_that_users_have() -> None:
    users = Users()
    shapes = {(4_096, 20), (8_192, 26)}
    users.add("alice", "pencil", iterations=4_096, salt=b"a" * 20)
    users.add("bob", "pencil", iterations=8_192, salt=b"b" * 26)
    firsts = [decode_server_first(begin(users, ScramClient(f"x{n}", "").first())[1]) for n in range(40)]
    assert {(first.iterations, len(first.salt)) for first in firsts} == shapes


def test_all_nodes_give_an_unknown_user_one_salt_also_after_a_restart() -> None:
    salts = []
    for secret in (b"one", b"another"):
        users = Users()
        users.directory = type(users.directory)(secret)
        for name in ("carol", "alice", "bob") if secret == b"one" else ("bob", "carol", "alice"):
            users.add(name, f"password of {name}")
        salts.append(decode_server_first(begin(users, ScramClient("nobody", "").first())[1]).salt)
    assert salts[0] == salts[1]


def test_users_of_the_format_log_in_until_something_is_committed() -> None:
    users = Users()
    users.add("alice", "pencil")
    directory = ScramDirectory(b"s" * 32, lambda: users.kept)
    assert directory.is_at_first
    assert directory.find("alice", 1) is not None
    directory.changed(LoginRecords())
    assert not directory.is_at_first
    assert directory.find("alice", 1) is None


def test_a_credential_with_too_few_iterations_belongs_to_nobody() -> None:
    users, client = Users(), ScramClient("alice", "pencil")
    users.add("alice", "pencil", iterations=1_000)
    begun, answer = begin(users, client.first())
    assert decode_server_first(answer).iterations == 4_096
    with pytest.raises(AuthenticationRefusedError):
        begun.evaluate(client.final(answer))


def calls_of(users: Users, name: str) -> Counter[str]:
    """The number of calls of each function, of Python and of C, during a failed attempt."""
    client, found = ScramClient(name, "wrong"), Counter[str]()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            found[frame.f_code.co_qualname if hasattr(frame.f_code, "co_qualname") else frame.f_code.co_name] += 1
        elif event == "c_call":
            found[argument.__qualname__] += 1

    begun, first = exchange(users), client.first()
    sys.setprofile(note)
    try:
        answer = begun.evaluate(first)
    finally:
        sys.setprofile(None)
    assert isinstance(answer, bytes)
    last = client.final(answer)
    sys.setprofile(note)
    try:
        begun.evaluate(last)
    except AuthenticationRefusedError:
        pass
    finally:
        sys.setprofile(None)
    return found


def test_attempts_of_known_and_unknown_users_are_the_same_work() -> None:
    users = Users()
    users.add("alice", "pencil")
    users.add("bob00", "pencil")
    calls_of(users, "alice")  # the first attempt looks at all users
    known, unknown = calls_of(users, "bob00"), calls_of(users, "nobod")
    # only converts the record's values into a ScramSecrets
    assert sum((known - unknown).values()) + sum((unknown - known).values()) <= 1, (known - unknown, unknown - known)
    assert known["hmac_digest"] == unknown["hmac_digest"] >= 6
