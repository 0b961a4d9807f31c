"""Writes docs/reference/metrics.md from the tables: `python -m moldau.shell.node.metrics.reference_page`."""

from __future__ import annotations

import sys

from moldau.shell.node.metrics.absent import ABSENT
from moldau.shell.node.metrics.table import TABLE

_HEAD = """# Metrics

`moldau up` serves them at `http://127.0.0.1:9644/metrics` (Prometheus' text); `--set moldau.http.listener=HOST:PORT`
puts them elsewhere. Names are those that JMX exporters make of Apache Kafka's metrics, so boards and alerts for Kafka
work as they are; `kafka_consumergroup_*` and `kafka_topic_*` are kafka_exporter's, computed in the broker itself;
`redpanda_*` are aliases; `moldau_*` are our own: each bound with its limit, and how late the loop is.

Partitions are listed one by one up to `moldau.metric.partitions` (1,000), and so are topics, groups and the offsets of
groups; sums count all of them. `moldau_listed_partitions` says how many are listed. A scrape works in slices between
which clients are served.

Written by `python -m moldau.shell.node.metrics.reference_page` from the table that `/metrics` itself is made by.

| metric | kind | labels | meaning | where the value comes from |
|---|---|---|---|---|
"""

_ABSENT = """
## What Apache Kafka has and this node has not

| type in JMX | attributes | why |
|---|---|---|
"""


def reference_page() -> str:
    """The text of docs/reference/metrics.md, from the tables."""
    rows = [f"| `{row.name}` | {row.kind} | {', '.join(row.labels)} | {row.help} | {row.source} |\n" for row in TABLE]
    absent = [f"| {name} | {attributes or 'all'} | {reason} |\n" for name, attributes, reason in ABSENT]
    return "".join([_HEAD, *rows, _ABSENT, *absent])


if __name__ == "__main__":
    sys.stdout.write(reference_page())
