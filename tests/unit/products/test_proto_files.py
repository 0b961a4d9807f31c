"""Texts of `.proto` files with names that a client chose."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st

from moldau.products.brought_protos import brought_protos
from moldau.products.proto_files import LONGEST_NAME, MAIN, ProtoError, compile_protos

EMPTY = 'syntax = "proto3";'
NAMES = st.text(st.sampled_from(["a", "/", ".", "\0", "\n", "\\", '"', "-", "=", ":", "é", "\ud800"]), max_size=6)


@pytest.mark.parametrize(
    "name", ["", ".", "/a", "a//b", "../a", "a/../b", "a\0b", "\ud800", "a" * (LONGEST_NAME + 1), "é" * LONGEST_NAME]
)
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    with pytest.raises(ProtoError):
        compile_protos({name: EMPTY, MAIN: EMPTY}, MAIN)


@pytest.mark.parametrize("name", ["schema.proto", "descriptors", "-I", "a:b=c", "a b/é\n.proto", "a" * LONGEST_NAME])
def test_any_other_name_can_be_imported(name: str) -> None:
    importing = f"{EMPTY} import {json.dumps(name, ensure_ascii=False)};"
    assert len(compile_protos({name: EMPTY, MAIN: importing}, MAIN)) == 2


@given(st.dictionaries(NAMES, st.just(EMPTY), max_size=3))
def test_names_of_any_characters_are_compiled_or_refused(texts: dict[str, str]) -> None:
    with suppress(ProtoError):
        compile_protos({**texts, MAIN: EMPTY}, MAIN)


@pytest.mark.parametrize("name", sorted(brought_protos()))
def test_types_that_registries_bring_can_be_imported(name: str) -> None:
    found = compile_protos({MAIN: f'{EMPTY} import "{name}";'}, MAIN)
    assert name in {FileDescriptorProto.FromString(file).name for file in found}


def test_a_text_takes_the_place_of_what_registries_bring() -> None:
    money, main = f"{EMPTY} message Mine {{}}", f'{EMPTY} import "google/type/money.proto"; message M {{ Mine m = 1; }}'
    assert len(compile_protos({"google/type/money.proto": money, MAIN: main}, MAIN)) == 2


def test_one_name_is_not_a_file_and_a_folder() -> None:
    for names in (("a", "a/b"), ("a/b", "a")):
        with pytest.raises(ProtoError, match="a file and of a folder"):
            compile_protos({**dict.fromkeys(names, EMPTY), MAIN: EMPTY}, MAIN)


def test_a_text_of_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(ProtoError, match="has a character"):
        compile_protos({MAIN: "\ud800"}, MAIN)
