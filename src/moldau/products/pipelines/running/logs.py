"""Sends logs to a file while Spark runs, to keep the terminal readable."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moldau.spark import spark_loggers


@contextmanager
def logs_to(path: Path) -> Iterator[None]:
    """Appends the output of Python's loggers to this file instead of the terminal; restores the loggers afterwards.

    Includes the root logger, because the bridge to Spark's JVM uses it when the JVM ends.
    """
    handler = logging.FileHandler(path, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    loggers = [logging.getLogger(), logging.getLogger("moldau"), *spark_loggers()]
    before = [(logger.handlers, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.handlers, logger.propagate = [handler], False
    try:
        yield
    finally:
        for logger, (handlers, propagate) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
        handler.close()
