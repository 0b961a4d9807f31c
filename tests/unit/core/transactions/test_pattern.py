"""Regular expressions of clients: the answers of Python's `re`, in linear time and within bounds."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.core.transactions.pattern import MAX_STATES, Pattern
from moldau.types import whole

ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", "-", r"\.", "^", "$", ""])
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}", "*?"])).map(
            lambda two: f"({two[0]}){two[1]}"
        ),
    ),
    max_leaves=6,
)


@given(expression=EXPRESSIONS, texts=st.lists(st.text("ab1-.\n", max_size=6), max_size=8))
@settings(max_examples=500, deadline=None, derandomize=True)
def test_a_pattern_matches_what_the_library_matches(expression: str, texts: list[str]) -> None:
    pattern = Pattern(expression)
    # `$` of the library matches before a last line feed too
    reference = re.compile(expression.replace("$", r"\Z").replace(r"\d", "[0-9]"))
    for text in texts:
        assert whole(pattern.matches(text)) == (reference.fullmatch(text) is not None), text


@pytest.mark.parametrize(
    ("expression", "text", "is_match"),
    [
        ("(?i)App-[a-c]+", "aPP-BC", True),
        (r"\Aapp\z", "app", True),
        (r"\x41\t\*", "A\t*", True),
        ("a{,2}", "a{,2}", True),
        ("[]a]+", "]a", True),
        ("[a-]+", "-a", True),
        (r"[\w.]+", "a.b", True),
        ("é+", "éé", True),
    ],
)
def test_the_syntax_is_that_of_re2(expression: str, text: str, is_match: bool) -> None:
    assert whole(Pattern(expression).matches(text)) == is_match


NO_PATTERNS = (
    *("(", ")", "a)", "[a", "*", "a**", "a++", "+a", r"\1", "(?=a)", "(?<n>a)", "[z-a]", "a{2,1}", "a{1001}", "\\"),
    *(r"\pL", "[[:alpha:]]", r"\bA", "a" * 1_001, "(" * 100 + ")" * 100, "(a{1000}){1000}"),
)


@pytest.mark.parametrize("expression", NO_PATTERNS)
def test_what_is_no_pattern_or_too_large_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Pattern(expression)


def test_the_work_for_each_character_is_bounded_by_the_states() -> None:
    pattern = Pattern("(a*)*" * 20 + "b")
    steps = sum(1 for _ in pattern.matches("a" * 30_000))
    assert steps <= 30_000
    assert len(pattern._takes) <= MAX_STATES
