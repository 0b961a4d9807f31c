"""Broker settings: texts in, a typed view out, Kafka's messages for errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.core.config.broker_settings import BROKER_SETTING_ROWS, BrokerSettings, parse_broker_settings
from moldau.core.config.listeners import Endpoint
from moldau.core.config.properties import format_properties, parse_properties
from moldau.core.config.quorum_voters import QuorumVoter
from moldau.core.config.setting import HONOURED, IGNORED, NOT_SERVED, REFUSED, check_value, parse_value
from moldau.errors import KafkaError


def refused(texts: dict[str, str]) -> str:
    with pytest.raises(KafkaError) as caught:
        parse_broker_settings(texts)
    assert caught.value.code == 40
    return str(caught.value)


def test_every_name_has_one_row() -> None:
    names = [row[0] for row in BROKER_SETTING_ROWS]
    assert len(names) == len(set(names))
    assert len([name for name in names if not name.startswith("moldau.")]) == 382


@pytest.mark.parametrize("row", BROKER_SETTING_ROWS, ids=lambda row: row[0])
def test_every_default_is_a_value_of_its_own_row(row: tuple[str, str, str | None, str, str, str, str]) -> None:
    name, kind, default, valid, scope, served, note = row
    assert served in (HONOURED, IGNORED, NOT_SERVED, REFUSED)
    assert scope in ("read-only", "cluster-wide", "per-broker")
    assert served != IGNORED or note
    if default is not None and not (valid.startswith("non-empty") and default == ""):
        check_value(name, valid, parse_value(name, kind, default))


def test_the_typed_view_has_a_field_for_every_honoured_setting_and_no_other() -> None:
    fields = [field for field in BrokerSettings.__struct_fields__ if field != "texts"]
    honoured = [row[0].replace(".", "_") for row in BROKER_SETTING_ROWS if row[5] == HONOURED]
    assert sorted(fields) == sorted(honoured)


def test_defaults_are_kafkas() -> None:
    settings = parse_broker_settings({})
    assert settings.num_partitions == 1
    assert settings.auto_create_topics_enable is True
    assert settings.message_max_bytes == 1_048_588
    assert settings.retention_ms == 604_800_000
    assert settings.flush_interval_ms == (1 << 63) - 1
    assert settings.group_initial_rebalance_delay_ms == 3_000
    assert settings.offsets_topic_replication_factor == 3
    assert settings.get("transaction.state.log.replication.factor") == 3
    assert settings.get("transaction.state.log.min.isr") == 2
    assert settings.listeners == (Endpoint("PLAINTEXT", "127.0.0.1", 9092),)
    assert settings.log_directory is None
    assert settings.notices() == ()


@pytest.mark.parametrize(
    ("texts", "retention_ms"),
    [
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}, 3),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-7"}, -1),
    ],
)
def test_the_nearest_unit_of_retention_wins(texts: dict[str, str], retention_ms: int) -> None:
    assert parse_broker_settings(texts).retention_ms == retention_ms


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        ({"num.partitions": "x"}, "Invalid value x for configuration num.partitions: Not a number of type INT"),
        ({"num.partitions": "0"}, "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        (
            {"message.max.bytes": "99999999999"},
            "Invalid value 99999999999 for configuration message.max.bytes: Not a number of type INT",
        ),
        (
            {"auto.create.topics.enable": "yes"},
            "Invalid value yes for configuration auto.create.topics.enable: Expected value to be either true or false",
        ),
        (
            {"log.message.timestamp.type": "x"},
            "Invalid value x for configuration log.message.timestamp.type: "
            "String must be one of: CreateTime, LogAppendTime",
        ),
        ({"log.retention.ms": "0"}, "log.retention.ms must be unlimited (-1) or, equal or greater than 1"),
        ({"queued.max.request.bytes": "5"}, "queued.max.request.bytes must be larger or equal to"),
        ({"authorizer.class.name": "x.Y"}, "StandardAuthorizer or empty: no other is known here"),
        ({"process.roles": "broker,broker"}, "process.roles must be broker, controller or broker,controller"),
        (
            {"process.roles": "controller", "listeners": "CONTROLLER://a:9093"},
            "either controller.quorum.bootstrap.servers must contain",
        ),
        (
            {"process.roles": "controller", "controller.quorum.voters": "1@a:9093"},
            "The listeners config must only contain KRaft controller listeners",
        ),
        (
            {"process.roles": "controller", "controller.quorum.voters": "2@a:9093", "listeners": "CONTROLLER://a:9093"},
            "the node id 1 must be included in the set of voters",
        ),
        ({"process.roles": "broker"}, "either controller.quorum.bootstrap.servers must contain"),
        (
            {"process.roles": "broker", "controller.quorum.voters": "1@a:9093"},
            "the node id 1 must not be included in the set of voters",
        ),
        ({"node.id": "2", "broker.id": "3"}, "must be equal"),
        ({"offsets.topic.replication.factor": "3"}, "one node can hold one replica only"),
        (
            {"log.dirs": "/a,/b", "metadata.log.dir": "/b"},
            "the metadata log lies in the first of log.dirs here, which is",
        ),
        ({"metadata.log.dir": "/b"}, "name /b first there"),
        ({"inter.broker.listener.name": "X"}, "inter.broker.listener.name must be a listener name defined in"),
        (
            {"listeners": "A://:1,B://:2", "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"},
            "and is PLAINTEXT. The valid options based on currently configured listeners are A,B",
        ),
        (
            {
                "listeners": "PLAINTEXT://:1,B://:2",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,B:PLAINTEXT",
                "advertised.listeners": "B://h:2",
            },
            "The valid options based on currently configured listeners are B",
        ),
        *(
            (
                {
                    "process.roles": "broker",
                    "controller.quorum.voters": "9@c:9093",
                    "listeners": f"PLAINTEXT://{host}:9092",
                },
                "nonroutable meta-address",
            )
            for host in ("0.0.0.0", "[::]", "[0:0:0:0:0:0:0:0]")
        ),
        ({"moldau.record.validation": "none"}, "String must be one of: header, compressed, full"),
        ({"listeners": "nonsense"}, "a listener is written NAME://HOST:PORT"),
        ({"listeners": "PLAINTEXT://a:70000"}, "a port is between 0 and 65535"),
        ({"listeners": "A://h:1,A://h:2"}, "Each listener must have a different name"),
        ({"listeners": "PLAINTEXT://h:1,SSL://h:1"}, "share port 1"),
        ({"listeners": "OTHER://h:1"}, "No security protocol defined for listener OTHER"),
        ({"listeners": "CONTROLLER://h:1"}, "names no listener for clients"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "nonroutable meta-address 0.0.0.0"),
        ({"advertised.listeners": "X://h:1"}, "equal to or a subset"),
    ],
)
def test_a_wrong_setting_is_told_in_one_sentence(texts: dict[str, str], sentence: str) -> None:
    assert sentence in refused(texts)


def test_a_single_node_may_listen_at_every_interface_and_others_without_a_host() -> None:
    assert parse_broker_settings({"listeners": "PLAINTEXT://0.0.0.0:9092"}).is_alone
    broker = {"process.roles": "broker", "controller.quorum.voters": "9@c:9093"}
    parse_broker_settings({**broker, "listeners": "PLAINTEXT://:9092"})
    advertised = {"advertised.listeners": "PLAINTEXT://h:9092"}
    parse_broker_settings({**broker, "listeners": "PLAINTEXT://0.0.0.0:9092", **advertised})


def test_internal_topics_have_replicas_where_there_are_other_nodes() -> None:
    settings = parse_broker_settings(
        {
            "node.id": "1",
            "listeners": "PLAINTEXT://a:9092,CONTROLLER://a:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@a:9093,2@b:9093,3@c:9093",
            "offsets.topic.replication.factor": "3",
        }
    )
    assert settings.offsets_topic_replication_factor == 3


def test_a_node_that_others_may_join_may_ask_for_replicas_on_them() -> None:
    texts = {
        "listeners": "PLAINTEXT://a:9092,CONTROLLER://a:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@a:9093",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "3",
    }
    settings = parse_broker_settings(texts)
    assert (settings.is_alone, settings.is_whole) == (True, False)
    assert parse_broker_settings({}).is_whole


@pytest.mark.parametrize("path", ["/a", "/a/", "/x/../a"])
def test_the_directory_of_the_metadata_log_may_be_the_first_of_all(path: str) -> None:
    settings = parse_broker_settings({"log.dirs": "/a,/b", "metadata.log.dir": path})
    assert settings.log_directories == ("/a", "/b")


def test_the_value_that_is_in_force_anyway_is_never_refused() -> None:
    parse_broker_settings({"compression.type": "producer", "authorizer.class.name": "", "log.cleanup.policy": "delete"})


def test_what_has_no_effect_is_told() -> None:
    settings = parse_broker_settings(
        {"super.users": "User:a", "num.io.threads": "3", "transaction.two.phase.commit.enable": "true"}
    )
    assert settings.notices() == (
        "num.io.threads has no effect: requests are handled on one event loop",
        "super.users has no effect: authorizer.class.name is not set",
        "transaction.two.phase.commit.enable is not served yet",
    )
    assert settings.get("num.io.threads") == 3
    assert settings.texts["super.users"] == "User:a"


def test_a_servers_file_of_kafka_opens_only_the_listeners_for_clients() -> None:
    settings = parse_broker_settings(
        {
            "listeners": "PLAINTEXT://:9092, CONTROLLER://:9093, inside://[::1]:9094",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
            "advertised.listeners": "PLAINTEXT://broker.example:19092,CONTROLLER://broker.example:9093",
            "log.dirs": "/var/lib/data",
        }
    )
    assert [str(endpoint) for endpoint in settings.listeners] == ["PLAINTEXT://:9092", "INSIDE://[::1]:9094"]
    # as in Kafka: a listener that is not advertised is not registered
    assert settings.registered_listeners == (Endpoint("PLAINTEXT", "broker.example", 19092),)
    assert settings.log_directory == "/var/lib/data"
    assert settings.controller_endpoints == (Endpoint("CONTROLLER", "", 9093),)


def test_a_controller_has_no_client_listener_and_ignores_those_of_brokers() -> None:
    settings = parse_broker_settings(
        {
            "process.roles": "controller",
            "controller.quorum.bootstrap.servers": "localhost:9093",
            "listeners": "CONTROLLER://:9093",
            "advertised.listeners": "CONTROLLER://localhost:9093",
            "inter.broker.listener.name": "PLAINTEXT",
            "offsets.topic.replication.factor": "3",
        }
    )
    assert (settings.is_controller, settings.is_broker, settings.listeners) == (True, False, ())


def test_a_controllers_listener_is_apart_from_those_for_clients() -> None:
    settings = parse_broker_settings(
        {
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "advertised.listeners": "PLAINTEXT://one.example:9092,CONTROLLER://one.example:19093",
            "controller.quorum.voters": "1@one.example:19093, 2@[::1]:9093,3@three.example:9093",
        }
    )
    assert [str(endpoint) for endpoint in settings.listeners] == ["PLAINTEXT://:9092"]
    assert settings.controller_endpoints == (Endpoint("CONTROLLER", "", 9093),)
    assert settings.advertised_controller_endpoints == (Endpoint("CONTROLLER", "one.example", 19093),)
    assert settings.controller_quorum_voters == (
        QuorumVoter(1, "one.example", 19093),
        QuorumVoter(2, "::1", 9093),
        QuorumVoter(3, "three.example", 9093),
    )


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"controller.quorum.voters": "1@a"}, "a voter is written ID@HOST:PORT"),
        ({"controller.quorum.voters": "one@a:9093"}, "a voter is written ID@HOST:PORT"),
        ({"controller.quorum.voters": "1@a:0"}, "a voter is written ID@HOST:PORT"),
        ({"controller.quorum.voters": "1@a:9093,1@b:9093"}, "a node id stands twice"),
        ({"controller.quorum.voters": "2@a:9093"}, "the node id 1 must be included in the set of voters"),
        ({"controller.quorum.voters": "1@a:9093,2@b:9093"}, "The controller.listener.names must contain at least one"),
        ({"controller.quorum.bootstrap.servers": "a"}, "a server is written HOST:PORT"),
    ],
)
def test_a_quorum_that_cannot_be_is_refused(texts: dict[str, str], said: str) -> None:
    with pytest.raises(KafkaError, match=said) as caught:
        parse_broker_settings(texts)
    assert caught.value.code == 40


def test_properties_are_read_as_java_reads_them() -> None:
    text = (
        "# comment\n! another\n\n  a = 1 \nb:2\nc 3\nd\ne=x\\\n   y\nf\\ g=h\\=i\\tj\\u0041\r\na=4\n"
        "path=C:\\\\logs\nlast=no newline\\"
    )
    assert parse_properties(text) == {
        "b": "2",
        "c": "3",
        "d": "",
        "e": "xy",
        "f g": "h=i\tjA",
        "a": "4",
        "path": "C:\\logs",
        "last": "no newline",
    }


@given(st.dictionaries(st.text(), st.text()))
def test_properties_that_were_written_are_read_as_they_were(values: dict[str, str]) -> None:
    assert parse_properties(format_properties(values)) == values


def test_a_node_is_alone_unless_a_setting_names_another() -> None:
    own = {"listeners": "PLAINTEXT://:9092,CONTROLLER://10.0.0.1:9093"}
    name = "controller.quorum.bootstrap.servers"
    assert parse_broker_settings({}).is_alone
    assert parse_broker_settings({**own, name: "10.0.0.1:9093"}).is_alone
    assert parse_broker_settings({**own, name: "localhost:9093"}).is_alone
    assert not parse_broker_settings({**own, name: "10.0.0.1:9093,10.0.0.2:9093"}).is_alone
    assert not parse_broker_settings({**own, "controller.quorum.voters": "1@10.0.0.1:9093,2@10.0.0.2:9093"}).is_alone


def test_the_file_that_ships_with_kafka_parses(tmp_path: Path) -> None:
    text = "process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\nlog.dirs=/x\n"
    (tmp_path / "server.properties").write_text(text)
    settings = parse_broker_settings(parse_properties((tmp_path / "server.properties").read_text()))
    assert settings.node_id == 1
