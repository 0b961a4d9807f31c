"""Regular expressions of clients: the results of Python's `re`, in linear time and within bounds."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.core.transactions.pattern import MAX_INSTRUCTIONS, MAX_LENGTH, Pattern

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
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_pattern_matches_as_in_python(expression: str, texts: list[str]) -> None:
    pattern = Pattern(expression)
    # Python's `$` matches before a last line feed too
    reference = re.compile(expression.replace("$", r"\Z").replace(r"\d", "[0-9]"))
    for text in texts:
        assert pattern.matches(text) == (reference.fullmatch(text) is not None), text


@pytest.mark.parametrize(
    ("expression", "text", "is_match"),
    [
        ("(?i)App-[a-c]+", "aPP-BC", True),
        (r"\Aapp\z", "app", True),
        ("a{,2}", "a{,2}", True),
        ("é.", "éé", True),
        (r"\pL+[[:digit:]]\Q.*\E", "é1.*", True),
        ("a", "a\n", False),
    ],
)
def test_the_syntax_is_that_of_re2(expression: str, text: str, is_match: bool) -> None:
    assert Pattern(expression).matches(text) == is_match


INVALID = (
    *("(", ")", "a)", "[a", "*", "a**", "a++", "+a", r"\1", "(?=a)", "(?<=a)", "[z-a]", "a{2,1}", "a{1001}", "\\"),
    *(r"\pX", "[[:foo:]]", "a" * (MAX_LENGTH + 1), "(a{1000}){1000}", "a{1000}" * 2, r"(\pL\pN){30}", "\ud800"),
)


@pytest.mark.parametrize("expression", INVALID)
def test_an_invalid_or_too_large_pattern_is_rejected(expression: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Pattern(expression)


@pytest.mark.parametrize(
    "expression", ["(a*)*" * 20 + "b", "(a+)+" * 20 + "b", "(?:a|b)*a(?:a|b){900}", "(a?){300}a{300}"]
)
def test_a_hostile_pattern_is_linear_in_the_text(expression: str) -> None:
    pattern = Pattern(expression)
    assert pattern._compiled.programsize <= MAX_INSTRUCTIONS
    assert pattern.matches("ab" * 16_000 + "c") is False  # backtracking would not end
