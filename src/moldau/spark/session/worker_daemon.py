"""Spark's Python worker daemon, with the imports of our tasks already done.

Each worker is a fork of the daemon. Modules that are imported here once (1 s) need no import in the forks.
"""

from __future__ import annotations

import encodings.idna
import gc

import numpy
import pyarrow
from pyspark import daemon

import moldau.columnar
import moldau.spark.source.reading
import moldau.spark.source.source

# `encodings.idna`: the first connection to a host name imports it
PRELOADED = (encodings.idna, numpy, pyarrow, moldau.columnar, moldau.spark.source.reading, moldau.spark.source.source)

# The first numpy array makes pyarrow import pandas, which would take half a second in each worker.
pyarrow.array(numpy.zeros(1))

if __name__ == "__main__":
    # Workers collect garbage after each task; this exempts the imported objects from it.
    gc.freeze()
    daemon.manager()
