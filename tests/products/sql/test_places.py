"""Places of warnings in a script."""

from __future__ import annotations

import pytest

from moldau.products.sql.engine.engine import moved_warning


@pytest.mark.parametrize(
    ("own", "moved"),
    [
        ("line 1, column 5: a", "line 3, column 14: a"),
        ("line 2, column 5: line 1, column 1", "line 4, column 5: line 1, column 1"),
        ("without a place", "without a place"),
    ],
)
def test_a_warning_of_a_statement_has_its_place_in_the_script(own: str, moved: str):
    assert moved_warning(own, 3, 10) == moved
