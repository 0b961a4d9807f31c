"""Spark's own Python worker daemon, with what our tasks import already imported.

Each worker is a fork of the daemon: imported here once (0.3 s), it is there in every fork at once.
"""

from __future__ import annotations

import gc

import numpy
import pyarrow
from pyspark import daemon

import moldau.columnar
import moldau.spark.source

PRELOADED = (numpy, pyarrow, moldau.columnar, moldau.spark.source)

if __name__ == "__main__":
    # Workers collect garbage after each task; what was imported here is none, and need not be looked at each time.
    gc.freeze()
    daemon.manager()
