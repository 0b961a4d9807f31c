"""Two requests in one segment, a change and a question about it: the second sees the first.

Apache Kafka, too, starts a request of a connection only after it has answered the one before. A decision of its
controller may still be on its way to its broker then, and a transaction marker on its way to a partition, so the
question may be repeated with Apache Kafka.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau.shell.broker.handlers.table import handler_specs
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey
from moldau.wire.protocol.framing import frame
from tests.conformance.order.answers import codes
from tests.conformance.order.pairs import PAIRS, Has, Lacks, Pair
from tests.conformance.order.requests import (
    VERSIONS,
    At,
    Subject,
    create,
    create_flushing,
    describe,
    end_offset,
    find_group,
    find_transaction,
    write_and_join,
)
from tests.support.wire import RawConnection, request_bytes, row_of

PATIENCE_S = 10
ON_ITS_WAY = {3, 5, 6, 14, 15, 16, 19}
"""Errors of Apache Kafka for a new topic or coordinator: a client retries."""
ENDING = 51
"""The transaction before has not ended on every partition."""

EXCUSED = {
    ApiKey.DESCRIBE_ACLS: "54 without an authorizer: there is nothing to see",
    ApiKey.CREATE_ACLS: "54 without an authorizer: changes nothing",
    ApiKey.DELETE_ACLS: "54 without an authorizer: changes nothing",
    ApiKey.SASL_HANDSHAKE: "34 on a listener without SASL: changes nothing",
    ApiKey.SASL_AUTHENTICATE: "34 on a listener without SASL: changes nothing",
    ApiKey.CREATE_DELEGATION_TOKEN: "64 on a PLAINTEXT listener: changes nothing",
    ApiKey.RENEW_DELEGATION_TOKEN: "64 on a PLAINTEXT listener: changes nothing",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "64 on a PLAINTEXT listener: changes nothing",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "64 on a PLAINTEXT listener: there is nothing to see",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "35 while group.version is 0: changes nothing",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "35 while group.version is 0: there is nothing to see",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "a move is only begun when it is answered, and it needs two directories",
    ApiKey.UNREGISTER_BROKER: "the only broker is the one that is asked",
    ApiKey.UNREGISTER_CONTROLLER: "needs a second node: tests/unit/core/controller/test_cluster_administration.py",
    ApiKey.FIND_COORDINATOR: "asked before each pair; nothing that a client changes moves a coordinator of one node",
    ApiKey.DESCRIBE_CLUSTER: "no request of a client changes which brokers there are",
    ApiKey.ADD_RAFT_VOTER: "needs a second node: tests/unit/shell/quorum/test_voter_changes.py",
    ApiKey.REMOVE_RAFT_VOTER: "needs a second node: tests/unit/shell/quorum/test_voter_changes.py",
    ApiKey.DESCRIBE_QUORUM: "needs a second node: tests/unit/shell/quorum/test_voter_changes.py",
}
"""APIs that are neither the change nor the question of a pair, with the reason."""


def is_said(said: Any, expected: Any, name: str) -> bool:
    if isinstance(expected, Has):
        return (expected or name) in said
    return (expected or name) not in said if isinstance(expected, Lacks) else said == expected


def in_version(request: Any) -> At:
    return request if isinstance(request, At) else At(request, VERSIONS[type(request)])


def ask(connection: RawConnection, request: Any) -> Any:
    return connection.ask(*in_version(request))


def prepare(connection: RawConnection, make: Callable[[Subject], Any], on: Subject) -> None:
    """Repeats until it succeeds and its result is visible."""
    for answer in repeated(lambda: ask(connection, make(on))):
        if not codes(answer) & {*ON_ITS_WAY, ENDING}:
            break
    on.learn(answer)
    if make in (create, create_flushing):
        prepare(connection, describe, on)
        prepare(connection, end_offset, on)


def repeated(act: Callable[[], Any]) -> Iterator[Any]:
    """Calls `act` again and again for a time; then the test fails."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        given = act()
        yield given
    pytest.fail(f"went on to give {given}")


def title(pair: Pair) -> str:
    before = "".join(f"{one.__name__}-" for one in pair.before)
    return f"{before}{pair.change.__name__}-then-{pair.question.__name__}"


@pytest.fixture
def connection(bootstrap_servers: str) -> Any:
    with RawConnection(bootstrap_servers) as opened:
        yield opened


@pytest.mark.parametrize("pair", PAIRS, ids=title)
def test_the_second_of_two_requests_sees_the_first(
    connection: RawConnection, new_name: Callable[[str], str], pair: Pair, request: pytest.FixtureRequest
) -> None:
    on = Subject(new_name("order"))
    for make in (find_group, find_transaction, *pair.before):
        prepare(connection, make, on)
    change, question = pair.change(on), pair.question(on)
    changed, answer = ask_together(connection, change, question)
    if request.config.getoption("--against") != "moldau":
        again = repeated(lambda: ask_together(connection, change, question))
        while is_to_be_repeated(pair, changed):
            changed, answer = next(again)
        again = repeated(lambda: (changed, ask(connection, question)))
        while not is_said(pair.said(answer), pair.expected, on.name):
            request.node.user_properties.append(("asked again", title(pair)))
            changed, answer = next(again)
    assert is_said(pair.said(answer), pair.expected, on.name), (changed, answer)


def is_to_be_repeated(pair: Pair, changed: Any) -> bool:
    """Whether Apache Kafka has not applied the change yet."""
    return bool(codes(changed) & (ON_ITS_WAY | ({ENDING} if pair.change is write_and_join else set())))


def ask_together(connection: RawConnection, change: Any, question: Any) -> tuple[Any, Any]:
    """Sends both in one segment; gives both responses, None for the one that never comes."""
    together = in_version(change), in_version(question)
    connection.send(
        b"".join(
            frame(request_bytes(message, version, correlation_id=1_001 + number))
            for number, (message, version) in enumerate(together)
        )
    )
    has_answer = getattr(together[0].request, "acks", None) != 0
    changed = connection.finish(*together[0], 1_001) if has_answer else None
    return changed, connection.finish(*together[1], 1_002)


def test_every_served_api_is_in_a_pair_or_is_excused() -> None:
    on = Subject("any")
    asked = {row_of(in_version(make(on)).request)[0] for pair in PAIRS for make in (pair.change, pair.question)}
    served = {ApiKey(key) for key in handler_specs()}
    assert served == set(API_VERSIONS)
    assert asked | set(EXCUSED) == served
    assert not asked & set(EXCUSED)
