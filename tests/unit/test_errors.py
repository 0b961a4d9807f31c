"""moldau.errors: every error in a traceback can be imported, caught and looked up."""

from __future__ import annotations

import importlib
import pickle
from pathlib import Path

import pytest

import moldau.errors
from moldau.errors import ERROR_CLASSES, ERROR_CODES, ERROR_NAMES, KafkaError, OffsetOutOfRangeError, kafka_error, roots
from moldau.errors.reference_page import errors_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "errors.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == errors_page()


@pytest.mark.parametrize("code", ERROR_CLASSES)
def test_the_name_that_a_traceback_shows_can_be_imported(code: int) -> None:
    error = kafka_error(code, "why")
    found = getattr(importlib.import_module(type(error).__module__), type(error).__qualname__)
    assert found is type(error)
    assert type(error).__module__ == "moldau.errors"
    assert type(pickle.loads(pickle.dumps(error))) is type(error)


@pytest.mark.parametrize("code", ERROR_CLASSES)
def test_the_class_is_named_after_kafkas_name(code: int) -> None:
    words = "".join(word.capitalize() for word in ERROR_NAMES[code].split("_"))
    assert ERROR_CLASSES[code].__name__ == words.removesuffix("Error") + "Error"


def test_every_code_of_kafka_has_one_class() -> None:
    assert sorted(ERROR_CLASSES) == [-1, *range(1, 137)]
    assert sorted(ERROR_NAMES) == list(range(-1, 137))
    assert ERROR_CODES["NONE"] == 0
    assert len(ERROR_CODES) == len(ERROR_NAMES)


def test_an_error_of_a_users_own_leaves_the_table_alone() -> None:
    class TooFarBack(OffsetOutOfRangeError):
        pass

    assert ERROR_CLASSES[1] is OffsetOutOfRangeError
    assert TooFarBack("x").code == 1
    assert TooFarBack.__module__ == __name__
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        raise TooFarBack


ROOTS = [made for made in vars(roots).values() if isinstance(made, type) and issubclass(made, roots.MoldauError)]


@pytest.mark.parametrize("root", ROOTS)
def test_a_traceback_shows_a_root_as_it_is_imported(root: type[Exception]) -> None:
    assert root.__module__ == "moldau.errors"
    assert getattr(moldau.errors, root.__name__) is root


def test_all_classes_are_found_by_a_star_import() -> None:
    missing = [made.__name__ for made in ERROR_CLASSES.values() if not hasattr(moldau.errors, made.__name__)]
    assert missing == []
