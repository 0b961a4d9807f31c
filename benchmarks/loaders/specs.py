"""The waits of a pipeline author: `moldau pipeline check`, `test`, and the first rows of the first pipeline file."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.loaders.produce import create_topic
from benchmarks.loaders.tasks import rows_of_file, spec_environment
from benchmarks.peers import Peer, PeerError

FLOWS, CASES = 20, 10
FIRST_ROWS_WITHIN_S = 120.0
HEAD = """
name: {name}
bootstrap_servers: 127.0.0.1:9092
sources:
  orders:
    {{topic: orders, format: json, schema: "user string, amount double, at timestamp", event_time: at,
     watermark: 10 seconds}}
flows:
"""
MINUTES = "select window.start as minute, user, sum(amount) as amount from {} group by window(at, '1 minute'), user"
CASE = """
  flow {number}:
    given:
      orders:
        - {{user: ann, amount: 20{number}, at: 2026-01-01T00:00:05Z}}
        - {{user: bob, amount: 5}}
    expect: {{big: [{{user: ann, amount: 20{number}}}]}}
  target {number}:
    given:
      orders:
        - {{user: ann, amount: 20{number}, at: 2026-01-01T00:00:05Z}}
        - {{user: bob, amount: 500, at: 2026-01-01T00:03:05Z}}
    expect: {{per_minute: [{{user: ann, amount: 20{number}}}]}}
"""


def spec_of_flows() -> str:
    """Half of the flows filter, the other half count the records that pass."""
    halves = range(FLOWS // 2)
    filters = (f"  large{number}: select user, amount, at from orders where amount > {number}" for number in halves)
    sums = (f"  sums{number}: {MINUTES.format(f'large{number}')}" for number in halves)
    targets = (f"  sums{number}: {{path: out/{number}}}" for number in halves)
    return "\n".join((HEAD.format(name="flows").rstrip(), *filters, *sums, "targets:", *targets))


def spec_of_cases() -> str:
    flows = ("  big: select * from orders where amount > 100", f"  per_minute: {MINUTES.format('big')}")
    targets = ("  lake: {from: big, path: out/big}", "  per_minute: {topic: orders-per-minute, key: user}")
    cases = (CASE.format(number=number).strip("\n") for number in range(CASES // 2))
    return "\n".join((HEAD.format(name="cases").rstrip(), *flows, "targets:", *targets, "tests:", *cases))


def measure(peer: Peer, folder: Path, python: str) -> dict[str, float]:
    """Seconds, each from the start of a command. `check_s`: a pipeline file of 20 flows. `test_cold_s`: ten cases;
    `test_warm_s`: ten more in the same session. `first_rows_s`: `init`, `plan` and `run` of the first pipeline file,
    until rows can be read. Raises PeerError if a command fails."""
    folder.mkdir(parents=True)
    (folder / "flows.yaml").write_text(spec_of_flows())
    (folder / "cases.yaml").write_text(spec_of_cases())
    command = (python, "-m", "moldau.cli.main", "pipeline")
    _seconds(command, folder, "check", "flows.yaml")  # compiles the modules of a fresh checkout
    check_s = _seconds(command, folder, "check", "flows.yaml")
    cold_s, warm_s = _test_seconds(command, folder)
    return {
        "check_s": check_s,
        "test_cold_s": cold_s,
        "test_warm_s": warm_s,
        "first_rows_s": _first_rows_seconds(command, folder, peer),
    }


def _seconds(command: tuple[str, ...], folder: Path, *words: str) -> float:
    begin = time.perf_counter()
    words = (*command, *words)
    done = subprocess.run(words, cwd=folder, env=spec_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise PeerError(f"{' '.join(words)}: exit {done.returncode}: {done.stdout}{done.stderr}")
    return time.perf_counter() - begin


def _test_seconds(command: tuple[str, ...], folder: Path) -> tuple[float, float]:
    """Of a cold session, and of the same cases again in that session."""
    begin = time.perf_counter()
    words = (*command, "test", "cases.yaml", "cases.yaml")
    with subprocess.Popen(words, cwd=folder, env=spec_environment(), stdout=subprocess.PIPE, text=True) as process:
        passed_at = [time.perf_counter() - begin for line in process.stdout or () if ": passed (" in line]
    if len(passed_at) != 2 * CASES:
        raise PeerError(f"{len(passed_at)} of {2 * CASES} cases passed")
    return passed_at[CASES - 1], passed_at[-1] - passed_at[CASES - 1]


def _first_rows_seconds(command: tuple[str, ...], folder: Path, peer: Peer) -> float:
    took = _seconds(command, folder, "init", "first.yaml")
    spec = folder / "first.yaml"
    spec.write_text(spec.read_text().replace("127.0.0.1:9092", peer.bootstrap_servers))
    create_topic(peer, "spenders")
    create_topic(peer, "orders")
    producer = Producer({"bootstrap.servers": peer.bootstrap_servers, "log_level": 0})
    for number in range(1_000):
        producer.produce("orders", json.dumps({"user": f"user-{number % 10}", "amount": number}))
    if producer.flush(60):
        raise PeerError("records were not acknowledged")
    took += _seconds(command, folder, "plan", "first.yaml")
    begin = time.perf_counter()
    with (folder / "output.txt").open("wb") as output:
        words = (*command, "run", "first.yaml")
        process = subprocess.Popen(words, cwd=folder, env=spec_environment(), stdout=output, stderr=output)
    try:
        while not any(map(rows_of_file, (folder / "out" / "big").glob("*.parquet"))):
            if process.poll() is not None or time.perf_counter() - begin > FIRST_ROWS_WITHIN_S:
                raise PeerError(f"no rows: {(folder / 'output.txt').read_text(errors='replace')}")
            time.sleep(0.02)
        return took + time.perf_counter() - begin
    finally:
        process.terminate()
        process.wait(timeout=60)
