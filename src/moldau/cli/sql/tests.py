"""`moldau sql test`: the tests of SQL files, on a cluster in this process."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.arguments import Subparsers, input_path
from moldau.cli.pipelines.pipeline_files import add_spark_settings
from moldau.cli.sql.engines import add_functions_argument, has_extra

if TYPE_CHECKING:
    from moldau.products.sql.engine.cases import Case


def add_verb(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    test = verbs.add_parser(
        "test",
        help="run the tests in SQL files, without a broker",
        description="A test is a part of a file: statements, INSERT INTO ... VALUES for the inputs, and ASSERT VALUES "
        "for what they become. A line `--@test: NAME` begins a test, as in ksqlDB's tests. A test with a line "
        "`--@expected.message: TEXT` must fail with such an error. The tests run on Spark, over a cluster in the "
        "memory of this process, which is empty before each. The exit code is 0 if every test passes, 1 if one fails, "
        "and 2 for a file that cannot be read.",
        examples=("moldau sql test pageviews_test.sql", "moldau sql test tests/*.sql"),
    )
    test.add_argument("files", type=input_path, nargs="+", metavar="FILE", help="files of tests; - is standard input")
    add_spark_settings(test)
    add_functions_argument(test)
    test.set_defaults(run=run_tests)


def run_tests(arguments: argparse.Namespace) -> int:
    """The exit code, as the command describes it."""
    if not has_extra():
        return 2
    from moldau.errors import MoldauError
    from moldau.products.sql.engine.cases import cases_of
    from moldau.products.sql.terminal.statements import read_script
    from moldau.spark.definitions.python_functions import FunctionFileError

    try:
        cases = [(path, case) for path in arguments.files for case in cases_of(read_script(path), path.name)]
    except MoldauError as error:
        print(f"moldau sql: {error}", file=sys.stderr)
        return 2
    try:
        return _run(cases, dict(arguments.spark), arguments.functions)
    except FunctionFileError as error:
        print(f"moldau sql: {error}", file=sys.stderr)
        return 2
    except MoldauError as error:
        print(f"moldau sql: {error}", file=sys.stderr)
        return 1


def _run(cases: list[tuple[Path, Case]], settings: dict[str, str], functions: list[Path]) -> int:
    import msgspec

    from moldau.client.protocol.access import ClusterAccess
    from moldau.products.pipelines.running.logs import logs_to
    from moldau.products.pipelines.running.runner import DRIVER_LOG
    from moldau.products.service.look.words import visible
    from moldau.products.sql.engine.cases import CaseFailedError, run_case
    from moldau.products.sql.engine.engine import EngineSettings
    from moldau.products.sql.engine.function_files import load_functions
    from moldau.spark import QUICK_START, open_session
    from moldau.testing import Cluster

    is_failed = False
    with tempfile.TemporaryDirectory(prefix="moldau-sql-test-") as name, Cluster() as cluster:
        log = Path(name) / DRIVER_LOG
        with logs_to(log):
            # a test has a few rows: more tasks would only cost time
            own = {**QUICK_START, "spark.sql.shuffle.partitions": "1", **settings}
            spark = open_session("moldau-sql-test", own, log_path=log)
            place = EngineSettings(access=ClusterAccess(cluster.bootstrap_servers), directory=Path(name))
            place = msgspec.structs.replace(place, functions=load_functions(spark, functions))
            for path, case in cases:
                began, failure = time.monotonic(), ""
                try:
                    run_case(spark, place, case)
                except CaseFailedError as error:
                    failure, is_failed = str(error), True
                verdict = "failed" if failure else "passed"
                print(f"{path}: {case.name}: {verdict} ({time.monotonic() - began:.1f} s)", flush=True)
                if failure:
                    print(visible(failure), flush=True)
    return 1 if is_failed else 0
