"""Java's regular expressions as Python's `re`. A construct that Python lacks is rejected by name.

Equal in both: groups, look-around, quantifiers (greedy, lazy, possessive), classes with ranges, anchors. Translated:
named groups, `\\p{Alpha}` and the other POSIX classes, `\\Q...\\E`, `\\z` and `\\Z`, and `$1` in replacements.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn

_POSIX = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": "\\x00-\\x7F",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": "!-/:-@\\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": " \\t",
    "Cntrl": "\\x00-\\x1F\\x7F",
    "XDigit": "0-9a-fA-F",
    "Space": " \\t\\n\\x0B\\f\\r",
}
_SAME_ESCAPES = "tnrfa" + "dDsSwW" + "bBA"
_REPEAT = re.compile(r"\{\d+(,\d*)?\}", re.ASCII)
_FLAGS = re.compile(r"\(\?([a-zA-Z-]*)([:)])")


class RegexError(ValueError):
    """An expression that is wrong, or that has a construct of Java which Python lacks."""


def java_pattern(text: str) -> re.Pattern[str]:
    """Raises RegexError."""
    try:
        return re.compile(_Translation(text).translated(), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise RegexError(f"{text} is no regular expression here: {error}") from None


class _Translation:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._in_class = 0

    def translated(self) -> str:
        parts = []
        while self._at < len(self._text):
            parts.append(self._next())
        return "".join(parts)

    def _next(self) -> str:
        letter = self._text[self._at]
        if letter == "\\":
            return self._escape()
        if self._in_class:
            return self._class_member(letter)
        match letter:
            case "[":
                self._in_class = 1
                negated = self._text.startswith("[^", self._at)
                return self._take("[^" if negated else "[")
            case "(":
                return self._group()
            case "{":
                match = _REPEAT.match(self._text, self._at)
                if match is not None:
                    return self._take(match.group(0))
                self._reject("{ that is no repetition")
        return self._take(letter)

    def _class_member(self, letter: str) -> str:
        if letter == "]":
            self._in_class = 0
            return self._take(letter)
        if letter == "[" or self._text.startswith("&&", self._at):
            self._reject("a class within a class")
        self._take(letter)
        return "\\" + letter if letter in "|~&" else letter

    def _group(self) -> str:
        if re.match(r"\(\?<[a-zA-Z]", self._text[self._at :]):
            self._take("(?<")
            return "(?P<"
        match = _FLAGS.match(self._text, self._at)
        if match is not None:
            flags, end = match.groups()
            if set(flags) - set("ims-"):
                self._reject(f"the flags {flags}")
            if end == ")" and self._at:
                self._reject(f"{match.group(0)} behind the start")
            return self._take(match.group(0))
        return self._take("(")

    def _escape(self) -> str:
        rest = self._text[self._at + 1 :]
        if not rest:
            self._reject("a backslash at the end")
        if rest[0] == "Q":
            quoted = rest[1:].partition("\\E")[0]
            self._take("\\Q" + quoted + ("\\E" if rest[1:].startswith(quoted + "\\E") else ""))
            return re.escape(quoted)
        named = re.match(r"([pP])\{(\w+)\}", rest)
        if named is not None and named.group(2) in _POSIX:
            return self._posix(named.group(0), named.group(1) == "P", _POSIX[named.group(2)])
        if rest[0] == "k":
            name = re.match(r"k<(\w+)>", rest)
            if name is not None:
                self._take("\\" + name.group(0))
                return f"(?P={name.group(1)})"
        if rest[0] in "zZ" and not self._in_class:
            self._take("\\" + rest[0])
            return "\\Z" if rest[0] == "z" else "(?=\\n?\\Z)"
        code = re.match(r"x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}", rest)
        if code is not None:
            return self._take("\\" + code.group(0))
        if rest[0] in "123456789" and not rest[1:2].isdigit() and not self._in_class:
            return self._take("\\" + rest[0])
        if rest[0].isalnum() and rest[0] not in _SAME_ESCAPES:
            self._reject(f"\\{rest[:2] if rest[0] in 'pP' else rest[0]}")
        self._take("\\" + rest[0])
        return "\\" + rest[0] if rest[0] in _SAME_ESCAPES else re.escape(rest[0])

    def _posix(self, text: str, is_negated: bool, members: str) -> str:
        self._take("\\" + text)
        if not self._in_class:
            return f"[{'^' if is_negated else ''}{members}]"
        if is_negated:
            self._reject("\\P within a class")
        return members

    def _take(self, text: str) -> str:
        self._at += len(text)
        return text

    def _reject(self, construct: str) -> NoReturn:
        raise RegexError(f"{self._text} has {construct}, which is not supported in regular expressions")


def java_replacement(text: str, pattern: re.Pattern[str]) -> Callable[[re.Match[str]], str]:
    """Java's replacement (`$1`, `${name}`, a backslash before a literal character) as a function for `re.sub`.

    Raises RegexError for a group that the pattern lacks.
    """
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        letter = text[at]
        if letter == "\\":
            if at + 1 == len(text):
                raise RegexError(f"{text} ends with a backslash")
            parts.append(text[at + 1])
            at += 2
        elif letter == "$":
            group, at = _group_of(text, at + 1, pattern)
            parts.append(group)
        else:
            parts.append(letter)
            at += 1
    return lambda match: "".join(one if isinstance(one, str) else match.group(one) or "" for one in parts)


def _group_of(text: str, at: int, pattern: re.Pattern[str]) -> tuple[int, int]:
    """The number of the group that a `$` names, and the place after it."""
    name = re.match(r"\{([a-zA-Z][a-zA-Z0-9]*)\}", text[at:])
    if name is not None:
        if name.group(1) not in pattern.groupindex:
            raise RegexError(f"{text} names the group {name.group(1)}, which the regular expression lacks")
        return pattern.groupindex[name.group(1)], at + name.end()
    if not "0" <= text[at : at + 1] <= "9":
        raise RegexError(f"{text} has a $ without a group; a literal one is \\$")
    group = int(text[at])
    if group > pattern.groups:
        raise RegexError(f"{text} names the group {group}, and the regular expression has {pattern.groups}")
    at += 1
    while "0" <= text[at : at + 1] <= "9" and group * 10 + int(text[at]) <= pattern.groups:
        group = group * 10 + int(text[at])
        at += 1
    return group, at
