"""Scripts of SQL over Spark and a broker: what they print, when they end, and their exit codes."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from moldau.client.protocol.access import ClusterAccess
from moldau.products.pipelines.running.stopping import StopRequest
from moldau.products.sql.engine.engine import Engine, EngineSettings
from moldau.products.sql.terminal.answers import Printer
from moldau.products.sql.terminal.embedded import EmbeddedEngine, summary
from moldau.products.sql.terminal.script_run import Script, keep_running, run_script
from moldau.products.sql.terminal.statements import ScriptError

pytestmark = pytest.mark.slow

SCRIPT = """
CREATE STREAM terminal_clicks (user STRING KEY, page STRING, ms INT)
    WITH (kafka_topic = 'terminal_clicks', partitions = 1);
INSERT INTO terminal_clicks VALUES ('ann', 'home', 120), ('bob', 'shop', 30), ('ann', 'shop', 180);
CREATE STREAM terminal_slow AS SELECT user, page, ms FROM terminal_clicks WHERE ms > ${least};
CREATE TABLE terminal_pages AS SELECT page, count(*) AS n FROM terminal_slow GROUP BY page;
"""


@pytest.fixture
def embedded(spark, bootstrap_servers: str, tmp_path: Path) -> Iterator[EmbeddedEngine]:
    settings = EngineSettings(ClusterAccess(bootstrap_servers), tmp_path, name="terminal")
    with EmbeddedEngine(Engine(spark, settings)) as engine:
        yield engine


def ran(embedded: EmbeddedEngine, text: str) -> tuple[int, list[dict[str, object]], str]:
    """The exit code, the lines of JSON, and the errors."""
    output, errors = io.StringIO(), io.StringIO()
    printer = Printer(Console(file=output), Console(file=errors, width=200), as_json=True)
    code = run_script(Script(text, Path("a.sql"), {"least": "100"}), embedded, printer, StopRequest())
    return code, [json.loads(line) for line in output.getvalue().splitlines()], errors.getvalue()


def test_a_script_ends_once_a_chain_of_queries_has_processed_all(spark, embedded: EmbeddedEngine):
    code, answers, errors = ran(embedded, SCRIPT)
    assert (code, errors) == (0, "")
    assert [answer["query_id"] for answer in answers] == [None, None, "CSAS_TERMINAL_SLOW_0", "CTAS_TERMINAL_PAGES_0"]
    progress, script = io.StringIO(), Script(SCRIPT, Path("a.sql"), {"least": "100"}, once=True)
    assert keep_running(script, embedded, Console(file=progress), StopRequest()) == []
    assert "CTAS_TERMINAL_PAGES_0: running, batch 1, read 2 records" in progress.getvalue()
    assert "2 running" in summary(embedded.statuses())

    code, (head, *rows, listing), _ = ran(embedded, "SELECT page, n FROM terminal_pages; SHOW QUERIES;")
    assert (code, head["columns"][1]) == (0, {"name": "n", "type": "bigint"})
    assert sorted(row["row"]["page"] for row in rows) == ["home", "shop"]
    assert {row["lag"] for row in listing["rows"]} == {"0"}

    code, (head, *rows), _ = ran(embedded, "SELECT user, ms FROM terminal_slow EMIT CHANGES LIMIT 2;")
    assert (code, rows) == (0, [{"row": {"user": "ann", "ms": 120}}, {"row": {"user": "ann", "ms": 180}}])

    replaced = "CREATE OR REPLACE TABLE terminal_pages AS SELECT page, {} AS n FROM terminal_slow GROUP BY page;"
    code, _, errors = ran(embedded, "SHOW STREAMS; " + replaced.format("sum(ms)"))
    assert code == 1
    assert "CTAS_TERMINAL_PAGES_0 was another query, whose state in" in errors
    assert "DROP TABLE terminal_pages, and create it again" in errors
    code, _, errors = ran(embedded, replaced.format("count(*)"))
    assert (code, errors) == (0, ""), "the same query"
    slow = "CREATE OR REPLACE STREAM terminal_slow AS SELECT user, page, ms FROM terminal_clicks WHERE ms > 10;"
    assert ran(embedded, slow)[0] == 0, "a query without state goes on"
    # the script runs again, and was edited
    settings = embedded.engine.settings
    with EmbeddedEngine(Engine(spark, settings)) as again:
        code, _, errors = ran(again, SCRIPT.replace("count(*)", "sum(ms)"))
    assert code == 1
    assert f"run with another --name, or delete {settings.directory / 'CTAS_TERMINAL_PAGES_0'}" in errors

    code, answers, errors = ran(embedded, "SELECT nothing FROM terminal_slow;")
    assert (code, answers) == (2, []), "nothing has run"
    assert "nothing" in errors
    code, answers, errors = ran(embedded, "SHOW STREAMS;\n DROP STREAM terminal_clicks;")
    assert (code, len(answers)) == (1, 1), "the first statement has run"
    assert "line 2, column 14: terminal_clicks is used by CSAS_TERMINAL_SLOW_0" in errors
    assert errors.splitlines()[-1] == " " * 13 + "^"


def test_a_query_without_an_end_is_no_part_of_a_run_that_ends():
    for text in ("SELECT 1; SELECT * FROM a EMIT CHANGES", "PRINT a"):
        with pytest.raises(ScriptError, match="this would not end"):
            Script(text, Path("a.sql"), {}, once=True).check()
        Script(text, Path("a.sql"), {}).check()
