"""The chain of transforms: its settings, its errors by setting, predicates, and transforms in Python."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from moldau.connect.configuration import ConfigError
from moldau.connect.converting.converter import DataError
from moldau.connect.data.record import Header, Record
from moldau.connect.transforming.chain import alias_errors, chain_of, check_chain, settings_of

HOISTED = {"transforms": "h", "transforms.h.type": "HoistField$Value", "transforms.h.field": "f"}


def errors_of(config: dict[str, str]) -> dict[str, tuple[str, ...]]:
    with pytest.raises(ConfigError) as raised:
        chain_of(config)
    return dict(raised.value.errors)


def test_transforms_run_in_their_order() -> None:
    config = {
        "transforms": "hoist, route",
        "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.hoist.field": "f",
        "transforms.route.type": "RegexRouter",
        "transforms.route.regex": "(.*)",
        "transforms.route.replacement": "$1-new",
    }
    record = Record("t", 5, headers=(Header("h", None, 1),))
    assert chain_of(config).apply(record) == Record("t-new", {"f": 5}, headers=(Header("h", None, 1),))
    assert record.topic == "t"


def test_an_empty_chain_keeps_the_record() -> None:
    record = Record("t", 5)
    assert chain_of({"name": "c"}).apply(record) is record


@pytest.mark.parametrize(("negate", "left"), [("false", ["a"]), ("true", ["b"])])
def test_a_predicate_decides(negate: str, left: list[str]) -> None:
    config = {
        "transforms": "drop",
        "transforms.drop.type": "Filter",
        "transforms.drop.predicate": "is_b",
        "transforms.drop.negate": negate,
        "predicates": "is_b",
        "predicates.is_b.type": "TopicNameMatches",
        "predicates.is_b.pattern": "b",
    }
    chain = chain_of(config)
    kept = [chain.apply(Record(topic, 1)) for topic in ("a", "b")]
    assert [record.topic for record in kept if record is not None] == left


def test_a_filtered_record_ends_the_chain() -> None:
    config = {"transforms": "drop,h", "transforms.drop.type": "Filter"} | {
        name: text for name, text in HOISTED.items() if name != "transforms"
    }
    assert chain_of(config).apply(Record("t", 1)) is None


@pytest.mark.parametrize(
    ("config", "setting", "words"),
    [
        ({"transforms": "a,a"}, "transforms", "Duplicate alias"),
        ({"transforms": "a,"}, "transforms", "An alias is empty"),
        ({"transforms": "a"}, "transforms.a.type", "Missing required configuration"),
        ({"transforms": "a", "transforms.a.type": "Cast"}, "transforms.a.type", "Cast$Key or Cast$Value?"),
        ({"transforms": "a", "transforms.a.type": "RegexRuter"}, "transforms.a.type", "Did you mean RegexRouter?"),
        ({"transforms": "a", "transforms.a.type": "hoistfield$value"}, "transforms.a.type", "HoistField$Value?"),
        ({"transforms": "a", "transforms.a.type": "no.such:f"}, "transforms.a.type", "cannot be imported"),
        ({"transforms": "a", "transforms.a.type": "json:lods"}, "transforms.a.type", "Did you mean loads?"),
        (HOISTED | {"transforms.h.fild": "x"}, "transforms.h.fild", "did you mean 'transforms.h.field'?"),
        (HOISTED | {"transforms.h.predicate": "p"}, "transforms.h.predicate", "not in 'predicates'"),
        (HOISTED | {"transforms.h.negate": "true"}, "transforms.h.negate", "no config 'transforms.h.predicate'"),
        (HOISTED | {"transforms.h.negate": "x"}, "transforms.h.negate", "either true or false"),
        ({"predicates": "p", "predicates.p.type": "HasHeader"}, "predicates.p.type", "HasHeaderKey?"),
        ({"predicates": "p", "predicates.p.type": "HasHeaderKey"}, "predicates.p.name", "Missing required"),
    ],
)
def test_errors_name_the_setting(config: dict[str, str], setting: str, words: str) -> None:
    errors = errors_of(config)
    assert words in " ".join(errors[setting])


def test_all_errors_come_at_once() -> None:
    config = {"transforms": "a,b", "transforms.a.type": "Cast$Value", "transforms.b.type": "Nope"}
    assert set(errors_of(config)) == {"transforms.a.spec", "transforms.b.type"}
    assert {one.setting.name for one in check_chain(config) if one.errors} == {"transforms.a.spec", "transforms.b.type"}
    assert set(alias_errors({"transforms": "a,a"})) == {"transforms"}


@pytest.mark.parametrize(
    ("kind", "more", "setting"),
    [
        ("RegexRouter", {"regex": "a", "replacement": "$1"}, "replacement"),
        ("RegexRouter", {"regex": "a[b&&c]", "replacement": ""}, "regex"),
        ("RegexRouter", {"regex": "\\p{IsGreek}", "replacement": ""}, "regex"),
        ("TimestampRouter", {"timestamp.format": "YYYY"}, "timestamp.format"),
        ("TimestampConverter$Value", {"target.type": "string"}, "format"),
        ("HeaderFrom$Value", {"fields": "a,b", "headers": "a", "operation": "copy"}, "headers"),
        ("ExtractField$Value", {"field": "`a", "field.syntax.version": "V2"}, "field"),
    ],
)
def test_errors_that_a_transform_finds_name_its_setting(kind: str, more: dict[str, str], setting: str) -> None:
    config = {"transforms": "x", "transforms.x.type": kind} | {
        f"transforms.x.{key}": text for key, text in more.items()
    }
    assert set(errors_of(config | {"transforms": "x"})) == {f"transforms.x.{setting}"}


def test_settings_stand_in_kafkas_order() -> None:
    config = {
        "transforms": "b",
        "transforms.b.type": "Cast$Value",
        "predicates": "p",
        "predicates.p.type": "HasHeaderKey",
    }
    settings = settings_of(config)
    assert [one.name.rpartition("b.")[2] for one in settings[:5]] == [
        "type",
        "spec",
        "negate",
        "predicate",
        "replace.null.with.default",
    ]
    assert [one.order for one in settings] == [0, 1, 2, 3, 4, 0, 1]
    assert {one.group for one in settings} == {"Transforms: b", "Predicates: p"}
    offered = settings[3].recommended
    assert offered is not None
    assert offered(config) == ["p"]


def test_a_transform_in_python(tmp_path: Path) -> None:
    module = tmp_path / "shop_transforms.py"
    module.write_text(
        "from dataclasses import replace\n"
        "def doubled(record):\n    return None if record.value is None else replace(record, value=record.value * 2)\n"
        "def broken(record):\n    return record.value\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        chain = chain_of({"transforms": "d", "transforms.d.type": "shop_transforms:doubled"})
        assert chain.apply(Record("t", 21)) == Record("t", 42)
        assert chain.apply(Record("t", None)) is None
        broken = chain_of({"transforms": "d", "transforms.d.type": "shop_transforms:broken"})
        with pytest.raises(DataError, match="returned int, expected a Record or None"):
            broken.apply(Record("t", 1))
        with pytest.raises(ConfigError, match=r"Unknown configuration 'transforms\.d\.x'"):
            chain_of({"transforms": "d", "transforms.d.type": "shop_transforms:doubled", "transforms.d.x": "1"})
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("shop_transforms", None)
