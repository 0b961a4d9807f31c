"""A file that is rotated when it is full."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from moldau.shell.io.rotated_file import RotatedFile
from tests.support.no_room import files_end_at

LINES = [b"%03d\n" % number for number in range(100)]


def contents(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in sorted(path.parent.iterdir())}


def test_files_are_bounded_in_size_and_number(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    file = RotatedFile(str(path), 40, 3)
    for line in LINES:
        file.append([line])
    file.append(LINES[:7])
    assert contents(path) == {
        "audit": b"".join(LINES[:7]),
        "audit.1": b"".join(LINES[90:]),
        "audit.2": b"".join(LINES[80:90]),
    }
    file.close()


def test_many_lines_at_once_are_spread_over_files(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    RotatedFile(str(path), 40, 100).append(LINES)
    assert all(len(data) <= 40 for data in contents(path).values())
    assert sorted(b"".join(contents(path).values()).splitlines(keepends=True)) == LINES


def test_a_line_that_is_longer_than_a_file_has_one_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    long = b"x" * 100 + b"\n"
    RotatedFile(str(path), 40, 9).append([LINES[0], long, LINES[1]])
    assert contents(path) == {"audit": LINES[1], "audit.1": long, "audit.2": LINES[0]}


def test_one_file_begins_again(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    RotatedFile(str(path), 40, 1).append(LINES[:11])
    assert contents(path) == {"audit": LINES[10]}


def test_a_new_start_goes_on_behind_a_line_that_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    path.write_bytes(b"000\n00")
    RotatedFile(str(path), 40, 2).append(LINES[1:2])
    assert path.read_bytes() == b"000\n00\n001\n"


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    RotatedFile(str(path), 40, 2).append(LINES[:1])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_error_is_told_and_the_next_call_opens_again(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "audit"
    file = RotatedFile(str(path), 40, 2)
    with pytest.raises(FileNotFoundError):
        file.append(LINES[:1])
    path.parent.mkdir()
    file.append(LINES[:1])
    assert path.read_bytes() == LINES[0]


def test_a_disk_without_room_cuts_one_line_and_no_later_one(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    file = RotatedFile(str(path), 1_000, 2)
    file.append(LINES[:5])
    with files_end_at(4 * 6 + 2):
        for _ in range(3):
            with pytest.raises(OSError, match="File too large"):
                file.append(LINES[5:9])
    file.append(LINES[9:11])
    assert path.read_bytes() == b"".join(LINES[:6]) + b"00\n" + b"".join(LINES[9:11])


def test_a_pipe_or_a_device_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "audit")
    with pytest.raises(OSError, match="no regular file"):
        RotatedFile(str(tmp_path / "audit"), 40, 2).append(LINES[:1])
