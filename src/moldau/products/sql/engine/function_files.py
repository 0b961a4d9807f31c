"""Files of Python functions that queries may call. A statement never has Python code: only the operator's files do."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.products.sql.catalog.catalog import GivenFunction
from moldau.products.sql.language.functions.table import FUNCTIONS

if TYPE_CHECKING:
    from moldau.spark import SparkSession


def load_functions(spark: SparkSession, paths: Iterable[Path]) -> Mapping[str, GivenFunction]:
    """The functions by their names in lower case. Raises FunctionFileError."""
    from moldau.spark.definitions.python_functions import FunctionFileError, functions_of, usage_of

    found: dict[str, GivenFunction] = {}
    for path in paths:
        for name, function in functions_of(path).items():
            key = name.lower()
            if key in found:
                raise FunctionFileError(f"{path}: {name} has the name of {found[key].name} of {found[key].file}")
            if name.upper() in FUNCTIONS:
                raise FunctionFileError(f"{path}: {name} has the name of ksqlDB's function {name.upper()}")
            if spark.catalog.functionExists(name):
                raise FunctionFileError(f"{path}: {name} has the name of Spark's function {key}")
            note = inspect.getdoc(function.func) or ""
            found[key] = GivenFunction(name, str(path), usage_of(name, function), note, function)
    return found
