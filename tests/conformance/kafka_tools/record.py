"""Records the output of Kafka's own tools with Apache Kafka.

    MOLDAU_KAFKA_LIBS=... python -m tests.conformance.kafka_tools.record [CASE ...]

Without a case it records all. Tests without Java compare with the recorded file.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.conformance.kafka_tools.cases import CASES
from tests.conformance.kafka_tools.runner import ORACLES_RELEASE, RECORDED, run_case, run_kafkas
from tests.support.apache_kafka import apache_kafka


def record(names: list[str]) -> None:
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        with apache_kafka(scratch / "node", scratch / "data", release=ORACLES_RELEASE) as servers:
            for number, name in enumerate(names):
                recorded[name] = run_case(CASES[name], run_kafkas, servers, f"rec{number:03d}", scratch / "files")
                print(name)
    kept = {name: recorded[name] for name in CASES if name in recorded}
    RECORDED.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    record(sys.argv[1:] or list(CASES))
