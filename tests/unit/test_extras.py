"""An import without its extra names the extra, and the line that installs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from moldau.extras import PACKAGES

WITHOUT = """
import importlib.util, sys
hidden, real = sys.argv[1].split(","), importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in hidden else real(name, package)
"""


def run_without(hidden: str, program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT + program, hidden]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("hidden", "program", "said"),
    [
        ("numpy", "import moldau.columnar", "moldau.columnar needs numpy: pip install '.[columnar]' from a clone"),
        (
            "greenlet",
            "import moldau.simulation",
            "moldau.simulation needs greenlet: pip install '.[simulation]'",
        ),
        ("pyspark,pandas", "import moldau.spark", "moldau.spark needs pyspark, pandas: pip install '.[spark]' from a"),
    ],
)
def test_an_import_names_its_extra(hidden: str, program: str, said: str):
    done = run_without(hidden, program)
    assert done.returncode == 1
    assert said in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("command", "needed"),
    [
        (["demo"], "numpy,pyarrow,pyspark,pandas,matplotlib,psutil,rich"),
        (["pipeline", "run", "page.yaml"], "numpy,pyarrow,pyspark,pandas,rich"),
    ],
)
def test_a_command_names_its_extra_in_one_line(command: list[str], needed: str):
    # All requirements of the command are hidden: the result does not depend on this environment.
    done = run_without(needed, f"from moldau.cli.main import main; sys.exit(main({command!r}))")
    said = f"moldau {command[0]} needs {needed.replace(',', ', ')}: pip install '.[spark]' from a clone of Moldau"
    assert (done.returncode, done.stdout, done.stderr.strip()) == (2, "", said)


def test_a_package_around_a_missing_module_may_be_missing_too():
    done = run_without("avro,jsonschema,google,grpc_tools", "from moldau.cli.main import main; main(['registry'])")
    needs = "moldau: `moldau registry` needs avro, jsonschema, google.protobuf, grpc_tools, "
    assert done.stderr.startswith(f"{needs}google.type: pip")


PACKAGE_OF = {
    "grpc": "pyspark[connect]",
    "grpc_status": "pyspark[connect]",
    "zstandard": "pyspark[connect]",
    "fastavro": "avro",
    "jsonschema": "json",
    "yaml": "pyyaml",
    "sqlalchemy": "sql-sqlite",
    "google.protobuf": "protobuf",
    "grpc_tools": "grpcio-tools",
    "google.type": "googleapis-common-protos",
}


def test_the_packages_of_an_extra_are_those_of_the_project_file():
    import tomllib
    from pathlib import Path

    text = (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    for extra, modules in PACKAGES.items():
        wanted = " ".join(extras[extra] + (extras["columnar"] if "moldau[columnar]" in extras[extra] else []))
        assert all(PACKAGE_OF.get(module, module) in wanted for module in modules), extra
