"""The commit metadata that a pipeline writes, and the reading of foreign commit metadata."""

from __future__ import annotations

import json

import pytest

from moldau.products.pipelines.core.commit_metadata import (
    BoardPlace,
    CommitMetadata,
    PipelineMetadata,
    metadata_of,
    other_pipelines,
    pipeline_metadata,
    read_commit_metadata,
)

NOTE = PipelineMetadata("shop.lake", "worker-7", 9700, ("shop.dead-letters",))


def test_what_is_written_is_read_and_the_newest_batch_counts() -> None:
    older = PipelineMetadata("shop.lake", "worker-3", 9701)
    metadata = [
        metadata_of(8, older.text()),
        metadata_of(9, NOTE.text()),
        metadata_of(7, older.text()),
    ]
    assert read_commit_metadata(metadata) == CommitMetadata(9, NOTE)
    assert PipelineMetadata("shop").text() == '{"pipeline":"shop"}'


def test_what_readers_would_not_take_is_not_written() -> None:
    note = pipeline_metadata("shop", "shop.lake", "a host", None, ["a", "b", "a", *map(str, range(20))])
    assert (note.host, note.dead_letters[:3], len(note.dead_letters)) == (None, ("a", "b", "0"), 16)
    assert read_commit_metadata([metadata_of(0, note.text())]).pipeline == note


def test_a_note_of_the_longest_names_is_one_that_kafkas_brokers_take() -> None:
    note = pipeline_metadata(
        "p" * 200, "p" * 301, "h" * 64, BoardPlace(65_535, True), [f"{number:0249}" for number in range(20)]
    )
    assert len(note.dead_letters) == 4
    assert len(metadata_of((1 << 63) - 1, note.text())) < 4_096


def test_a_note_says_whether_the_board_has_tls_where_it_has() -> None:
    plain, secured = (
        pipeline_metadata("shop", "shop.lake", "a", BoardPlace(9700, has_tls), ()) for has_tls in (False, True)
    )
    assert "tls" not in plain.text()  # as older releases write it
    assert read_commit_metadata([metadata_of(1, secured.text())]).pipeline == secured
    assert secured.board_tls


def test_a_pipeline_and_a_target_of_another_pipeline_may_have_one_name() -> None:
    notes = [pipeline_metadata(spec, pipeline, "a", None, ()) for spec, pipeline in (("shop", "shop.eu"), ("b", "b.c"))]
    notes.append(PipelineMetadata("shop.eu"))  # as older releases write it
    metadata = [metadata_of(7, note.text()) for note in notes]
    assert other_pipelines(metadata, "shop", "shop.eu") == ["'b.c'"]
    assert other_pipelines(metadata, "shop.eu", "shop.eu") == ["'b.c'", "'shop.eu' of the pipeline 'shop'"]


def test_the_note_of_a_sinks_own_transaction_has_its_batch() -> None:
    assert read_commit_metadata([json.dumps({"query": "a-query", "batch": 12})]) == CommitMetadata(12)
    with_note = json.dumps({"query": "a-query", "batch": 12, "note": NOTE.text()})
    assert read_commit_metadata([with_note]) == CommitMetadata(12, NOTE)


def test_a_note_that_was_copied_with_the_end_of_its_c_string_is_read() -> None:
    assert read_commit_metadata([metadata_of(3, NOTE.text()) + "\0"]) == CommitMetadata(3, NOTE)


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "no note",
        "null",
        "[]",
        "{",
        '{"batch": -1}',
        '{"batch": "7"}',
        '{"batch": 1e999}',
        '{"batch": 99999999999999999999}',
        "[" * 8_000,
        '{"a": ' + "[" * 8_000,
        "\ud800",
        '{"batch": 1}' + " " * 9_000,
    ],
)
def test_what_is_no_note_counts_as_nothing(metadata: str) -> None:
    assert read_commit_metadata([metadata]) == CommitMetadata()


@pytest.mark.parametrize(
    "note",
    [
        {},
        {"pipeline": ""},
        {"pipeline": "<b>"},
        {"pipeline": "shop\n"},
        {"pipeline": "x" * 302},
        {"pipeline": "shop", "board_port": 0},
        {"pipeline": "shop", "board_port": 65_536},
        {"pipeline": "shop", "board_port": "http://127.0.0.1/"},
        {"pipeline": "shop", "board_port": 1, "host": "evil.example/@"},
        {"pipeline": "shop", "dead_letters": ["<b>"]},
        {"pipeline": "shop", "dead_letters": ["a"] * 17},
    ],
)
def test_a_note_that_is_no_pipelines_leaves_the_batch_alone(note: dict[str, object]) -> None:
    assert read_commit_metadata([metadata_of(1, json.dumps(note))]) == CommitMetadata(1)
