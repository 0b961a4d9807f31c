"""Patterns of files: the folder that exists before the first file, and the names below it."""

from __future__ import annotations

import pytest

from moldau.products.pipelines.sources.file_patterns import fits, is_match, python_patterns, split_pattern


@pytest.mark.parametrize(
    ("pattern", "folder", "names"),
    [
        ("/in", "/in", "*"),
        ("/in/*.json", "/in", "*.json"),
        ("/in/day-?/[ab].json", "/in", "day-?/[ab].json"),
        ("/in/{a,b}/c.json", "/in", "{a,b}/c.json"),
        ("/*.json", "", "*.json"),
        ("s3://lake/in", "s3://lake/in", "*"),
        ("s3://lake/{a,b}/*", "s3://lake", "{a,b}/*"),
    ],
)
def test_a_pattern_begins_behind_the_last_folder_that_has_a_plain_name(pattern, folder, names):
    assert split_pattern(pattern) == (folder, names)


def test_braces_stand_for_one_text_or_the_other():
    assert python_patterns("a") == ["a"]
    assert python_patterns("{a,b}{c,}.json") == ["ac.json", "a.json", "bc.json", "b.json"]
    assert python_patterns("x{a,b{c,d/e}}") == ["xa", "xbc", "xa", "xbd/e"]
    assert python_patterns("a{b") == ["a{b"]


def test_python_is_given_a_caret_as_it_knows_it():
    assert python_patterns("/in/{[^a],b}.json") == ["/in/[!a].json", "/in/b.json"]


@pytest.mark.parametrize(
    ("pattern", "matches", "misses"),
    [
        ("s3://lake/in", "s3://lake/in/a", "s3://lake/in/a/b"),
        ("s3://lake/{in,out}/*.json", "s3://lake/out/a.json", "s3://lake/on/a.json"),
        ("s3://lake/{a/b,c}/*", "s3://lake/a/b/x", "s3://lake/a/x"),
        ("s3://lake/*", "s3://lake/a", "s3://lake/_a"),
        ("s3://lake/_*", "s3://lake/_a", "s3://lake/.a"),
    ],
)
def test_a_file_matches_as_on_disk(pattern, matches, misses):
    assert is_match(matches, pattern)
    assert not is_match(misses, pattern)


def test_a_caret_in_brackets_stands_for_no_such_letter_as_for_hadoop():
    assert fits("b.json", "[^a].json")
    assert not fits("a.json", "[^a].json")


def test_two_slashes_before_a_pattern_are_one():
    assert split_pattern("s3://lake/in//*.json") == ("s3://lake/in", "*.json")
    assert is_match("s3://lake/in/a_1.json", "s3://lake/in//*.json")
