"""What an installed Moldau must do with each extra: `python smoke.py base|columnar|spark`, in a bare environment."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import moldau
from moldau.testing import Cluster


def check_command() -> None:
    """The command beside the interpreter says the version of the package."""
    command = Path(sys.executable).with_name("moldau")
    shown = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    expected = f"moldau {version('moldau')}"
    if shown != expected or moldau.__version__ != version("moldau"):
        raise SystemExit(f"`moldau --version` says {shown!r}, the package is {expected!r}")


def check_missing_extras() -> None:
    """A command whose extra is not installed says so, in a line."""
    for words in (["demo"], ["pipeline", "run", "page.yaml"], ["registry"]):
        told = subprocess.run([sys.executable, "-m", "moldau.cli.main", *words], capture_output=True, text=True).stderr
        if "pip install '.[" not in told or told.count("\n") != 1:
            raise SystemExit(f"`moldau {' '.join(words)}` without its extra says {told!r}")


def check_base(cluster: Cluster) -> None:
    if [record.value for record in cluster.records("orders")] != [b"coffee", b"tea"]:
        raise SystemExit("the records that were written are not those that are there")


def check_columnar(cluster: Cluster) -> None:
    from moldau.columnar import read_topic

    rows = sum(batch.num_rows for batch in read_topic(cluster.bootstrap_servers, "orders"))
    if rows != 2:
        raise SystemExit(f"read_topic gave {rows} rows instead of 2")


def check_spark(cluster: Cluster) -> None:
    from moldau.spark import open_session, register

    spark = open_session("smoke")
    register(spark)
    reader = spark.read.format("moldau").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    rows = reader.option("subscribe", "orders").load().count()
    spark.stop()
    if rows != 2:
        raise SystemExit(f"Spark read {rows} rows instead of 2")


CHECKS = {"base": (check_base,), "columnar": (check_base, check_columnar), "spark": (check_columnar, check_spark)}

if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    check_command()
    if sys.argv[1] == "base":
        check_missing_extras()
    with Cluster() as running:
        running.produce("orders", "coffee", "tea")
        for check in CHECKS[sys.argv[1]]:
            check(running)
    print(f"{sys.argv[1]}: moldau {version('moldau')} works")
