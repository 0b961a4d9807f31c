"""`moldau pipeline warm-up`: makes the class cache with which Spark starts faster (`class_cache`).

A pipeline with a window, a table of files and a topic runs once, over a broker in this process, in a JVM that records
the classes that it loads. The JVM writes the file after the pipeline has ended, so the file gets its final name when
the JVM has ended.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from moldau.cli.arguments import Subparsers
from moldau.cli.pipelines.pipeline_files import exit_code_of
from moldau.errors import MoldauError

RUN_SECONDS = 300.0
JVM_ENDS_WITHIN_SECONDS = 300.0
ORDERS = 2_000
SPEC = """
name: warm-up
bootstrap_servers: ${SERVERS}
checkpoint: "${FOLDER}/checkpoint"
sources:
  orders:
    topic: orders
    format: json
    schema: user string, amount double, at timestamp
    event_time: at
    watermark: 10 seconds
flows:
  big: select user, amount, at from orders where amount >= 50
  minutes: select user, window.start as start, count(*) as n from big group by user, window(at, '1 minute')
targets:
  lake: {from: big, path: "${FOLDER}/lake"}
  minutes: {topic: minutes, key: user, mode: append}
"""


class WarmUpError(MoldauError):
    """The file was not made; the message holds the output of the run."""


def add_verb(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    warm_up = verbs.add_parser(
        "warm-up",
        help="make Spark start faster on this machine, by a file of 200 MB in the cache directory",
        description="Runs a small pipeline once, and keeps what the JVM has made of Spark's classes. Every command "
        "that starts Spark on this machine uses the file from then on. Takes about a minute, and is to be run again "
        "after an update, or a new installation, of Java or of Spark.",
        examples=("moldau pipeline warm-up",),
    )
    warm_up.set_defaults(run=lambda _: exit_code_of(warm_up_spark))


def warm_up_spark() -> int:
    """Raises SparkStartError, WarmUpError."""
    from moldau.spark.session.class_cache import class_cache, noting, of_installations_before
    from moldau.spark.session.java import find_java

    java = find_java()
    file = class_cache(java)
    if file.is_file():
        print(f"{file} is there already: Spark starts from it")
        return 0
    print("runs a small pipeline, and writes down what Spark loads: about a minute", flush=True)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=file.parent, prefix="warm-up-") as name:
        made = Path(name) / file.name
        said = _run_spec(Path(name), noting(java, made))
        if not made.is_file():
            raise WarmUpError(f"the JVM of {java.home} wrote no {made.name}: {said}")
        made.replace(file)
    for other in of_installations_before(file):
        other.unlink(missing_ok=True)
    print(f"{file} ({file.stat().st_size / 1e6:.0f} MB): Spark starts from it")
    return 0


def _run_spec(folder: Path, java_options: str) -> str:
    """Waits until the JVM has ended; returns the output."""
    from moldau.testing import Cluster

    spec = folder / "warm-up.yaml"
    spec.write_text(SPEC)
    with Cluster() as cluster:
        for topic in ("orders", "minutes"):
            cluster.create_topic(topic)
        cluster.produce("orders", *(_order(number) for number in range(ORDERS)))
        words = [sys.executable, "-m", "moldau.cli.main", "pipeline", "run", str(spec), "--once"]
        words += ["--set", f"SERVERS={cluster.bootstrap_servers}", "--set", f"FOLDER={folder}"]
        words += ["--spark", f"spark.driver.extraJavaOptions={java_options}"]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise WarmUpError(f"the pipeline did not end within {RUN_SECONDS:.0f} s") from error
    _wait_for_jvm(folder)
    log = folder / "checkpoint" / "driver.log"
    said = done.stdout + done.stderr + (log.read_text("utf-8", "replace") if log.is_file() else "")
    last_words = said.strip()[-2_000:]
    if done.returncode:
        raise WarmUpError(f"the pipeline failed: {last_words}")
    return last_words


def _order(number: int) -> str:
    at = f"2026-01-01T00:{number // 60 % 60:02}:{number % 60:02}Z"
    return f'{{"user": "user-{number % 10}", "amount": {number % 100}, "at": "{at}"}}'


def _wait_for_jvm(folder: Path) -> None:
    """Waits until the JVM has ended, which it does a moment after its pipeline. `folder`: of the run."""
    from moldau.products.pipelines.checkpoints.lease import wait_for_last_writer

    wait_for_last_writer(folder / "checkpoint" / "lake", JVM_ENDS_WITHIN_SECONDS)
