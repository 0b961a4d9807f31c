"""Regular expressions that clients send: the syntax of RE2, which Kafka uses, matched in linear time.

Python's own `re` goes back and tries again: `(a+)+b` against forty letters a would stop the broker for hours. Here an
expression becomes states that are followed side by side (Thompson's construction), and it is remembered where a
character leads. As in RE2 there are no back references and no assertions that look ahead or behind.

Served: `.  |  ( )  (?: )  [ ]  [^ ]  *  +  ?  {m}  {m,}  {m,n}  ^  $  \\A  \\z  \\d \\D \\w \\W \\s \\S  \\t \\n \\r
\\f \\v \\a  \\xHH`, a backslash before a sign, and `(?i)` at the begin. A lazy `?` behind a repetition changes nothing,
since the whole text is matched. Not served: classes in words (`[[:alpha:]]`, `\\pL`), `\\Q..\\E`, `\\b`, other flags.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from moldau.types import Pausing

MAX_LENGTH = 1_000
MAX_STATES = 1_000
MAX_REPEAT = 1_000
MAX_DEPTH = 50
MAX_REMEMBERED = 10_000
PAUSE_CHARACTERS = 64

_LAST = 0x10FFFF
_DIGITS = "0123456789abcdefABCDEF"
_CLASSES = {"d": ((48, 57),), "s": ((9, 10), (12, 13), (32, 32)), "w": ((48, 57), (65, 90), (95, 95), (97, 122))}
_CONTROLS = {"a": 7, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13}

Ranges = tuple[tuple[int, int], ...]
"""Code points, each from .. to, both inclusive."""


class OneOf(msgspec.Struct, frozen=True):
    """Any one character of these."""

    ranges: Ranges


class Anchor(msgspec.Struct, frozen=True):
    is_begin: bool


class Row(msgspec.Struct, frozen=True):
    parts: tuple[Part, ...]


class Choice(msgspec.Struct, frozen=True):
    parts: tuple[Part, ...]


class Repeat(msgspec.Struct, frozen=True):
    """`most` None: any number."""

    part: Part
    least: int
    most: int | None


Part = OneOf | Anchor | Row | Choice | Repeat


class Pattern:
    """One expression. Raises ValueError, with what is wrong, for one that is none or too large."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise ValueError(f"longer than {MAX_LENGTH} characters")
        self._ignores_case = text.startswith("(?i)")
        part = _Reader(text, 4 if self._ignores_case else 0).read()
        self._takes: list[Ranges | None] = []
        """By state, what a character must be to be taken; None: the state takes none."""
        self._next: list[list[int]] = []
        self._anchors: dict[int, bool] = {}
        first, self._end = self._states_of(part)
        self._begin = self._closed((first,), is_begin=True, is_end=False)
        self._matches_nothing = self._end in self._closed((first,), is_begin=True, is_end=True)
        self._remembered: dict[tuple[tuple[int, ...], str], tuple[int, ...]] = {}

    def matches(self, text: str) -> Pausing[bool]:
        """Whether all of `text` matches."""
        if not text:
            return self._matches_nothing
        states, remembered = self._begin, self._remembered
        for position, character in enumerate(text[:-1]):
            if not position % PAUSE_CHARACTERS:
                yield
            key = states, character
            after = remembered.get(key)
            if after is None:
                after = self._step(states, character, is_end=False)
                if len(remembered) >= MAX_REMEMBERED:
                    remembered.clear()
                remembered[key] = after
            if not after:
                return False
            states = after
        return self._end in self._step(states, text[-1], is_end=True)

    def _step(self, states: Iterable[int], character: str, *, is_end: bool) -> tuple[int, ...]:
        points = [ord(character)]
        if self._ignores_case:
            points += [ord(form) for form in (character.lower(), character.upper()) if len(form) == 1]
        reached: list[int] = []
        for state in states:
            ranges = self._takes[state]
            if ranges is not None and any(first <= point <= last for first, last in ranges for point in points):
                reached += self._next[state]
        return self._closed(reached, is_begin=False, is_end=is_end)

    def _closed(self, states: Iterable[int], *, is_begin: bool, is_end: bool) -> tuple[int, ...]:
        """With all that is reached without a character."""
        found: dict[int, None] = {}
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            anchor = self._anchors.get(state)
            if state in found or (anchor is not None and not (is_begin if anchor else is_end)):
                continue
            found[state] = None
            if self._takes[state] is None:
                waiting += self._next[state]
        return tuple(sorted(found))

    # -- states

    def _state(self, takes: Ranges | None = None) -> int:
        if len(self._takes) >= MAX_STATES:
            raise ValueError("too large")
        self._takes.append(takes)
        self._next.append([])
        return len(self._takes) - 1

    def _states_of(self, part: Part) -> tuple[int, int]:
        """The first state of the part, and the last one, which what comes behind is joined to."""
        match part:
            case OneOf():
                first, last = self._state(part.ranges), self._state()
                self._next[first].append(last)
            case Anchor():
                first = last = self._state()
                self._anchors[first] = part.is_begin
            case Row():
                first = last = self._state()
                for one in part.parts:
                    last = self._join(last, one)
            case Choice():
                first, last = self._state(), self._state()
                for one in part.parts:
                    self._next[self._join(first, one)].append(last)
            case Repeat():
                first, last = self._repeated(part)
        return first, last

    def _join(self, before: int, part: Part) -> int:
        first, last = self._states_of(part)
        self._next[before].append(first)
        return last

    def _repeated(self, part: Repeat) -> tuple[int, int]:
        first = last = self._state()
        for _ in range(part.least):
            last = self._join(last, part.part)
        end = self._state()
        self._next[last].append(end)
        if part.most is None:
            self._next[self._join(end, part.part)].append(end)
        else:
            for _ in range(part.most - part.least):
                last = self._join(last, part.part)
                self._next[last].append(end)
        return first, end


class _Reader:
    """From the text of an expression to its parts."""

    def __init__(self, text: str, position: int) -> None:
        self._text = text
        self._position = position

    def read(self) -> Part:
        part = self._choice(0)
        if self._position < len(self._text):
            raise ValueError("unexpected )")
        return part

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]

    def _take(self) -> str:
        character = self._peek()
        if not character:
            raise ValueError("unexpected end")
        self._position += 1
        return character

    def _skip(self, text: str) -> bool:
        is_there = self._text.startswith(text, self._position)
        self._position += len(text) if is_there else 0
        return is_there

    def _choice(self, depth: int) -> Part:
        if depth > MAX_DEPTH:
            raise ValueError("nested too deep")
        rows = [self._row(depth)]
        while self._skip("|"):
            rows.append(self._row(depth))
        return rows[0] if len(rows) == 1 else Choice(tuple(rows))

    def _row(self, depth: int) -> Part:
        parts = []
        while self._peek() not in ("", "|", ")"):
            part = self._atom(depth)
            bounds = self._bounds()
            if bounds is not None:
                self._skip("?")
                if self._peek() in ("*", "+", "?"):
                    raise ValueError("bad repetition operator")
                part = Repeat(part, *bounds)
            parts.append(part)
        return Row(tuple(parts))

    def _bounds(self) -> tuple[int, int | None] | None:
        if self._skip("*"):
            return 0, None
        if self._skip("+"):
            return 1, None
        if self._skip("?"):
            return 0, 1
        end = self._text.find("}", self._position)
        least_text, comma, most_text = self._text[self._position + 1 : max(end, 0)].partition(",")
        if self._peek() != "{" or not _is_number(least_text) or (most_text and not _is_number(most_text)):
            return None  # as in RE2 a brace that bounds nothing stands for itself
        self._position = end + 1
        least = int(least_text)
        most = int(most_text) if most_text else None if comma else least
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise ValueError("bad number of repetitions")
        return least, most

    def _atom(self, depth: int) -> Part:
        character = self._take()
        if character == "(":
            if self._skip("?") and not self._skip(":"):
                raise ValueError("no such group")
            part = self._choice(depth + 1)
            if not self._skip(")"):
                raise ValueError("missing )")
            return part
        if character in "*+?":
            raise ValueError("nothing to repeat")
        if character in "^$":
            return Anchor(character == "^")
        if character == "\\" and self._peek() in ("A", "z"):
            return Anchor(self._take() == "A")
        if character == ".":
            return OneOf(_others(((10, 10),)))
        if character == "[":
            return OneOf(self._class())
        return OneOf(self._escape() if character == "\\" else _point(ord(character)))

    def _escape(self) -> Ranges:
        character = self._take()
        if character.lower() in _CLASSES:
            ranges = _CLASSES[character.lower()]
            return _others(ranges) if character.isupper() else ranges
        if character in _CONTROLS:
            return _point(_CONTROLS[character])
        if character == "x":
            digits = self._take() + self._take()
            if not all(digit in _DIGITS for digit in digits):
                raise ValueError("bad escape")
            return _point(int(digits, 16))
        if character.isalnum():
            raise ValueError("no such escape")
        return _point(ord(character))

    def _class(self) -> Ranges:
        is_negated = self._skip("^")
        ranges = list(self._of_class())
        while self._peek() != "]":
            ranges += self._of_class()
        self._position += 1
        return _others(ranges) if is_negated else tuple(ranges)

    def _of_class(self) -> Ranges:
        first = self._one_of_class()
        if self._peek() != "-" or self._text[self._position + 1 : self._position + 2] in ("", "]"):
            return first
        self._position += 1
        last = self._one_of_class()
        if len(first) > 1 or len(last) > 1 or first[0][0] != first[0][1] or not first[0][0] <= last[0][0] == last[0][1]:
            raise ValueError("bad range of characters")
        return ((first[0][0], last[0][1]),)

    def _one_of_class(self) -> Ranges:
        character = self._take()
        if character == "[" and self._peek() == ":":
            raise ValueError("no such class of characters")
        return self._escape() if character == "\\" else _point(ord(character))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(MAX_REPEAT))


def _point(code: int) -> Ranges:
    return ((code, code),)


def _others(ranges: Iterable[tuple[int, int]]) -> Ranges:
    found: list[tuple[int, int]] = []
    begin = 0
    for first, last in sorted(ranges):
        if first > begin:
            found.append((begin, first - 1))
        begin = max(begin, last + 1)
    return (*found, (begin, _LAST)) if begin <= _LAST else tuple(found)


@lru_cache(maxsize=16)
def pattern_for(text: str) -> Pattern:
    """As Pattern: one list is made of the parts of many coordinators, each of which asks for the same one."""
    return Pattern(text)
