"""A file of an object store comes in pieces, and is passed on in whole lines."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from moldau.products.pipelines.sources.object_files import BLOCK_BYTES, LONGEST_LINE_BYTES, whole_lines


def pieces_of(content: bytes, size: int) -> Iterator[bytes]:
    file = io.BytesIO(content)
    return whole_lines(lambda: file.read(size))


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_line_may_end_anywhere_in_a_piece(end):
    text = end.join([b"a", b"", b"b" * 5, b"c"])
    for content in (text, text + end):
        for size in range(1, len(content) + 1):
            assert [line for block in pieces_of(content, size) for line in block.splitlines()] == text.splitlines()


def test_a_line_without_an_end_is_refused():
    line = b"x" * LONGEST_LINE_BYTES
    assert [len(block) for block in pieces_of(line, BLOCK_BYTES)] == [LONGEST_LINE_BYTES]
    with pytest.raises(ValueError, match="one of its lines is longer than 64 MiB"):
        list(pieces_of(line + b"x", BLOCK_BYTES))


def test_a_file_may_be_longer_than_a_line_whatever_its_lines_end_with():
    line = b"x" * 1_023 + b"\r"
    content = line * (LONGEST_LINE_BYTES // len(line) + BLOCK_BYTES // len(line))
    assert sum(map(len, pieces_of(content, BLOCK_BYTES))) == len(content)
