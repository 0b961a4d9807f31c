"""A client's access to a cluster, as a value: its equality, and its text for others."""

from __future__ import annotations

import pickle

import msgspec
import pytest

from moldau.client.protocol.access import AccessError, ClusterAccess, parse_bootstrap_servers

SERVERS = "b:1,a:9092,[::1]:9092"
NOT_AT_DEFAULT = ClusterAccess(
    SERVERS,
    client_id="job",
    connect_timeout_ms=2,
    request_timeout_ms=3,
    first_contact_timeout_ms=4,
    retry_timeout_ms=5,
)


def test_bootstrap_servers_are_read_in_every_form():
    assert parse_bootstrap_servers("a:1, b:2,,a:1,") == [("a", 1), ("b", 2)]
    assert parse_bootstrap_servers("[::1]:9,host") == [("::1", 9), ("host", 9092)]
    for wrong in ("", " , ", "host:port", "host:65536", "http://host:1"):
        with pytest.raises(ValueError, match="bootstrap servers"):
            parse_bootstrap_servers(wrong)
        with pytest.raises(ValueError, match="bootstrap servers"):
            ClusterAccess(wrong)


@pytest.mark.parametrize("text", [SERVERS, "b:1, a ,[::1]", " b:01,a:9092,b:1,[::1]:9092,"])
def test_brokers_named_in_two_ways_are_one_access_in_dicts_and_pickles(text: str):
    access = ClusterAccess(text)
    assert str(access) == SERVERS
    assert {access: 1} == {ClusterAccess(SERVERS): 1}
    assert pickle.loads(pickle.dumps(access)) == access
    assert ClusterAccess.of(text) == ClusterAccess.of(access) == access
    assert msgspec.structs.replace(access, client_id="other") != access


def test_a_client_id_that_was_chosen_stays():
    assert ClusterAccess("a").named("tool").client_id == "tool"
    assert ClusterAccess("a", client_id="job").named("tool").client_id == "job"


def test_repr_shows_what_is_not_at_its_default():
    assert repr(ClusterAccess("a")) == "ClusterAccess('a:9092')"
    said = "client_id='job', connect_timeout_ms=2, request_timeout_ms=3, first_contact_timeout_ms=4, retry_timeout_ms=5"
    assert repr(NOT_AT_DEFAULT) == f"ClusterAccess('{SERVERS}', {said})"


def test_repr_shows_no_field_that_it_was_not_told_of():
    class Secretive(ClusterAccess, frozen=True):
        password: str = ""

    assert "hidden" not in repr(Secretive("a", password="hidden")) + str(Secretive("a", password="hidden"))


def test_properties_of_kafka_make_an_access():
    properties = {
        "bootstrap.servers": "a,b:2",
        "client.id": "job",
        "request.timeout.ms": " 3000 ",
        "socket.connection.setup.timeout.ms": "2000",
        "security.protocol": "plaintext",
        "group.id": "readers",
    }
    expected = ClusterAccess("a:9092,b:2", client_id="job", connect_timeout_ms=2_000, request_timeout_ms=3_000)
    assert ClusterAccess.from_properties(properties) == expected
    assert ClusterAccess.from_properties({"bootstrap.servers": "a"}) == ClusterAccess("a")


def test_the_time_of_the_api_counts_where_that_of_a_request_is_not_set():
    both = {"bootstrap.servers": "a", "default.api.timeout.ms": "7", "request.timeout.ms": "8"}
    assert ClusterAccess.from_properties(both).request_timeout_ms == 8
    del both["request.timeout.ms"]
    assert ClusterAccess.from_properties(both).request_timeout_ms == 7


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("bootstrap.servers", "", "must be set"),
        ("bootstrap.servers", "a:b", "must be host:port,...: bootstrap servers: 'a:b' is not host:port"),
        ("request.timeout.ms", "soon", "must be a whole number above 0, not 'soon'"),
        ("request.timeout.ms", "9" * 5_000, "must be a whole number above 0"),
        ("socket.connection.setup.timeout.ms", "0", "must be a whole number above 0, not '0'"),
        ("socket.connection.setup.timeout.ms", "2147483648", "must be at most 2147483647, not 2147483648"),
        ("security.protocol", "TLS", "must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not TLS"),
    ],
)
def test_a_property_that_reaches_no_cluster_is_refused_by_its_name(name: str, value: str, said: str):
    with pytest.raises(AccessError) as refused:
        ClusterAccess.from_properties({"bootstrap.servers": "a", name: value})
    assert refused.value.name == name
    assert refused.value.reason.startswith(said)
    assert str(refused.value) == f"{name} {refused.value.reason}"
