"""How a file of SQL is split into tests."""

from __future__ import annotations

import pytest

from moldau.products.sql.engine.cases import Case, CaseFailedError, cases_of
from moldau.products.sql.language.parser.script import parse_script

FILE = """\
-- tests of clicks
--@test: clicks - first
SHOW STREAMS;

--@test:  second
--@expected.error: io.confluent.ksql.util.KsqlException
--@expected.message: no stream
DROP STREAM a;
"""


def test_a_file_without_heads_is_one_test():
    assert cases_of("SHOW STREAMS;", "clicks") == [Case("clicks", "SHOW STREAMS;")]


def test_each_head_begins_a_test_whose_statements_keep_their_lines():
    first, second = cases_of(FILE, "clicks")
    assert (first.name, first.error) == ("clicks - first", None)
    assert (second.name, second.error) == ("second", "no stream")
    assert [(one.text, one.line) for one in parse_script(first.text)] == [("SHOW STREAMS", 3)]
    assert [(one.text, one.line) for one in parse_script(second.text)] == [("DROP STREAM a", 8)]
    with pytest.raises(CaseFailedError, match="statements stand before"):
        cases_of(f"SHOW STREAMS;\n{FILE}", "clicks")
