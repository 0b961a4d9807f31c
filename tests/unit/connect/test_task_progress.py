"""The rate of a task, from the lines that its process tells."""

from __future__ import annotations

import re
from pathlib import Path

from moldau.products.connect.core.progress import looks_from
from moldau.products.connect.core.traces import problem_of
from moldau.products.connect.rest.metrics import METRICS


def line(records: int) -> dict[str, object]:
    return {"records": records, "bytes": 10 * records, "batches": 1, "topics": ["t"], "offset": {"at": records}}


def test_the_rate_is_that_between_the_last_two_lines() -> None:
    looks = looks_from(100.0).after(line(50), 101.0).after({**line(250), "lag": 7}, 103.0)
    shown = looks.shown(103.5, 1 << 20)
    assert (shown.records, shown.records_per_second, shown.lag, shown.offset) == (250, 100.0, 7, {"at": 250})
    assert shown.memory_bytes == 1 << 20


def test_a_task_without_news_has_no_rate() -> None:
    looks = looks_from(100.0).after(line(50), 101.0)
    assert looks.shown(102.9, None).records_per_second == 50.0
    assert looks.shown(103.1, None).records_per_second == 0.0
    assert looks_from(100.0).shown(100.0, None).records == 0


def test_a_line_of_another_shape_is_none() -> None:
    looks = looks_from(100.0).after(line(50), 101.0)
    assert looks.after({"records": "many"}, 102.0) == looks


def test_the_problem_of_a_trace_is_its_error_with_the_record() -> None:
    trace = (
        'Traceback:\n  File "a.py", line 1\nValueError: no JSON\nin stage VALUE_CONVERTER of json, at t-0 offset 2\n'
    )
    assert problem_of(trace) == "ValueError: no JSON (in stage VALUE_CONVERTER of json, at t-0 offset 2)"
    assert problem_of("Traceback:\nValueError: no JSON") == "ValueError: no JSON"
    assert problem_of(None) == ""


def test_the_page_of_the_rest_interface_has_the_metrics() -> None:
    page = Path("docs/reference/connect-rest.md").read_text()
    rows = re.findall(r"^\| `(moldau_connect_\w+)` \| (\w+) \| (.+) \|$", page, re.MULTILINE)
    assert rows == [(one.name, one.kind, one.help) for one in METRICS]
