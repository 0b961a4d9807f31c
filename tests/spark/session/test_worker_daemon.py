"""The state of a worker after its fork. A module that a task imports first is imported again in every worker, and is
walked over by the garbage collection that Spark's daemon runs after each task."""

from __future__ import annotations

import subprocess
import sys

from moldau.testing import Cluster

READ = """
import sys
import moldau.spark.session.worker_daemon
from moldau.columnar import PartitionRange
from moldau.spark.options import parse_source_options
from moldau.spark.source.reading import read_ranges

before = set(sys.modules)
servers, topic = sys.argv[1:]
options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "includeHeaders": "true"}
options = parse_source_options(options, is_streaming=True)
assert sum(batch.num_rows for batch in read_ranges(options, [PartitionRange(topic, 0, 0, 2)])) == 2
print(*sorted(name for name in set(sys.modules) - before if not name.startswith("encodings.")))
"""


def test_a_task_that_reads_imports_nothing_that_the_daemon_has_not():
    with Cluster() as cluster:
        topic = cluster.topic()
        cluster.produce(topic, b"a", b"b", headers={"h": b"x"})
        command = [sys.executable, "-c", READ, cluster.bootstrap_servers, topic]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr) == ("", "")
