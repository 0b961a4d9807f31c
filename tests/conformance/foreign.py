"""`python -m tests.conformance.foreign` (`make clients`): the conformance tests with clients in other languages.

A run against Moldau that passes records its commit in foreign_run.json. `--changed` (in CI) runs the tests only if that
commit is unknown, or if a file that can affect these clients has changed since.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.peers import CACHE, PeerError, fetch_connect_client, fetch_kafka
from tests.conformance.clients import FOREIGN_CLIENTS
from tests.support.recorded_runs import RecordedRun

RECORDED = RecordedRun(
    Path(__file__).with_name("foreign_run.json"),
    (
        *(f"src/moldau/{folder}" for folder in ("wire", "core", "transport", "shell", "client", "testing")),
        "src/moldau/products/connect/rest",
        "pyproject.toml",
        "tests/conformance",
    ),
    ("tests/conformance/foreign_run.json", "tests/conformance/results/"),
)
"""`testing` starts the broker, `rest` answers kafka-connect-client."""
FETCHES = 3
RUN_TIMEOUT_S = 1_800
WITH_A_LOGIN = tuple(
    f"tests/conformance/{name}"
    for name in (
        "test_records.py",
        "test_transactions.py",
        "test_secured.py",
        "test_groups.py::test_a_group_resumes_where_it_committed",
    )
)
"""Tests that run a second time, on SASL_SSL with ACLs; `pytest --secured tests/conformance` runs all of them so."""


def fetch() -> None:
    """Fetches and builds the clients: no test waits for a registry."""
    os.environ["MOLDAU_KAFKA_LIBS"] = str(fetch_kafka(CACHE))
    fetch_connect_client(CACHE)
    for name, kind in FOREIGN_CLIENTS.items():
        kind.command()
        print(f"{name} {kind.version()}", flush=True)


def fetch_patiently() -> None:
    """As `fetch`, with up to FETCHES attempts in all if a registry fails."""
    for attempt in range(1, FETCHES + 1):
        try:
            fetch()
            return
        except (PeerError, subprocess.SubprocessError, OSError):
            if attempt == FETCHES:
                raise


def main() -> int:
    """The exit code of pytest; 0 if no test needs to run."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.foreign", description=__doc__)
    parser.add_argument("--changed", action="store_true", help="only if these clients can notice a change")
    parser.add_argument("--against", default="moldau", help="moldau (default), or HOST:PORT of a running cluster")
    options = parser.parse_args()
    names = ", ".join(FOREIGN_CLIENTS)
    if options.changed:
        reason = RECORDED.reason_to_run()
        if not reason:
            print(f"left out: {names}: they passed at {RECORDED.commit[:8]}; nothing that they can notice has changed")
            return 0
        print(f"{names}: {reason}", flush=True)
    fetch_patiently()
    commit = RECORDED.clean_commit()
    command = [sys.executable, "-m", "pytest", "-m", "foreign"]
    run = [*command, "--against", options.against, "tests/conformance"]
    code = subprocess.run(run, check=False, timeout=RUN_TIMEOUT_S).returncode
    if code == 0 and options.against == "moldau":
        code = subprocess.run([*command, "--secured", *WITH_A_LOGIN], check=False, timeout=RUN_TIMEOUT_S).returncode
    if code == 0 and options.against == "moldau":
        RECORDED.record(commit)
    return code


if __name__ == "__main__":
    sys.exit(main())
