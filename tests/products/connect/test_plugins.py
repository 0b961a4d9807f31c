"""The process that answers questions about connectors."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from moldau.connect.plugins.answering import RequestError
from moldau.connect.plugins.answering import answer as answer_of

pytestmark = pytest.mark.usefixtures("own_module")


def answer(do: str, **more: object) -> Any:
    return json.loads(json.dumps(answer_of({"do": do, **more})))


def errors_of(config: dict[str, str]) -> dict[str, list[str]]:
    found = answer("validate", config=config)
    values = [one["value"] for one in found["configs"]]
    assert found["error_count"] == sum(len(one["errors"]) for one in values)
    return {one["name"]: one["errors"] for one in values if one["errors"]}


def test_converters_and_transforms_are_listed() -> None:
    found = {(one["class"], one["type"]) for one in answer("list")["plugins"]}
    assert ("org.apache.kafka.connect.json.JsonConverter", "converter") in found
    assert ("org.apache.kafka.connect.storage.SimpleHeaderConverter", "header_converter") in found
    assert ("org.apache.kafka.connect.transforms.Cast$Value", "transformation") in found
    assert ("org.apache.kafka.connect.transforms.predicates.HasHeaderKey", "predicate") in found


def test_a_class_is_described_with_its_settings() -> None:
    found = answer("describe", **{"class": "moldau.connectors.datagen:DataGenerator"})
    assert (found["types"], found["reading"], found["has_split"]) == (["source"], "streamReader", True)
    settings = {one["name"]: one for one in found["settings"]}
    assert settings["connector.class"]["required"]
    assert settings["seed"] == {
        "name": "seed",
        "type": "LONG",
        "required": False,
        "default_value": "0",
        "importance": "LOW",
        "documentation": "Chooses the rows. The same seed gives the same rows.",
        "group": None,
        "width": "NONE",
        "display_name": "seed",
        "dependents": [],
        "order": -1,
    }
    names = [one["name"] for one in answer("describe", **{"class": "json"})["settings"]]
    assert "schemas.enable" in names


def test_a_configuration_is_validated_with_all_its_parts() -> None:
    config = {
        "name": "a",
        "connector.class": "moldau.connectors.datagen:DataGenerator",
        "sed": "1",
        "tasks.max": "0",
        "key.converter": "json",
        "key.converter.schemas.enable": "maybe",
        "value.converter": "jsn",
        "transforms": "cast",
        "transforms.cast.type": "Csat$Value",
        "columns": "a STIRNG",
    }
    found = errors_of(config)
    assert set(found) == set(config) - {"name", "connector.class", "key.converter", "transforms"}
    assert found["sed"] == ["Unknown configuration 'sed', did you mean 'seed'?"]
    assert "Did you mean json?" in found["value.converter"][0]
    assert "Did you mean Cast$Value?" in found["transforms.cast.type"][0]
    assert "did you mean STRING?" in found["columns"][0]


def test_the_topics_of_a_sink_are_validated() -> None:
    config = {"name": "a", "connector.class": "gated:Files"}
    assert set(errors_of(config | {"topics": "a", "topics.regex": "b"})) == {"topics", "topics.regex"}
    assert set(errors_of(config)) == {"topics", "topics.regex"}
    assert errors_of(config | {"topics": "a"}) == {}
    assert "did you mean Files?" in errors_of(config | {"connector.class": "gated:File"})["connector.class"][0]


def test_a_split_says_type_and_delivery() -> None:
    config = {"connector.class": "gated:Files", "topics": "a"}
    assert answer("split", config=config, tasks=2) == {
        "configs": [config, config],
        "type": "sink",
        "delivery": "exactly-once",
    }
    assert list(answer("split", config={"connector.class": "x"}, tasks=1)["errors"]) == ["connector.class"]


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        ([], "expected an object, got list"),
        ({"do": "lst"}, "expected one of list, describe, validate, split"),
        ({"do": "describe"}, "the request lacks 'class'"),
    ],
)
def test_what_is_no_question_is_rejected(request_: object, sentence: str) -> None:
    with pytest.raises(RequestError, match=sentence):
        answer_of(request_)


def test_a_process_answers_one_question() -> None:
    command = [sys.executable, "-m", "moldau.connect.plugins"]
    found = subprocess.run(command, input='{"do": "list"}', capture_output=True, text=True, timeout=60)
    assert json.loads(found.stdout) == answer("list")
    wrong = subprocess.run(command, input="{", capture_output=True, text=True, timeout=60)
    assert (wrong.returncode, wrong.stdout, "not a request" in wrong.stderr) == (2, "", True)
