"""`moldau log dump` prints a segment, its index and a checkpoint as Kafka's dump-log tool does."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.cli.main import main
from moldau.core.log.files.checkpoint import encode_leader_epochs, encode_offsets
from moldau.core.metadata.image import BrokerListener
from moldau.shell.io.disk import OsDisk
from moldau.shell.io.random import SystemRandom
from moldau.shell.node.storage_format import format_directory
from moldau.types import BrokerId, TopicPartition
from moldau.wire.protocol.codec import encode_message
from moldau.wire.protocol.consumer_protocol import assignment, subscription
from moldau.wire.protocol.messages.group_records import OffsetCommitKey, OffsetCommitValue
from moldau.wire.protocol.messages.metadata_records import FeatureLevelRecord
from moldau.wire.protocol.messages.transaction_records import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)
from moldau.wire.protocol.record_codec import encode_group_key, encode_metadata_record, encode_record_value
from moldau.wire.records.builder import build_batch
from moldau.wire.records.compression import Compression
from moldau.wire.records.control import EndTransactionMarker, build_end_transaction_batch
from tests.support.talking_process import line_of, running

SEGMENT = "00000000000000000007.log"


def dump(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> list[str]:
    assert main(["log", "dump", *words]) == code
    return capsys.readouterr().out.splitlines()


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    first = build_batch(
        [(b"k", b"v", 1000, (("h", b"1"),)), (None, b"w", 1001, ())],
        base_offset=7,
        leader_epoch=3,
        producer_id=5,
        producer_epoch=0,
        base_sequence=4,
        compression=Compression.LZ4,
    )
    marker = build_end_transaction_batch(
        EndTransactionMarker(True, 2), producer_id=5, producer_epoch=0, timestamp=1002, base_offset=9, leader_epoch=3
    )
    (tmp_path / SEGMENT).write_bytes(first + marker)
    return tmp_path / SEGMENT


def test_a_whole_new_log_directory_can_be_dumped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listener = BrokerListener("CONTROLLER", "localhost", 9093)
    disk = OsDisk(str(tmp_path))
    format_directory(disk, SystemRandom(), now_ms=1, node_id=BrokerId(1), controller_listener=listener)
    lines = dump(capsys, str(tmp_path), "--cluster-metadata-decoder")
    assert "KRaft bootstrap snapshot" in lines
    assert any("FEATURE_LEVEL_RECORD" in line for line in lines)


def test_batches_and_records_are_told(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = dump(capsys, str(segment), "--print-data-log")
    assert lines[1] == "Log starting offset: 7"
    assert lines[2].startswith(
        "baseOffset: 7 lastOffset: 8 count: 2 baseSequence: 4 lastSequence: 5 producerId: 5 producerEpoch: 0 "
        "partitionLeaderEpoch: 3 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty "
        "position: 0 CreateTime: 1001 size: "
    )
    assert " compresscodec: lz4 crc: " in lines[2]
    assert lines[2].endswith(" isvalid: true")
    assert lines[3:5] == [
        "| offset: 7 CreateTime: 1000 keySize: 1 valueSize: 1 sequence: 4 headerKeys: [h] key: k payload: v",
        "| offset: 8 CreateTime: 1001 keySize: -1 valueSize: 1 sequence: 5 headerKeys: [] payload: w",
    ]
    assert lines[6].endswith("endTxnMarker: COMMIT coordinatorEpoch: 2")
    assert len(dump(capsys, str(segment))) == 4
    assert len(dump(capsys, str(segment), "--max-bytes", "1")) == 2
    assert [line[:9] for line in dump(capsys, str(segment), "--deep-iteration")[3:6]] == ["| offset:"] * 2 + [
        "baseOffse"
    ]


def test_a_damaged_batch_and_a_cut_end_are_seen(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(segment.read_bytes())
    data[70] ^= 0xFF
    segment.write_bytes(data[:-5])
    lines = dump(capsys, str(segment))
    assert lines[2].endswith(" isvalid: false")
    assert lines[-1].endswith("invalid bytes at the end of the file")


def test_the_brokers_own_records_are_decoded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = encode_group_key(OffsetCommitKey(group="g", topic="t", partition=1))
    value = encode_record_value(OffsetCommitValue(offset=9, leader_epoch=2, metadata="", commit_timestamp=3), 3)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(build_batch([(key, value, 1, ()), (key, None, 2, ())]))
    lines = dump(capsys, str(path), "--offsets-decoder")
    told = '{"type":"1","data":{"group":"g","topic":"t","partition":1}}'
    data = '{"version":"3","data":{"offset":9,"leaderEpoch":2,"metadata":"","commitTimestamp":3}}'
    assert lines[3].endswith(f"headerKeys: [] key: {told} payload: {data}")
    assert lines[4].endswith(f"headerKeys: [] key: {told} payload: <DELETE>")
    path.write_bytes(build_batch([(None, encode_metadata_record(FeatureLevelRecord("f", 1), 0), 1, ())]))
    lines = dump(capsys, str(path), "--cluster-metadata-decoder")
    assert lines[3].endswith(
        'payload: {"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"f","featureLevel":1}}'
    )


def test_the_state_of_transactions_is_decoded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = (0).to_bytes(2, "big") + encode_message(TransactionLogKey("copier"), 0)
    parts = (TransactionPartitions("t", (0, 2)),)
    stood = TransactionLogValue(7, 6, -1, 3, -1, 60_000, 1, parts, 1_001, 1_000, 2)
    values = [(version).to_bytes(2, "big") + encode_message(stood, version) for version in (0, 1)]
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(build_batch([(key, values[0], 1, ()), (key, values[1], 2, ()), (key, None, 3, ())]))
    lines = dump(capsys, str(path), "--transaction-log-decoder", "--skip-record-metadata")
    told = '| key: {"type":"0","data":{"transactionalId":"copier"}} payload: '
    begin = '"producerId":7,%s"producerEpoch":3,"transactionTimeoutMs":60000,"transactionStatus":"Ongoing",'
    partitions = '"transactionPartitions":[{"topic":"t","partitionIds":[0,2]}],'
    times = '"transactionLastUpdateTimestampMs":1001,"transactionStartTimestampMs":1000'
    data = f'{{"version":"0","data":{{{begin % ""}{partitions}{times}}}}}'
    tagged = begin % '"previousProducerId":6,'
    newer = f'{{"version":"1","data":{{{tagged}{partitions}{times},"clientTransactionVersion":2}}}}'
    assert lines[3:] == [told + data, told + newer, told + "<DELETE>"]


def test_an_index_is_compared_with_its_segment(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = segment.with_suffix(".index")
    second = int.from_bytes(segment.read_bytes()[8:12], "big") + 12
    index.write_bytes(struct.pack(">iiii", 1, 0, 2, second) + bytes(16))
    assert dump(capsys, str(index))[1:] == ["offset: 8 position: 0", f"offset: 9 position: {second}"]
    index.write_bytes(struct.pack(">iiii", 1, 0, 5, second))
    assert main(["log", "dump", str(index)]) == 1
    assert "Index offset: 12, log offset: 9" in capsys.readouterr().err


def test_checkpoints_and_folders_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_bytes(encode_leader_epochs([(0, 0), (3, 12)]))
    (tmp_path / "recovery-point-offset-checkpoint").write_bytes(encode_offsets({TopicPartition("t", 1): 5}))
    assert dump(capsys, str(tmp_path)) == [
        f"Dumping {tmp_path}/leader-epoch-checkpoint",
        "epoch: 0 startOffset: 0",
        "epoch: 3 startOffset: 12",
        f"Dumping {tmp_path}/recovery-point-offset-checkpoint",
        "partition: t-1 offset: 5",
    ]


def test_what_is_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "dump", str(tmp_path / "none.log")]) == 1
    assert "there is no file" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_is_no_problem_of_the_file(segment: Path) -> None:
    with segment.open("ab") as file:  # more than fits into a pipe
        file.write(segment.read_bytes() * 3000)
    command = [sys.executable, "-m", "moldau.cli.main", "log", "dump", "--print-data-log", str(segment)]
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert line_of(process.stdout) == f"Dumping {segment}\n"
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(60) == 0


def test_what_members_of_a_group_told_each_other_is_read() -> None:
    data = bytes.fromhex("0003 00000001 0001 61 ffffffff 00000001 0001 61 00000001 00000002 00000007 0001 72")
    assert subscription(data) == {
        "topics": ["a"],
        "userData": None,
        "ownedPartitions": [{"topic": "a", "partitions": [2]}],
        "generationId": 7,
        "rackId": "r",
    }
    given = bytes.fromhex("0000 00000001 0001 61 00000002 00000000 00000001 00000001 ff")
    assert assignment(given) == {"assignedPartitions": [{"topic": "a", "partitions": [0, 1]}], "userData": "/w=="}
    for cut in range(len(data)):
        with pytest.raises(ValueError):
            subscription(data[:cut])


def test_a_segment_on_standard_input_is_dumped(
    segment: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from_file = dump(capsys, str(segment), "--print-data-log")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(segment.read_bytes())))
    assert dump(capsys, "-", "--print-data-log") == ["Dumping standard input", *from_file[2:]]
