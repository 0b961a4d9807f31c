"""`kafka-storage` gives a node's directories to a cluster, in Kafka's words, and never changes a formatted one."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import pytest

from moldau.cli.arguments import settings_in
from moldau.cli.kafka.tools import run_tool
from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.metadata.snapshot import decode_snapshot
from moldau.errors import KafkaError
from moldau.shell.io.disk import OsDisk
from moldau.shell.node.storage_format import MetaProperties, read_meta_properties
from moldau.shell.quorum.metadata_log import load_bootstrap_records
from moldau.types import uuid_from_text, uuid_to_text
from moldau.wire.protocol.messages.metadata_records import UserScramCredentialRecord
from tests.support.controller import Controller

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
DIRECTORIES = "1WTrjcLvXUIcc6qVuAV0tA", "MvDxzVmcRsaTz33bUuRU6A"
CONTROLLERS = f"1@one:9093:{DIRECTORIES[0]},2@two:9093:{DIRECTORIES[1]}"
VOTERS_FILE = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Of node 1 with two directories."""
    path = tmp_path / "node.properties"
    path.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://one:9093\n"
        f"log.dirs={tmp_path}/a,{tmp_path}/b\n"
    )
    return path


def storage(*words: str | Path) -> int:
    return run_tool("kafka-storage", [str(word) for word in words])


def properties_of(directory: Path) -> MetaProperties:
    found = read_meta_properties(OsDisk(str(directory)))
    assert found is not None
    return found


def voters_of(directory: Path) -> list[tuple[int, str, str, int]]:
    voters = decode_snapshot((directory / VOTERS_FILE).read_bytes()).control.voters
    assert voters is not None
    return [
        (voter.voter_id, uuid_to_text(voter.voter_directory_id), voter.endpoints[0].host, voter.endpoints[0].port)
        for voter in voters.voters
    ]


def test_a_node_alone_is_its_own_first_controller(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert storage("format", "-t", CLUSTER, "-c", config, "-s") == 0
    first = properties_of(config.parent / "a")
    assert (first.node_id, first.cluster_id) == (1, CLUSTER)
    assert voters_of(config.parent / "a") == [(1, uuid_to_text(first.directory_id), "one", 9093)]
    assert properties_of(config.parent / "b").cluster_id == CLUSTER
    assert not (config.parent / "b" / VOTERS_FILE).exists()
    assert capsys.readouterr().out == (
        f"Formatting dynamic metadata voter directory {config.parent}/a with metadata.version 4.3-IV0.\n"
        f"Formatting data directory {config.parent}/b with metadata.version 4.3-IV0.\n"
    )


def test_initial_controllers_are_the_first_voters_and_name_this_directory(config: Path) -> None:
    assert storage("format", "-t", CLUSTER, "-c", config, "-I", CONTROLLERS) == 0
    assert properties_of(config.parent / "a").directory_id == uuid_from_text(DIRECTORIES[0])
    assert voters_of(config.parent / "a") == [(1, DIRECTORIES[0], "one", 9093), (2, DIRECTORIES[1], "two", 9093)]


def test_configured_voters_stand_in_no_file(config: Path) -> None:
    config.write_text(config.read_text() + "controller.quorum.voters=1@one:9093,2@two:9093\n")
    assert storage("format", "-t", CLUSTER, "-c", config) == 0
    assert not (config.parent / "a" / VOTERS_FILE).exists()
    assert (config.parent / "a" / "bootstrap.checkpoint").exists()


BROKER_ALONE = "process.roles=broker\nlisteners=PLAINTEXT://127.0.0.1:9092\n"
BY_SERVERS = BROKER_ALONE + "controller.quorum.bootstrap.servers=two:9093\n"
BY_VOTERS = BROKER_ALONE + "controller.quorum.voters=2@two:9093\n"


@pytest.mark.parametrize(
    ("more", "level", "said"),
    [
        (BY_SERVERS, 1, None),
        (BY_VOTERS, 0, None),
        (BY_SERVERS, 0, "Cannot set kraft.version to 0 if controller.quorum.voters is empty"),
        (BY_VOTERS, 1, "Cannot set kraft.version to 1 unless controller.quorum.voters is empty"),
    ],
)
def test_a_broker_alone_has_the_quorum_that_its_settings_name(
    config: Path, capsys: pytest.CaptureFixture[str], more: str, level: int, said: str | None
) -> None:
    config.write_text(config.read_text() + more)
    assert storage("format", "-t", CLUSTER, "-c", config, "--feature", f"kraft.version={level}") == int(
        said is not None
    )
    assert (said or "Formatting metadata directory") in "".join(capsys.readouterr())


def test_what_is_formatted_stays_as_it_is(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    storage("format", "-t", CLUSTER, "-c", config, "-s")
    before = properties_of(config.parent / "a")
    assert storage("format", "-t", CLUSTER, "-c", config, "-s") == 1
    assert "a is already formatted. Use --ignore-formatted" in capsys.readouterr().err
    assert storage("format", "-t", CLUSTER, "-c", config, "-s", "-g") == 0
    assert capsys.readouterr().out == "All of the log directories are already formatted.\n"
    assert storage("format", "-t", "AAAAAAAAAAAAAAAAAAAAAA", "-c", config, "-s", "-g") == 1
    assert properties_of(config.parent / "a") == before


@pytest.mark.parametrize(
    ("more", "words", "said"),
    [
        ("", (), "Because controller.quorum.voters is not set on this controller"),
        ("controller.quorum.voters=1@one:9093\n", ("-s",), "You cannot specify controller.quorum.voters and format"),
        ("", ("-s", "-I", CONTROLLERS), "not allowed with argument --standalone"),
        ("", ("-I", "1@one:9093"), "is no controller"),
        ("", ("-I", f"1@one:9093:{'?' * 22}"), "is no controller"),
        ("", ("-I", f"2@two:9093:{DIRECTORIES[1]}"), "node 1 is not among the initial controllers"),
        ("", ("-I", f"{CONTROLLERS},1@one:9093:{DIRECTORIES[0]}"), "a node id stands twice"),
        ("node.id=x\n", ("-s",), "node.id"),
    ],
)
def test_what_cannot_be_formatted_is_refused_in_a_sentence(
    config: Path, capsys: pytest.CaptureFixture[str], more: str, words: tuple[str, ...], said: str
) -> None:
    config.write_text(config.read_text() + more)
    assert storage("format", "-t", CLUSTER, "-c", config, *words) == 1
    assert said in capsys.readouterr().err
    assert not (config.parent / "a" / "meta.properties").exists()


@pytest.mark.parametrize(
    "line", ["listener.security.protocol.map=PLAINTEXT:SASL_SSL,CONTROLLER:SSL", "authorizer.class.name=not.Here"]
)
def test_a_node_whose_logins_and_certificates_come_later_is_formatted(
    config: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    config.write_text(f"{config.read_text()}{line}\n")
    assert storage("format", "-t", CLUSTER, "-c", config, "-s") == 0, capsys.readouterr().err
    assert properties_of(config.parent / "a").cluster_id == CLUSTER
    with pytest.raises(KafkaError):
        parse_broker_settings(settings_in(str(config)))


@pytest.mark.parametrize("name", ["node.id", "process.roles"])
def test_a_node_that_does_not_say_who_it_is_gets_no_directory(
    config: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    lines = config.read_text().splitlines(keepends=True)
    config.write_text("".join(line for line in lines if not line.startswith(name)))
    assert storage("format", "-t", CLUSTER, "-c", config, "-s") == 1
    assert f'Missing required configuration "{name}"' in capsys.readouterr().err
    assert not (config.parent / "a").exists()


def test_a_directory_of_another_node_or_cluster_is_joined_by_no_other(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage("format", "-t", CLUSTER, "-c", config, "-s")
    before = config.read_text()
    config.write_text(before.replace("node.id=1", "node.id=2") + f"log.dirs={config.parent}/a,{config.parent}/c\n")
    for more in ((), ("-g",)):
        capsys.readouterr()
        assert storage("format", "-t", CLUSTER, "-c", config, "-s", *more) == 1
        assert capsys.readouterr().err.startswith("Stored node id 1 doesn't match previous node id 2 in ")
        assert storage("format", "-t", "A" * 22, "-c", config, "-s", *more) == 1
        expected = f"a/meta.properties. Expected {'A' * 22}, but read {CLUSTER}\n"
        assert capsys.readouterr().err.endswith(expected)
    assert not (config.parent / "c" / "meta.properties").exists()


@pytest.mark.parametrize("cluster", ["", "a b", "ü", "a\\b", "a\nversion=2"])
def test_what_meta_properties_would_give_back_as_another_id_is_none_of_a_cluster(
    config: Path, capsys: pytest.CaptureFixture[str], cluster: str
) -> None:
    assert storage("format", "-t", cluster, "-c", config, "-s") == 1
    assert "is no cluster id: one has letters" in capsys.readouterr().err
    assert not (config.parent / "a").exists()


def test_info_tells_whose_the_directories_are_and_what_is_missing(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert storage("info", "-c", config) == 1
    assert f"{config.parent}/a does not exist" in capsys.readouterr().out
    storage("format", "-t", CLUSTER, "-c", config, "-s")
    capsys.readouterr()
    assert storage("info", "-c", config) == 0
    directory_id = uuid_to_text(properties_of(config.parent / "a").directory_id)
    assert capsys.readouterr().out == (
        f"Found log directories:\n  {config.parent}/a\n  {config.parent}/b\n\n"
        f"Found metadata: {{cluster.id={CLUSTER}, directory.id={directory_id}, node.id=1, version=1}}\n\n"
    )


def test_a_random_uuid_is_an_id_for_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert storage("random-uuid") == 0
    assert len(uuid_from_text(capsys.readouterr().out.strip())) == 16


def bootstrap_of(directory: Path) -> list[object]:
    return list(decode_snapshot((directory / "bootstrap.checkpoint").read_bytes()).records)


def test_a_salted_password_gives_the_keys_that_kafkas_tool_wrote(config: Path) -> None:
    salted = 'SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]'
    assert storage("format", "-t", CLUSTER, "-c", config, "-s", "-S", salted) == 0
    record = bootstrap_of(config.parent / "a")[-1]
    assert isinstance(record, UserScramCredentialRecord)
    assert (record.name, record.mechanism, record.salt, record.iterations) == ("alice", 2, b"7q", 8192)
    assert record.stored_key.hex().startswith("7176a349f91eb2e11d99e95730813516")
    assert record.server_key.hex().startswith("4c617c0eddee5ac6585f2fbf501b7ce9")
    assert bootstrap_of(config.parent / "b") == bootstrap_of(config.parent / "a")


def test_a_password_is_kept_salted_and_each_time_with_another_salt(config: Path) -> None:
    words = ("-S", "SCRAM-SHA-256=[name=alice,password=secret]", "-S", "SCRAM-SHA-256=[name=bob,password=secret]")
    assert storage("format", "-t", CLUSTER, "-c", config, "-s", *words) == 0
    alice, bob = bootstrap_of(config.parent / "a")[-2:]
    assert isinstance(alice, UserScramCredentialRecord)
    assert isinstance(bob, UserScramCredentialRecord)
    salted = hashlib.pbkdf2_hmac("sha256", b"secret", alice.salt, 4096)
    assert alice.stored_key == hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    assert alice.salt != bob.salt
    assert len(alice.salt) == 20


def test_a_node_starts_with_credentials_and_levels_that_it_was_formatted_with(config: Path) -> None:
    """They are the first records of its metadata log."""
    levels = ("-r", "4.1", "-f", "group.version=0", "-S", "SCRAM-SHA-256=[name=alice,password=secret]")
    assert storage("format", "-t", CLUSTER, "-c", config, "-s", *levels) == 0
    records = load_bootstrap_records(OsDisk(str(config.parent / "a")))
    controller = Controller(bootstrap=records)
    assert dict(controller.state.image.features) == {
        "metadata.version": 27,
        "eligible.leader.replicas.version": 1,
        "transaction.version": 2,
    }
    assert controller.state.image.logins.scram_credential("alice", 1) == records[-1]
