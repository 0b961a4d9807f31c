"""What the shell takes for a whole statement, what it completes, and how scripts run scripts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from moldau.products.sql.engine.session import Session
from moldau.products.sql.terminal.completion import completions
from moldau.products.sql.terminal.shell import MAX_HISTORY_BYTES, is_whole, prepare_history
from moldau.products.sql.terminal.statements import ScriptError, check_text, run_text
from tests.support.sql_service import ListedService

CLICKS = "CREATE STREAM clicks (user STRING KEY, page STRING) WITH (kafka_topic='c')"
PAGES = "CREATE TABLE pages AS SELECT page, count(*) AS n FROM clicks GROUP BY page"


@pytest.mark.parametrize(
    ("text", "is_it"),
    [
        ("", True),
        ("exit", True),
        ("HELP", True),
        ("SHOW STREAMS;", True),
        ("SHOW STREAMS", False),
        ("SHOW STREAMS; -- and a comment", True),
        ("SELECT ';", False),
        ("SELECT ';'\n FROM a", False),
        ("SELECT 1 /* ;", False),
        ("SELECT #;", True),
        ("-- only a comment", True),
    ],
)
def test_enter_ends_a_whole_statement(text: str, is_it: bool):
    assert is_whole(text) is is_it


def words(before: str, service: ListedService) -> Sequence[str]:
    return [word for word, _, _ in completions(before, service.catalog)]


def test_completion_knows_where_the_cursor_is():
    service = ListedService(CLICKS, PAGES, "CREATE FUNCTION twice(x INT) RETURN x * 2")
    assert words("select * from cl", service) == ["clicks"]
    assert words("SELECT * FROM clicks WHERE pa", service)[:2] == ["page", "pages"]
    assert words("SELECT * FROM clicks c WHERE c.", service) == ["page", "user"]
    assert words("SELECT * FROM clicks AS c WHERE clicks.u", service) == ["user"]
    assert words("TERMINATE ", service)[0] == "CTAS_PAGES_0"
    assert words("PRINT ", service) == ["c", "pages"]
    assert words("SET 'sql.d", service) == ["sql.dialect"]
    assert "twice" in words("DESCRIBE FUNCTION tw", service)
    assert "LEN" in words("SELECT le", service)
    assert "select" in words("sel", service)
    assert "SELECT" in words("SEL", service)
    assert words("CREATE STREAM x WITH (kaf", service) == ["kafka_topic"]
    assert words("SELECT 'cl", service) == [], "within a string"
    assert completions("SELECT * FROM clicks; DROP STREAM CL", service.catalog) == [("clicks", "stream", 2)]


def test_a_script_runs_a_script_next_to_it(tmp_path: Path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.sql").write_text(f"{CLICKS};\nRUN SCRIPT 'b.sql';")
    (tmp_path / "inner" / "b.sql").write_text(PAGES)
    service = ListedService()
    run_text("RUN SCRIPT 'inner/a.sql'; SHOW STREAMS", service, Session(), lambda answer: None, tmp_path / "x.sql")
    assert service.ran == [CLICKS, PAGES, "SHOW STREAMS"]


def test_an_error_of_a_script_names_its_file(tmp_path: Path):
    (tmp_path / "a.sql").write_text("SHOW STREAMS;\nDROP STREAM nothing;")
    service = ListedService()
    with pytest.raises(ScriptError, match=r"a\.sql: line 2, column 13: there is no stream") as caught:
        run_text("RUN SCRIPT 'a.sql'", service, Session(), lambda answer: None, tmp_path / "x.sql")
    assert caught.value.text == (tmp_path / "a.sql").read_text()
    assert service.ran == ["SHOW STREAMS", "DROP STREAM nothing"]
    for name, data, problem in (
        ("loop.sql", b"RUN SCRIPT 'loop.sql'", "more than 10 deep"),
        ("bad.sql", b"\xff", "is not UTF-8"),
        ("big.sql", b"-" * (1 << 20) + b"-", "split it into several"),
        ("dir.sql", None, "directory"),
        ("none.sql", b"RUN SCRIPT 'nowhere.sql'", "No such file"),
    ):
        (tmp_path / name).mkdir() if data is None else (tmp_path / name).write_bytes(data)
        with pytest.raises(ScriptError, match=problem):
            run_text(f"RUN SCRIPT '{name}'", service, Session(), lambda answer: None, tmp_path / "x.sql")


def test_a_script_is_checked_before_anything_runs():
    check_text(f"{CLICKS}; {PAGES}; SHOW STREAMS; RUN SCRIPT 'x'; SELECT * FROM made_by_x", Session())
    streaming = "CREATE STREAMING TABLE made AS SELECT user, page FROM STREAM(clicks)"
    check_text(f"{CLICKS}; {streaming}; CREATE STREAM again AS SELECT * FROM made", Session())
    for text, problem in (
        ("SHOW STREAMS; SHOW STREMS", "did you mean STREAMS"),
        (f"{CLICKS}; INSERT INTO clicks SELECT * FROM click", "did you mean clicks"),
        (f"{CLICKS}; {CLICKS}", "there is a stream clicks already"),
    ):
        with pytest.raises(ScriptError, match=problem):
            check_text(text, Session())


def test_the_history_is_for_the_user_alone_and_bounded(tmp_path: Path):
    path = tmp_path / "state" / "moldau" / "sql_history"
    prepare_history(path)
    assert path.stat().st_mode & 0o777 == 0o600
    entry = "\n# 2026-11-30 20:00:00\n+SHOW STREAMS;\n"
    path.write_text(entry * (MAX_HISTORY_BYTES // len(entry) + 2))
    prepare_history(path)
    kept = path.read_text()
    assert MAX_HISTORY_BYTES // 4 < len(kept) < MAX_HISTORY_BYTES
    assert kept.startswith("\n# 2026")
