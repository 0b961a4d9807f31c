"""Shows our errors in Spark as a sentence, without Python's traceback."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from moldau.errors import MoldauError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
"""The variable that makes pyspark's worker omit the traceback from its report to the JVM."""


@contextmanager
def without_trace() -> Iterator[None]:
    """A context for methods that Spark calls in a separate Python process. Omits the traceback of a MoldauError. Other
    errors keep it, because they are mistakes of ours or of a user's function. The process ends after the error."""
    try:
        yield
    except MoldauError:
        os.environ[HIDE_TRACEBACK] = "1"
        raise


def told_in_words(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function inside `without_trace`. Usable where Spark pickles the function: the context manager as a decorator
    would hold a generator."""

    @wraps(function)
    def told(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with without_trace():
            return function(*args, **kwargs)

    return told
