"""`python -m benchmarks.side_by_side`: compares five tasks as Moldau pipeline files, in plain PySpark with Spark's own
connector, and with Quix Streams, in one run.

    python -m benchmarks.side_by_side [--records 500000] [--rounds 3] [--kills 3] [--only TASK] [--broker moldau|apache]

Each program runs in its own process, over topics of two partitions; pipeline files run after `moldau pipeline warm-up`.
The first start processes all records, and is stopped when its output is complete. Then a few more records come, and the
second start, the restart, is timed until these are processed. The rate is the number of records divided by the time
that the first start took longer than the restart. Last, a program is killed with -9 `--kills` times while records come,
and started again each time. Its output is compared with the expected one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.loaders.tasks import FORMS, TASKS, Trial, kill, lines_of_code, measure, new_trial, warm_up
from benchmarks.peers import CACHE
from benchmarks.run import in_turn, makers, medians, say, short

FIGURES = {"first_s": 1, "rate": 0, "restart_s": 1}
"""With the number of digits shown."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.side_by_side", description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=TASKS)
    parser.add_argument("--form", action="append", choices=FORMS)
    parser.add_argument("--broker", choices=("moldau", "apache"), default="moldau")
    arguments = parser.parse_args()
    forms = arguments.form or FORMS
    warm_up()
    print("| task | form | lines | whole s | records/s | restart s | after kills |\n|---|---|---|---|---|---|---|")
    for task in arguments.only or TASKS:
        figures: dict[str, list[dict[str, float]]] = {form: [] for form in forms}
        for round_number in range(arguments.rounds):
            for form in in_turn(forms, round_number):
                with trial_of(arguments.broker, task, form) as trial:
                    figures[form].append(measure(trial, arguments.records))
                say(f"  {task} round {round_number + 1}, {form}: {short(figures[form][-1])}")
        for form in forms:
            harm = "not killed"
            if arguments.kills:
                with trial_of(arguments.broker, task, form) as trial:
                    wrong = kill(trial, arguments.kills, arguments.seed)
                harm = ", ".join(f"{count} {name}" for name, count in wrong.items()) or "each once"
            middle = medians(figures[form])
            cells = [f"{middle[name]:,.{digits}f}" if middle else "-" for name, digits in FIGURES.items()]
            row = (task, form, lines_of_code(task, form), *cells, harm)
            print("|", *(f"{cell} |" for cell in row), flush=True)
    return 0


@contextmanager
def trial_of(broker: str, task: str, form: str) -> Iterator[Trial]:
    with tempfile.TemporaryDirectory(prefix="moldau_tasks_", ignore_cleanup_errors=True) as name:
        peer = makers(Path(name), CACHE, has_apache=broker == "apache")[broker](broker)
        with new_trial(peer, task, form) as trial:
            yield trial


if __name__ == "__main__":
    sys.exit(main())
