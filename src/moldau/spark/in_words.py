"""Errors of ours as Spark tells them to people: the sentence, and not the trace of Python above it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from moldau.errors import MoldauError

HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
"""By which pyspark's worker leaves the trace out of what it tells the JVM."""


@contextmanager
def in_words() -> Iterator[None]:
    """Around what Spark calls in a Python process of its own; as a decorator too. Any other error keeps its trace: it
    is a mistake of ours, or of the functions of a user. The process ends after the error."""
    try:
        yield
    except MoldauError:
        os.environ[HIDE_TRACEBACK] = "1"
        raise
