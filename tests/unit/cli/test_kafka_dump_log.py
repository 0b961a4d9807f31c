"""`kafka-dump-log` beyond the recorded output of Kafka's own tool (tests/conformance/kafka_tools/dump_cases.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.cli.main import main
from moldau.wire.records.builder import build_batch

BASE = "00000000000000000050"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    batches = [build_batch([(None, b"v%d" % offset, 1000, ())], base_offset=offset) for offset in (50, 51, 53)]
    (tmp_path / f"{BASE}.log").write_bytes(b"".join(batches))
    entry = (1).to_bytes(4, "big") + len(batches[0]).to_bytes(4, "big")
    (tmp_path / f"{BASE}.index").write_bytes(entry + bytes(20))
    (tmp_path / f"{BASE}.timeindex").write_bytes((1000).to_bytes(8, "big") + bytes(4))
    return tmp_path


def dump(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str], list[str]]:
    code = main(["kafka-dump-log", *words])
    told = capsys.readouterr()
    return code, told.out.splitlines(), told.err.splitlines()


def test_files_are_read_and_never_changed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kafka's own tool cuts the zeros from the end of an index that it has read."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for path in sorted(folder.iterdir()):
        assert dump(capsys, "--print-data-log", "--files", str(path))[0] == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_findings_of_all_files_stand_at_the_end(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = folder / f"{BASE}.index"
    index.write_bytes((7).to_bytes(4, "big") + bytes(4))
    files = f"{index},{folder / f'{BASE}.log'}"
    code, _, errors = dump(capsys, "--deep-iteration", "--files", files)
    assert code == 0
    assert errors == [
        f"Mismatches in :{index}",
        "  Index offset: 57, log offset: 50",
        f"Non-consecutive offsets in {folder / f'{BASE}.log'}",
        "  -1 is followed by 50",
        "  51 is followed by 53",
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--value-decoder-class", "com.example.Orders"), "no Java runs here"),
        (("--key-decoder-class", "org.apache.kafka.tools.api.DefaultDecoder"), "no Java runs here"),
        (("--remote-log-metadata-decoder",), "not served"),
        (("--value-decoder-class", "org.apache.kafka.tools.api.LongDecoder"), "BufferUnderflowException"),
    ],
)
def test_a_decoder_that_is_not_served_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    code, _, errors = dump(capsys, *words, "--files", str(folder / f"{BASE}.log"))
    assert code == 1
    assert sentence in errors[0]


def test_the_first_damaged_record_ends_the_dump(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    segment = folder / f"{BASE}.log"
    data = bytearray(segment.read_bytes())
    data[61:64] = b"\xff\xff\xff"
    segment.write_bytes(data)
    code, lines, errors = dump(capsys, "--deep-iteration", "--files", f"{segment},{segment}")
    assert (code, len(lines), len(errors)) == (1, 3, 1)
    assert main(["log", "dump", "--deep-iteration", str(segment)]) == 0
    assert sum("cannot be read" in line for line in capsys.readouterr().out.splitlines()) == 1
