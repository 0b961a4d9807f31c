"""The rule when the hundred seeds of `make slow-seeds` must run again."""

from __future__ import annotations

import subprocess
import sys

from tests.simulation.slow_seeds import FLOORS, RUNS

LOADED = """
import sys
from importlib import import_module
for name in {modules}:
    import_module(name).main(["--seed", "1"])
print("LOADED", *sorted({{name.split(".")[1] for name in sys.modules if name.startswith("moldau.")}}))
"""


def test_a_change_of_whatever_the_simulators_load_is_noticed():
    modules = [module if module.endswith("late_end_txn") else f"{module}.__main__" for module, *_ in RUNS]
    program = LOADED.format(modules=modules)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    loaded = done.stdout.splitlines()[-1].split()[1:]
    assert set(loaded) <= {floor.removesuffix(".py") for floor in FLOORS}
