"""`moldau storage` gives directories to a cluster and shows their owners; `moldau node` runs only such directories."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moldau.cli.main import main
from moldau.core.metadata.snapshot import decode_snapshot
from moldau.shell.io.disk import OsDisk
from moldau.shell.node.storage_format import read_meta_properties
from moldau.types import uuid_from_text
from moldau.wire.protocol.messages.metadata_records import FeatureLevelRecord, UserScramCredentialRecord

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Of node 1 with two directories."""
    path = tmp_path / "node.properties"
    path.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        f"log.dirs={tmp_path}/a,{tmp_path}/b\n"
    )
    return path


def cluster_of(directory: Path) -> str | None:
    found = read_meta_properties(OsDisk(str(directory)))
    return None if found is None else found.cluster_id


def test_a_node_alone_gets_a_new_cluster_and_info_tells_it(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["storage", "format", "--config", str(config), "--standalone"]) == 0
    told = capsys.readouterr().out.splitlines()[-1]
    cluster = cluster_of(config.parent / "a")
    assert cluster is not None
    assert told == f"cluster id: {cluster}"
    assert len(uuid_from_text(cluster)) == 16
    assert main(["storage", "info", "--config", str(config), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["path"], row["state"], row["node"], row["cluster"]) for row in rows] == [
        (f"{config.parent}/{name}", "formatted", 1, cluster) for name in ("a", "b")
    ]
    assert rows[0]["directory"] != rows[1]["directory"]


def test_a_directory_that_is_added_joins_the_cluster_of_the_others(config: Path) -> None:
    words = ["storage", "format", "--config", str(config), "--standalone"]
    whole = config.read_text()
    config.write_text(whole.replace(f",{config.parent}/b", ""))
    assert main(words) == 0
    config.write_text(whole)
    assert main([*words, "--ignore-formatted"]) == 0
    assert cluster_of(config.parent / "b") == cluster_of(config.parent / "a") is not None


def test_nodes_of_one_cluster_are_told_its_id_and_levels(config: Path) -> None:
    words = ["--no-initial-controllers", "--release-version", "4.0", "--feature", "group.version=0"]
    credential = ["--add-scram", "SCRAM-SHA-256=[name=alice,password=secret]"]
    assert main(["storage", "format", "--config", str(config), "--cluster-id", CLUSTER, *words, *credential]) == 0
    assert cluster_of(config.parent / "b") == CLUSTER
    *levels, alice = decode_snapshot((config.parent / "a" / "bootstrap.checkpoint").read_bytes()).records
    assert levels == [FeatureLevelRecord("metadata.version", 25), FeatureLevelRecord("transaction.version", 2)]
    assert isinstance(alice, UserScramCredentialRecord)


def test_info_says_what_is_missing(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (config.parent / "a").mkdir()
    assert main(["storage", "info", "--config", str(config)]) == 1
    told = capsys.readouterr().out
    assert f"{config.parent}/a  not formatted" in told
    assert f"{config.parent}/b  absent" in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["storage", "format", "--config", "none.properties", "--standalone"], "cannot read none.properties"),
        (["storage", "format", "--config", "{config}"], "--cluster-id is needed"),
        (["storage", "format", "--config", "{config}", "--cluster-id", CLUSTER], "you must specify one of"),
        (["storage", "format", "--config", "{config}", "--standalone", "--feature", "foo=1"], "Unsupported feature"),
        (["storage", "info", "--config", "none.properties"], "cannot read none.properties"),
        (["node", "--config", "none.properties"], "cannot read none.properties"),
        (["node", "--config", "{config}"], "/a belongs to no cluster yet: `moldau storage format --config "),
        (["node", "--config", "{config}", "--set", "log.dirs="], "names no log.dirs"),
        (["node", "--config", "{config}", "--set", "node.id=x"], "node.id"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence_and_nothing_is_formatted(
    config: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word.replace("{config}", str(config)) for word in words]) == 1
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert not (config.parent / "a").exists()


@pytest.mark.parametrize("words", [["storage", "info", "--config"], ["node", "--config"], ["quorum", "recover"]])
def test_a_file_of_settings_that_is_not_utf_8_is_named(
    config: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_bytes(b"node.id=\xff\n")
    assert main([*words, str(config)]) == 1
    assert capsys.readouterr().err == f"moldau: {config} is not UTF-8\n"
