"""`moldau log repair` and `moldau log strays` fix a failed start, without a loss of readable data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau.cli.main import main
from moldau.core.log.files.checkpoint import decode_offsets, encode_partition_metadata
from moldau.core.metadata.image import BrokerListener
from moldau.errors import DamagedLogError
from moldau.shell.io.disk import OsDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.node.storage_format import format_directory
from moldau.types import BrokerId, TopicPartition, Uuid
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from moldau.wire.protocol.messages.raft_records import Endpoint, VotersRecordVoter
from moldau.wire.records.batch import iterate_batches
from tests.support.node import offset_commit, produce, result_of

pytestmark = pytest.mark.asyncio

NOW_MS = 1_800_000_000_000
METADATA_LOG = "__cluster_metadata-0/00000000000000000000.log"
LOG = "t-0/00000000000000000000.log"


async def append(client: Any, count: int = 1) -> None:
    for _ in range(count):
        assert result_of(await client.ask(ApiKey.PRODUCE, 9, produce(b"v"))).error_code == 0


async def offsets(client: Any) -> list[int]:
    request = FetchRequest(
        topics=(FetchTopic(topic="t", partitions=(FetchPartition(0, partition_max_bytes=1 << 20),)),), max_bytes=1 << 20
    )
    answer = await client.ask(ApiKey.FETCH, 11, request)
    return [header.base_offset for _, header in iterate_batches(answer.responses[0].partitions[0].records)]


async def commit(client: Any, offset: int) -> None:
    answer = await client.ask(ApiKey.OFFSET_COMMIT, 8, offset_commit(offset))
    assert answer.topics[0].partitions[0].error_code == 0


async def committed(client: Any, topic: str | None) -> int:
    """The group's committed offset in t-0: of the topic of that name, or among all that are listed."""
    topics = None if topic is None else (OffsetFetchRequestTopic(topic, partition_indexes=(0,)),)
    answer = await client.ask(ApiKey.OFFSET_FETCH, 7, OffsetFetchRequest(group_id="g", topics=topics))
    assert answer.error_code == 0
    return int(answer.topics[0].partitions[0].committed_offset)


async def stopped(start_node: Any, path: Path) -> OsDisk:
    """A directory with five records in `t-0`, left by a clean stop."""
    disk = OsDisk(str(path))
    node = await start_node(disk=disk)
    await node.create_topic("t")
    await append(node.connect(), 5)
    await node.node.stop()
    return disk


def flip(path: Path, batch: int) -> int:
    """Damages one batch; gives its start."""
    data = bytearray(path.read_bytes())
    position = [position for position, _ in iterate_batches(bytes(data))][batch]
    data[position + 65] ^= 0x10
    path.write_bytes(data)
    return position


def content(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


async def test_a_whole_directory_needs_no_repair(start_node: Any, tmp_path: Path, capsys: Any) -> None:
    await stopped(start_node, tmp_path)
    before = content(tmp_path)
    for words in ((), ("--execute",)):
        assert main(["log", "repair", str(tmp_path), *words]) == 0
        assert capsys.readouterr().out == "no damage that would prevent a start\n"
    assert content(tmp_path) == before


async def test_repair_shows_what_it_would_cut_and_cuts_it_on_request(
    start_node: Any, tmp_path: Path, capsys: Any
) -> None:
    disk = await stopped(start_node, tmp_path)
    whole = (tmp_path / LOG).read_bytes()
    position = flip(tmp_path / LOG, 3)
    (tmp_path / "t-0/00000000000000000000.index").unlink()
    damaged = (tmp_path / LOG).read_bytes()
    with pytest.raises(DamagedLogError, match="offset 3"):
        await start_node(disk=disk)
    before = content(tmp_path)
    place = f"{LOG} from byte {position} on, offset 3"
    sentence = f"cut {len(whole) - position} bytes of {place}, and kept them in {LOG}.cut-3"
    lowered = "set the recovery point of t-0 to 3, where the log ends (was 5)"
    assert main(["log", "repair", str(tmp_path)]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown == [f"would have {sentence}", f"would have {lowered}", "nothing was changed: --execute does it"]
    assert content(tmp_path) == before
    assert main(["log", "repair", str(tmp_path), "--execute"]) == 0
    assert capsys.readouterr().out.splitlines() == [sentence, lowered]
    assert (tmp_path / f"{LOG}.cut-3").read_bytes() == damaged[position:]
    assert decode_offsets((tmp_path / "recovery-point-offset-checkpoint").read_bytes())[TopicPartition("t", 0)] == 3
    again = await start_node(disk=disk)
    await append(again.connect())
    assert await offsets(again.connect()) == [0, 1, 2, 3]


async def test_a_repaired_metadata_log_leaves_strays_that_can_be_adopted(
    start_node: Any, tmp_path: Path, capsys: Any
) -> None:
    disk = await stopped(start_node, tmp_path)
    flip(tmp_path / METADATA_LOG, 3)
    with pytest.raises(DamagedLogError):
        await start_node(disk=disk)
    vanished = "left topic t out of the metadata log: the next start sets t-0 aside with all records; see"
    assert main(["log", "repair", str(tmp_path)]) == 1
    assert f"would have {vanished}" in capsys.readouterr().out
    assert main(["log", "repair", str(tmp_path), "--execute"]) == 0
    shown = capsys.readouterr().out
    assert f"{METADATA_LOG}.cut-" in shown
    assert vanished in shown
    node = await start_node(disk=disk)
    await node.node.stop()
    assert main(["log", "strays", "list", str(tmp_path)]) == 0
    stray = next(word for word in capsys.readouterr().out.split() if word.startswith("t-0."))
    assert main(["log", "strays", "adopt", str(tmp_path), stray]) == 1
    assert "run `moldau topics create t --partitions 1` (or more), stop it" in capsys.readouterr().err
    node = await start_node(disk=disk)
    await node.create_topic("t")
    await node.node.stop()
    assert main(["log", "strays", "adopt", str(tmp_path), stray]) == 0
    assert capsys.readouterr().out == f"adopted {stray} as t-0\n"
    node = await start_node(disk=disk)
    await append(node.connect())
    assert await offsets(node.connect()) == [0, 1, 2, 3, 4, 5]
    assert not [name for name in disk.list_directory("") if name.endswith("-stray")]


async def test_offsets_of_an_adopted_partition_are_listed_and_count_after_a_commit(
    start_node: Any, tmp_path: Path
) -> None:
    """The topic that was created again has another id: `moldau offsets reset GROUP --shift-by 0` commits for it."""
    disk = OsDisk(str(tmp_path))
    node = await start_node(disk=disk)
    client = node.connect()
    await client.ask(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(key="g"))
    await node.create_topic("t")
    await append(client, 5)
    await commit(client, 3)
    await node.node.stop()
    metadata = (tmp_path / METADATA_LOG).read_bytes()
    batches = [metadata[position : position + header.size] for position, header in iterate_batches(metadata)]
    flip(tmp_path / METADATA_LOG, next(index for index, batch in enumerate(batches) if b"\x02t" in batch[61:]))
    assert main(["log", "repair", str(tmp_path), "--execute"]) == 0
    await (await start_node(disk=disk, seed=8)).node.stop()
    (stray,) = [name for name in disk.list_directory("") if name.startswith("t-0.")]
    node = await start_node(disk=disk, seed=9)
    await node.create_topic("t")
    await node.node.stop()
    assert main(["log", "strays", "adopt", str(tmp_path), stray]) == 0
    client = (await start_node(disk=disk, seed=10)).connect()
    assert (await committed(client, None), await committed(client, "t")) == (3, -1)
    await commit(client, 3)
    assert (await committed(client, None), await committed(client, "t")) == (3, 3)


async def test_a_damaged_quorum_state_is_put_aside(start_node: Any, tmp_path: Path, capsys: Any) -> None:
    disk = await stopped(start_node, tmp_path)
    disk.replace_file("__cluster_metadata-0/quorum-state", b"{")
    assert main(["log", "repair", str(tmp_path), "--execute"]) == 0
    assert "renamed __cluster_metadata-0/quorum-state to" in capsys.readouterr().out
    node = await start_node(disk=disk)
    assert await offsets(node.connect()) == [0, 1, 2, 3, 4]
    await append(node.connect())


@pytest.mark.parametrize("voter_ids", [(), (7, 8)], ids=["configured", "in the log"])
async def test_a_damaged_quorum_state_of_one_voter_of_several_stays_as_it_is(
    voter_ids: tuple[int, ...], tmp_path: Path, capsys: Any
) -> None:
    disk = OsDisk(str(tmp_path))
    endpoints = (Endpoint("CONTROLLER", "h", 9),)
    voters = tuple(VotersRecordVoter(each, Uuid(bytes([each]) * 16), endpoints) for each in voter_ids)
    listener = BrokerListener("CONTROLLER", "h", 9)
    format_directory(
        disk,
        SeededRandom(1),
        now_ms=NOW_MS,
        node_id=BrokerId(7),
        controller_listener=listener,
        initial_controllers=voters,
    )
    disk.replace_file("__cluster_metadata-0/quorum-state", b"{")
    before = content(tmp_path)
    assert main(["log", "repair", str(tmp_path), "--execute"]) == 1
    assert "a voter must not forget its vote: put the file back from a copy" in capsys.readouterr().err
    after = content(tmp_path)
    assert {name: data for name, data in after.items() if name in before} == before


async def test_a_stray_is_not_adopted_over_records(start_node: Any, tmp_path: Path, capsys: Any) -> None:
    disk = await stopped(start_node, tmp_path)
    stray = f"t-0.{'ab' * 16}-stray"
    disk.make_directory(stray)
    before = content(tmp_path)
    assert main(["log", "strays", "adopt", str(tmp_path), stray]) == 1
    assert f"t-0 has records of its own, which {stray} would hide" in capsys.readouterr().err
    assert content(tmp_path) == before


async def test_only_strays_are_deleted(start_node: Any, tmp_path: Path, capsys: Any) -> None:
    disk = await stopped(start_node, tmp_path)
    disk.replace_file("t-0/partition.metadata", encode_partition_metadata(Uuid(b"another topic id")))
    node = await start_node(disk=disk)
    await node.node.stop()
    [stray] = [name for name in disk.list_directory("") if name.endswith("-stray")]
    for name in ("t-0", "..", f"../{tmp_path.name}/{stray}", "no-0.x-stray"):
        assert main(["log", "strays", "delete", str(tmp_path), name]) == 1
        assert "this directory has no stray" in capsys.readouterr().err
    assert main(["log", "strays", "delete", str(tmp_path), stray]) == 0
    assert not disk.exists(stray)
    assert disk.exists("t-0/partition.metadata")


async def test_a_directory_in_use_is_not_repaired(start_node: Any, tmp_path: Path, capsys: Any) -> None:
    await start_node(disk=OsDisk(str(tmp_path)))
    assert main(["log", "repair", str(tmp_path)]) == 1
    assert "is in use by another broker" in capsys.readouterr().err


async def test_what_is_no_log_directory_is_told_so(tmp_path: Path, capsys: Any) -> None:
    for words in (("repair",), ("strays", "list")):
        assert main(["log", *words, str(tmp_path)]) == 1
        assert "is no log directory" in capsys.readouterr().err
    assert content(tmp_path) == {}
