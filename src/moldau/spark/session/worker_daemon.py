"""Spark's Python worker daemon, with the imports of our tasks already done.

Each worker is a fork of the daemon: imported here once (1 s), it is there in every fork at once.
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

# `encodings.idna`: the first connection by a name imports it
PRELOADED = (encodings.idna, numpy, pyarrow, moldau.columnar, moldau.spark.source.reading, moldau.spark.source.source)

# The first array of numpy's makes pyarrow import pandas, which takes half a second in each worker otherwise.
pyarrow.array(numpy.zeros(1))

if __name__ == "__main__":
    # Workers collect garbage after each task; what was imported here is none, and need not be looked at each time.
    gc.freeze()
    daemon.manager()
