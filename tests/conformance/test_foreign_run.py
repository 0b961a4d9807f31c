"""The rule when the clients in other languages must run again."""

from __future__ import annotations

import pytest

from tests.conformance.foreign import RECORDED


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/moldau/wire/records/__init__.py", True),
        ("tests/conformance/clients/kafkajs/driver.js", True),
        ("tests/conformance/foreign_run.json", False),
        ("tests/conformance/results/moldau.json", False),
    ],
)
def test_a_recorded_result_is_no_reason(path, expected):
    assert RECORDED.is_noticed(path) is expected
