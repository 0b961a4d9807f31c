"""Python functions of a file in queries: their rows, their names, their errors, and files that are rejected."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import msgspec
import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.errors import MoldauError
from moldau.products.sql.engine.answers import FunctionDescribed, Listing
from moldau.products.sql.engine.cases import Case, run_case
from moldau.products.sql.engine.engine import Engine, EngineSettings
from moldau.products.sql.engine.function_files import load_functions
from moldau.products.sql.engine.session import Session
from moldau.products.sql.terminal.completion import completions
from moldau.spark.definitions.python_functions import FunctionFileError

pytestmark = pytest.mark.slow

WITHIN_S = 60
FILE = '''
from typing import Iterator

import pandas as pd
from pyspark.sql.functions import arrow_udf, pandas_udf, udf

LIMIT = 100


class Page:
    def __init__(self, name):
        self.name = name


def helper(page):
    return Page(page.strip().lower())


@udf
def slug(page):
    """The name of a page in an address."""
    if page == "bad":
        raise ValueError("no page")
    return helper(page).name


@udf("boolean")
def is_slow(ms: int) -> bool:
    return ms > LIMIT


@pandas_udf("long")
def doubled(ms: pd.Series) -> pd.Series:
    return ms * 2


@pandas_udf("long")
def next_one(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
    for batch in batches:
        yield batch + 1
'''
CLICKS = "CREATE STREAM clicks (id STRING KEY, page STRING, ms INT) WITH (kafka_topic = 'clicks', partitions = 1);"
CASE = f"""{CLICKS}
CREATE FUNCTION twice_slug(p STRING) RETURNS STRING RETURN concat(slug(p), slug(p));
CREATE STREAM a AS SELECT id, SLUG(page) AS page, doubled(ms) AS twice, next_one(ms) AS n, twice_slug(page) AS both
    FROM clicks WHERE is_slow(ms);
CREATE TABLE b AS SELECT id, slug(page) AS page, sum(doubled(ms)) AS total FROM clicks WHERE is_slow(ms)
    GROUP BY id, slug(page);
INSERT INTO clicks VALUES ('x', ' Home', 120), ('y', slug('SHOP'), 30);
ASSERT VALUES a (id, page, twice, n, both) VALUES ('x', 'home', 240, 121, 'homehome');
ASSERT VALUES b (id, page, total) VALUES ('x', 'home', 240);
SELECT slug(page) FROM clicks;
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.py"
    path.write_text(FILE)
    return path


def failing_record(engine: Engine) -> str:
    """The record of the first query's error, once it is found."""
    deadline, never = time.monotonic() + WITHIN_S, threading.Event()
    while True:
        engine.supervise()
        _, found, record = (engine.statuses()[0].error or "").partition("at the record ")
        if found:
            return record.partition(";")[0]
        assert time.monotonic() < deadline
        never.wait(0.1)


def test_queries_call_the_functions_of_a_file(spark, bootstrap_servers: str, tmp_path: Path, file: Path):
    functions = load_functions(spark, [file])
    assert sorted(functions) == ["doubled", "is_slow", "next_one", "slug"]
    settings = EngineSettings(ClusterAccess(bootstrap_servers), tmp_path / "q", name="given", functions=functions)
    run_case(spark, settings, Case("functions", CASE, None))

    own = msgspec.structs.replace(settings, name="failing", directory=tmp_path / "f")
    with Engine(spark, own) as engine:
        text = CLICKS.replace("'clicks'", "'bad_clicks'") + (
            "CREATE STREAM failing AS SELECT id, slug(page) AS page FROM clicks;"
            "INSERT INTO clicks VALUES ('x', 'home', 1), ('y', 'bad', 1);"
            "SHOW FUNCTIONS; DESCRIBE FUNCTION slug;"
        )
        *_, listing, described = engine.execute(text, Session())
        assert isinstance(listing, Listing)
        assert ("is_slow", "python", "is_slow(ms) RETURNS boolean") in listing.rows
        assert isinstance(described, FunctionDescribed)
        assert (described.usage, described.note) == (
            "slug(page) RETURNS string",
            f"The name of a page in an address.; in Python, {file}",
        )
        assert ("slug", "function", 3) in completions("SELECT slu", engine.catalog)
        with pytest.raises(MoldauError, match=r"CSAS_FAILING_0 has failed: .*no page \(in the function slug\)"):
            engine.wait_until_processed(WITHIN_S)
        assert failing_record(engine) == "bad_clicks-0 offset 1, key `y`"
        with pytest.raises(MoldauError, match=r"Slug is the function slug of .*shop\.py already"):
            [*engine.execute("CREATE FUNCTION Slug(a INT) RETURN a", Session())]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = 1\n", "has no function: decorate one with @udf"),
        ("a = 1\nb = (\n", "line 2: SyntaxError: '\\(' was never closed"),
        ("\n\nimport no_such_module\n", "line 3: ModuleNotFoundError: No module named 'no_such_module'"),
        ("def f():\n    return 1 / 0\n\nf()\n", "line 2: ZeroDivisionError"),
        ("from pyspark.sql.functions import udf\nUCASE = udf(str)\n", "UCASE has the name of ksqlDB's function UCASE"),
        ("from pyspark.sql.functions import udf\nupper = udf(str)\n", "upper has the name of Spark's function upper"),
        ("from pyspark.sql.functions import udf\na1 = udf(str)\nA1 = udf(str)\n", "A1 has the name of a1 of .*a.py"),
        (
            "import pandas as pd\nfrom pyspark.sql.functions import pandas_udf\n\n\n@pandas_udf('long')\n"
            "def total(v: pd.Series) -> int:\n    return v.sum()\n",
            "total gives no value for each row",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_rejected(spark, tmp_path: Path, text: str, problem: str):
    path = tmp_path / "a.py"
    path.write_text(text)
    with pytest.raises(FunctionFileError, match=problem):
        load_functions(spark, [path])
    with pytest.raises(FunctionFileError, match="No such file"):
        load_functions(spark, [tmp_path / "none.py"])
