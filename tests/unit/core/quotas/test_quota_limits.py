"""Which quota has priority, who shares it, and the limit of a request."""

from __future__ import annotations

import pytest

from moldau.core.quotas.connections import (
    ConnectionLimits,
    ConnectionQuotas,
    ListenerLimits,
    Verdict,
    parse_overrides,
)
from moldau.core.quotas.limits import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    QuotaEntity,
    address_quotas,
    client_limit,
    ip_limit,
    one_spelling,
    quota_entity,
)
from moldau.core.quotas.rates import Windows
from moldau.core.quotas.usage import MAX_METERS, MutationBuckets, MutationQuota, QuotaUsage
from moldau.errors import KafkaError

# from the most specific to the most general, with the clients that share one quota
ENTITIES: list[tuple[QuotaEntity, tuple[str, str]]] = [
    (quota_entity({"user": "ann", "client-id": "one"}), ("ann", "one")),
    (quota_entity({"user": "ann", "client-id": None}), ("ann", "one")),
    (quota_entity({"user": "ann"}), ("ann", "")),
    (quota_entity({"user": None, "client-id": "one"}), ("ann", "one")),
    (quota_entity({"user": None, "client-id": None}), ("ann", "one")),
    (quota_entity({"user": None}), ("ann", "")),
    (quota_entity({"client-id": "one"}), ("", "one")),
    (quota_entity({"client-id": None}), ("", "one")),
]


@pytest.mark.parametrize("most_special", range(len(ENTITIES)))
def test_the_most_special_quota_wins(most_special: int) -> None:
    quotas = {
        entity: {PRODUCER_BYTE_RATE: float(place)}
        for place, (entity, _) in enumerate(ENTITIES)
        if place >= most_special
    }
    assert client_limit(quotas, PRODUCER_BYTE_RATE, "ann", "one") == (float(most_special), ENTITIES[most_special][1])


def test_a_quota_of_another_key_is_none() -> None:
    quotas = {ENTITIES[0][0]: {CONSUMER_BYTE_RATE: 1.0}, ENTITIES[7][0]: {PRODUCER_BYTE_RATE: 2.0}}
    assert client_limit(quotas, PRODUCER_BYTE_RATE, "ann", "one") == (2.0, ("", "one"))


def test_a_client_without_a_name_has_no_quota_of_client_ids() -> None:
    assert client_limit({ENTITIES[7][0]: {PRODUCER_BYTE_RATE: 2.0}}, PRODUCER_BYTE_RATE, "ann", "") is None


def usage(key: str, limit: float) -> QuotaUsage:
    found = QuotaUsage(Windows())
    found.quotas_changed({quota_entity({"client-id": None}): {key: limit}})
    return found


def test_the_bytes_of_a_client_are_shared_by_its_connections_and_by_nobody_else() -> None:
    quotas = usage(PRODUCER_BYTE_RATE, 1_000)
    assert quotas.produced("ann", "one", 9_000, 0) == 0
    assert quotas.produced("bob", "one", 2_000, 0) == 1_000
    assert quotas.produced("ann", "two", 9_000, 0) == 0


def test_a_fetch_that_is_not_answered_does_not_count() -> None:
    quotas = usage(CONSUMER_BYTE_RATE, 1_000)
    assert quotas.max_fetch_bytes("ann", "one") == 10_000
    assert quotas.fetched("ann", "one", 11_000, 0) == 1_000
    quotas.not_fetched("ann", "one", 11_000, 0)
    assert quotas.fetched("ann", "one", 10_000, 0) == 0


def test_time_is_charged_in_percents_of_a_second_and_waited_for_at_most_one_sample() -> None:
    quotas = usage("request_percentage", 1)
    quotas.handled("ann", "one", 50_000_000, 0)  # 5 % of one second, of ten
    assert quotas.request_throttle_ms("ann", "one", 0) == 0
    quotas.handled("ann", "one", 60_000_000, 0)
    assert quotas.request_throttle_ms("ann", "one", 0) == 1_000


def test_a_strict_mutation_is_refused_and_an_old_one_throttled() -> None:
    quotas = usage("controller_mutation_rate", 1)
    strict = quotas.mutation_quota("ann", "one", is_strict=True)
    assert strict is not None
    buckets = MutationBuckets(Windows())
    charge = buckets.charge(strict, 0)
    charge.take(20)  # a burst of 11 is allowed, and the excess is lent once
    assert charge.settle() == 0
    charge = buckets.charge(strict, 0)
    with pytest.raises(KafkaError) as refused:
        charge.take(1)
    assert (refused.value.code, charge.settle()) == (89, 9_000)
    old = quotas.mutation_quota("ann", "one", is_strict=False)
    assert old is not None
    charge = buckets.charge(old, 0)
    charge.take(5)
    assert charge.settle() == 14_000


def test_the_clients_that_are_remembered_are_bounded() -> None:
    quotas = usage(PRODUCER_BYTE_RATE, 1_000)
    for number in range(MAX_METERS + 50):
        quotas.produced("ann", str(number), 1, 0)
    assert len(quotas._rates) == MAX_METERS


def test_who_goes_on_is_not_forgotten_for_others_that_come_and_go() -> None:
    quotas = usage(PRODUCER_BYTE_RATE, 1_000)
    quotas.produced("ann", "busy", 11_000, 0)
    for number in range(2 * MAX_METERS):
        quotas.produced("ann", str(number), 1, 0)
        if number % 1_000 == 0:
            assert quotas.produced("ann", "busy", 0, 0) == 1_000


def test_the_buckets_that_are_remembered_are_bounded_too() -> None:
    buckets = MutationBuckets(Windows())
    for number in range(MAX_METERS + 50):
        buckets.charge(MutationQuota(("ann", str(number)), 1, is_strict=True), 0)
    assert len(buckets._buckets) == MAX_METERS


def connections(limits: ConnectionLimits, address_limit: float | None = None) -> ConnectionQuotas:
    found = ConnectionQuotas(limits, Windows())
    if address_limit is not None:
        found.quotas_changed({quota_entity({"ip": None}): {"connection_creation_rate": address_limit}})
    return found


def test_connections_of_one_address_are_limited_in_number() -> None:
    quotas = connections(
        ConnectionLimits(max_connections_per_ip=2, overrides=parse_overrides("10.0.0.9:1, 10.0.0.8:3"))
    )
    assert [quotas.arrived("10.0.0.7", 0).verdict for _ in range(3)] == [Verdict.SERVE, Verdict.SERVE, Verdict.CLOSE]
    assert [quotas.arrived("10.0.0.9", 0).verdict for _ in range(2)] == [Verdict.SERVE, Verdict.CLOSE]
    quotas.left("10.0.0.7", was_served=False)
    assert quotas.arrived("10.0.0.7", 0).verdict is Verdict.CLOSE
    quotas.left("10.0.0.7", was_served=False)
    quotas.left("10.0.0.7", was_served=True)
    assert quotas.arrived("10.0.0.7", 0).verdict is Verdict.SERVE


def test_connections_above_the_limit_wait_for_room() -> None:
    quotas = connections(ConnectionLimits(max_connections=1))
    assert quotas.arrived("a", 0).verdict is Verdict.SERVE
    assert quotas.arrived("b", 0).verdict is Verdict.WAIT_FOR_ROOM
    assert not quotas.room_was_found()
    quotas.left("a", was_served=True)
    assert quotas.room_was_found()


def test_a_connection_above_the_rate_is_closed_within_a_second_and_not_counted() -> None:
    quotas = connections(ConnectionLimits(), 1)
    verdicts = [quotas.arrived("a", 0) for _ in range(12)]
    assert [row.verdict for row in verdicts] == [Verdict.SERVE] * 10 + [Verdict.CLOSE] * 2
    assert {row.wait_ms for row in verdicts[10:]} == {1_000}
    assert quotas.arrived("b", 0).verdict is Verdict.SERVE


def test_above_the_rate_of_the_broker_connections_are_served_later() -> None:
    quotas = connections(ConnectionLimits(creation_rate=1))
    verdicts = [quotas.arrived(str(number), 0) for number in range(11)]
    assert (verdicts[-1].verdict, verdicts[-1].wait_ms) == (Verdict.SERVE_LATER, 1_000)


@pytest.mark.parametrize("text", ["a", "a:", ":1", "a:-1", "a:x", "a:1,b", "db.example:3", "10.0.0.7:1,10.0.0:2"])
def test_impossible_overrides(text: str) -> None:
    with pytest.raises(ValueError, match="is not ADDRESS:COUNT"):
        parse_overrides(text)


def test_a_quota_holds_for_its_address_however_it_is_spelled() -> None:
    def quota(limit: float) -> dict[str, float]:
        return {"connection_creation_rate": limit}

    quotas = {
        quota_entity({"ip": "2001:DB8::1"}): quota(1),
        quota_entity({"ip": "0:0:0:0:0:0:0:2"}): quota(2),
        quota_entity({"ip": "::2"}): quota(3),
        quota_entity({"ip": "::ffff:10.0.0.7"}): quota(4),
        quota_entity({"ip": "localhost"}): quota(5),
        quota_entity({"ip": None}): quota(6),
        quota_entity({"user": "ann"}): {"producer_byte_rate": 7.0},
    }
    addresses = address_quotas(quotas)
    asked = ("2001:db8::1", "::2", "10.0.0.7", "::1", "127.0.0.1", "10.0.0.8")
    assert [ip_limit(addresses, address) for address in asked] == [1, 3, 4, 5, 5, 6]
    assert all(kind == "ip" for ((kind, _),) in addresses)


def test_a_change_of_one_quota_does_not_read_the_addresses_of_all_others_anew() -> None:
    quotas = {quota_entity({"ip": f"10.7.{index}.1"}): {CONNECTION_CREATION_RATE: 1.0} for index in range(200)}
    assert address_quotas(quotas) == quotas
    read = one_spelling.cache_info().misses
    assert address_quotas(quotas) == quotas
    assert one_spelling.cache_info().misses == read


def test_an_override_holds_for_its_address_however_it_is_spelled() -> None:
    assert parse_overrides("localhost:5,[2001:DB8::1]:2,0:0:0:0:0:0:0:9:3,10.0.0.7:4") == {
        "127.0.0.1": 5,
        "::1": 5,
        "2001:db8::1": 2,
        "::9": 3,
        "10.0.0.7": 4,
    }


def test_a_listener_has_limits_of_its_own_besides_those_of_all() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(max_connections=3, listeners={"A": ListenerLimits(2)}), Windows())
    verdicts = [quotas.arrived("10.0.0.1", 0, listener).verdict for listener in "AAABB"]
    assert verdicts == [Verdict.SERVE, Verdict.SERVE, Verdict.WAIT_FOR_ROOM, Verdict.SERVE, Verdict.WAIT_FOR_ROOM]
    assert quotas.arrived("10.0.0.1", 0, "A").reason == "listener.name.a.max.connections"
    assert quotas.arrived("10.0.0.1", 0, "B").reason == "max.connections"
    quotas.left("10.0.0.1", "B", was_served=True)
    assert not quotas.room_was_found("A")
    assert quotas.room_was_found("B")
    quotas.left("10.0.0.1", "A", was_served=True)
    assert quotas.room_was_found("A")


def test_the_listener_between_brokers_passes_the_limit_of_all_and_not_its_own() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(max_connections=0, listeners={"I": ListenerLimits(1)}), Windows())
    verdicts = [quotas.arrived("10.0.0.1", 0, "I", is_protected=True).verdict for _ in range(2)]
    assert verdicts == [Verdict.SERVE, Verdict.WAIT_FOR_ROOM]


def test_a_listener_has_a_rate_of_its_own() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(listeners={"A": ListenerLimits(creation_rate=1)}), Windows())
    assert [quotas.arrived("10.0.0.1", 0, "B").verdict for _ in range(20)] == [Verdict.SERVE] * 20
    admissions = [quotas.arrived("10.0.0.1", 0, "A") for _ in range(20)]
    assert admissions[-1].verdict is Verdict.SERVE_LATER
    assert admissions[-1].reason == "listener.name.a.max.connection.creation.rate"
