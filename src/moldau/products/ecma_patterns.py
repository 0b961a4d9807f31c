r"""Patterns of JSON Schemas as Python's `re` reads them.

JSON Schema uses the regular expressions of ECMA-262. Schemas use one part of them that `re` lacks, `\p{L}`: a character
of a general category of Unicode.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import lru_cache
from itertools import groupby

_TOKEN = re.compile(r"\\(?P<sign>[pP])\{(?P<category>[^}]*)\}|\\.|[\[\]]", re.DOTALL)
_NAME_OF_ALL = re.compile("^(gc|General_Category)=")
_CASED = ("Lu", "Ll", "Lt")
_LONG_NAMES = """
    L=Letter LC=Cased_Letter Lu=Uppercase_Letter Ll=Lowercase_Letter Lt=Titlecase_Letter Lm=Modifier_Letter
    Lo=Other_Letter M=Mark M=Combining_Mark Mn=Nonspacing_Mark Mc=Spacing_Mark Me=Enclosing_Mark N=Number
    Nd=Decimal_Number Nd=digit Nl=Letter_Number No=Other_Number P=Punctuation P=punct Pc=Connector_Punctuation
    Pd=Dash_Punctuation Ps=Open_Punctuation Pe=Close_Punctuation Pi=Initial_Punctuation Pf=Final_Punctuation
    Po=Other_Punctuation S=Symbol Sm=Math_Symbol Sc=Currency_Symbol Sk=Modifier_Symbol So=Other_Symbol Z=Separator
    Zs=Space_Separator Zl=Line_Separator Zp=Paragraph_Separator C=Other Cc=Control Cc=cntrl Cf=Format Cs=Surrogate
    Co=Private_Use Cn=Unassigned
"""
_CATEGORIES = {name: short for short, long in (one.split("=") for one in _LONG_NAMES.split()) for name in (short, long)}
"""ECMA-262 names -> general categories. A one-letter category includes all that begin with the letter; LC is _CASED."""


class UnknownCategoryError(ValueError):
    """The message names the category."""


class Pattern(str):
    """A pattern for `re`. Its repr, which users see, is the schema's original pattern."""

    __slots__ = ("_given",)
    _given: str

    def __new__(cls, given: str) -> Pattern:
        """Raises UnknownCategoryError."""
        pattern = super().__new__(cls, _with_ranges(given))
        pattern._given = given
        return pattern

    def __repr__(self) -> str:
        return repr(self._given)


def _with_ranges(pattern: str) -> str:
    is_in_class = False

    def token(found: re.Match[str]) -> str:
        nonlocal is_in_class
        if found["sign"]:
            ranges = _ranges(found["category"], is_without=found["sign"] == "P")
            return ranges if is_in_class else f"[{ranges}]"
        if found[0] in "[]":
            is_in_class = found[0] == "["
        return found[0]

    return _TOKEN.sub(token, pattern)


@lru_cache(64)
def _ranges(name: str, *, is_without: bool) -> str:
    """The characters of a category (`is_without`: all others) as ranges for a character class of `re`."""
    category = _CATEGORIES.get(_NAME_OF_ALL.sub("", name))
    if category is None:
        raise UnknownCategoryError(f"\\p{{{name}}} is no general category of Unicode such as \\p{{L}} or \\p{{Nd}}")
    beginnings = _CASED if category == "LC" else (category,)
    found = []
    for is_one, neighbours in groupby(_neighbours(), lambda one: one[2].startswith(beginnings) != is_without):
        if is_one:
            (first, last, _), *others = neighbours
            found.append(f"\\U{first:08x}-\\U{others[-1][1] if others else last:08x}")
    return "".join(found)


@lru_cache(1)
def _neighbours() -> list[tuple[int, int, str]]:
    """All characters of Unicode as runs of one category: first character, last character, category."""
    found = []
    first = 0
    for category, characters in groupby(map(unicodedata.category, map(chr, range(sys.maxunicode + 1)))):
        end = first + sum(1 for _ in characters)
        found.append((first, end - 1, category))
        first = end
    return found
