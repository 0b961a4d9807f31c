"""The keys of a pipeline file that belong to no source, target or format."""

from __future__ import annotations

from moldau.client.protocol.access import FIRST_CONTACT_TIMEOUT_MS, RETRY_TIMEOUT_MS
from moldau.products.pipelines.core.commit_metadata import GROUP_PREFIX
from moldau.products.pipelines.core.keys import Interval, LocalPath, MappingKey, Text

NAME = Text("name", "The name of the pipeline: of its queries, group, dead-letter topic and Parquet files.")

SOURCE = MappingKey("source", "The one [source](#sources); SQL reads the view `source`.")
SQL = Text("sql", "One SELECT.")
SINK = MappingKey("sink", "The one [target](#targets).")
SHORT_FORM = (SOURCE, SQL, SINK)

SOURCES = MappingKey("sources", "The [sources](#sources), by the names of their views.")
FLOWS = MappingKey("flows", "The [flows](#flows), by the names of their views.", absent="none")
TARGETS = MappingKey("targets", "The [targets](#targets), by name.")
LONG_FORM = (SOURCES, FLOWS, TARGETS)

CHECKPOINT = LocalPath("checkpoint", "The directory of offsets and state between runs.", absent="`checkpoints/<name>`")
GROUP = Text(
    "group",
    "The consumer group that shows progress and lag; it must have no consumers.",
    absent=f"`{GROUP_PREFIX}<name>`",
)
BATCH_INTERVAL = Interval(
    "batch_interval",
    "Micro-batches start at multiples of this time; the first one, and one after a batch that took longer, at once "
    "([rates](sources.md#the-size-of-a-micro-batch)).",
    absent="a batch starts when the previous one is done",
)
FIRST_CONTACT_TIMEOUT = Interval(
    "first_contact_timeout",
    "How long to try to reach a cluster for the first time.",
    default_ms=FIRST_CONTACT_TIMEOUT_MS,
)
RETRY_TIMEOUT = Interval(
    "retry_timeout",
    "How long to try to reach a lost broker again, with a line every 10 s.",
    default_ms=RETRY_TIMEOUT_MS,
)
TESTS = MappingKey("tests", "The [tests](#tests) of the file, by name.", absent="none")
MORE_KEYS = (CHECKPOINT, GROUP, BATCH_INTERVAL, FIRST_CONTACT_TIMEOUT, RETRY_TIMEOUT, TESTS)
"""Keys of both forms."""

SQL_FILE = LocalPath("sql_file", "A file with one SELECT.")
FLOW_KEYS = (SQL, SQL_FILE)

FROM = Text(
    "from", "The flow or source whose rows go to the target; not in the short form.", absent="the target's name"
)

GIVEN = MappingKey("given", "Records of sources, by the names of their views ([tests](running.md#tests)).")
EXPECT = MappingKey("expect", "The rows of flows or targets, by name.")
CASE_KEYS = (GIVEN, EXPECT)
