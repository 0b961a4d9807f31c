"""Finds the topic that a misspelt name most likely means, before a cluster creates the wrong one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

_SEPARATOR = re.compile(r"[-._]")
_DIGITS = re.compile(r"\d+")
_LIKE = 0.82
_SHORTEST = 4


def meant_by(name: str, known: Iterable[str]) -> str | None:
    """The first known name that `name` probably means: one word is misspelt, or the separators differ. Names that
    differ only in digits (`orders-1`, `orders-2`), in a short word (`eu.orders`, `us.orders`) or by an additional word
    (`orders-late`) differ on purpose."""
    return next((one for one in known if _is_slip(name, one)), None)


def _is_slip(name: str, known: str) -> bool:
    if name == known:
        return False
    if _SEPARATOR.sub("", name) == _SEPARATOR.sub("", known):
        return True
    words, others = (_SEPARATOR.split(_DIGITS.sub("", text)) for text in (name, known))
    if len(words) != len(others):
        return False
    pairs = [(word, other) for word, other in zip(words, others, strict=True) if word != other]
    if len(pairs) != 1:
        return False
    ((word, other),) = pairs
    return min(len(word), len(other)) >= _SHORTEST and SequenceMatcher(None, word, other).ratio() >= _LIKE
