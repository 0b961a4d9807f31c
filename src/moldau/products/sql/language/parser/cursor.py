"""Reads the tokens of one statement from left to right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from moldau.products.sql.language.errors import SqlError, error_at, quoted, unexpected
from moldau.products.sql.language.queries import Duration, Fragment, Name, Unit
from moldau.products.sql.language.tokens import Kind, Token

Value = TypeVar("Value")

MAX_MILLISECONDS = (2**63 - 1) // 1000
"""The longest duration: Spark counts microseconds in 64 bits."""
MAX_NUMBER = 2**63 - 1
"""The largest whole number."""

_OPENING, _CLOSING = ("(", "["), (")", "]")
_RESERVED = frozenset(
    {
        "AND", "AS", "BY", "CASE", "CREATE", "DROP", "ELSE", "FROM", "GROUP", "HAVING", "INSERT", "INTO", "JOIN", "NOT",
        "NULL", "ON", "OR", "SELECT", "THEN", "UNION", "VALUES", "WHEN", "WHERE", "WITH",
    }
)  # fmt: skip
"""Words that are names in backquotes only."""
_UNITS = {**{unit.name: unit for unit in Unit}, **{f"{unit.name}S": unit for unit in Unit}}


class Cursor:
    """The tokens of a statement, of which the last is of kind END, and the place of the next one. `text`: the source of
    the script, for messages. Brackets are known to be balanced."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._at = 0

    @property
    def next(self) -> Token:
        return self._tokens[self._at]

    def ahead(self, count: int) -> Token:
        """The token `count` places after the next one; the last one if there are fewer."""
        return self._tokens[min(self._at + count, len(self._tokens) - 1)]

    def says(self, *words: str) -> bool:
        """Whether these words stand next, in this order. Words are in upper case."""
        place = self._at
        for word in words:
            # after the last token, of kind END, nothing is asked
            if not self._tokens[place].says(word):
                return False
            place += 1
        return True

    def said(self, *words: str) -> bool:
        """Whether these words were taken last, in this order."""
        start = self._at - len(words)
        return start >= 0 and all(self._tokens[start + place].says(word) for place, word in enumerate(words))

    def takes(self, *words: str) -> bool:
        """Takes these words if they stand next."""
        are_there = self.says(*words)
        if are_there:
            self._at += len(words)
        return are_there

    def take(self) -> Token:
        token = self.next
        if token.kind is not Kind.END:
            self._at += 1
        return token

    def expect(self, *words: str) -> None:
        """Takes these words, one after the other."""
        for place, word in enumerate(words):
            if not self.takes(word):
                raise self.unexpected(" ".join(map(_in_message, words[place:])), [word])

    def expect_one(self, words: Iterable[str]) -> str:
        """Takes the one of these words that stands next, and returns it in upper case."""
        known = tuple(words)
        for word in known:
            if self.takes(word):
                return word
        raise self.unexpected(listed(known), known)

    def expect_end(self, *others: str) -> None:
        """Raises unless the statement ends here. `others`: words that could go on."""
        if self.next.kind is not Kind.END:
            first_words = [other.partition(" ")[0] for other in others]
            raise self.unexpected(listed((*others, "the end of the statement")), first_words)

    def name(self, what: str) -> Name:
        """Takes a name. `what`: as in `the name of a stream`."""
        token = self.next
        if token.kind is Kind.STRING:
            raise self.error(
                f"expected {what}, found the string {quoted(token.text)}: a name is quoted in backquotes", expected=what
            )
        if not token.is_name:
            raise self.unexpected(what)
        if token.kind is Kind.WORD and token.text.upper() in _RESERVED:
            raise self.error(
                f"expected {what}, found the keyword `{token.text}`: write it in backquotes if it is a name",
                expected=what,
            )
        self._at += 1
        return Name(token.value, token.line, token.column)

    def string(self, what: str) -> Name:
        """Takes a string; its value is the name's text."""
        token = self.next
        if token.kind is not Kind.STRING:
            raise self.unexpected(what)
        self._at += 1
        return Name(token.value, token.line, token.column)

    def name_or_string(self, what: str) -> Name:
        return self.string(what) if self.next.kind is Kind.STRING else self.name(what)

    def whole_number(self, what: str, *, least: int = 0, most: int = MAX_NUMBER) -> int:
        """Takes a whole number without sign."""
        token = self.next
        if token.kind is not Kind.NUMBER or not token.text.isdecimal():
            raise self.unexpected(what)
        # int() of very many digits is slow, and Python refuses it
        number = int(token.text) if len(token.text) <= len(str(MAX_NUMBER)) else MAX_NUMBER + 1
        if not least <= number <= most:
            allowed = f"at least {least}" if most == MAX_NUMBER and number < least else f"from {least} to {most}"
            raise self.error(f"expected {what}, {allowed}, found `{token.text[:30]}`", expected=what)
        self._at += 1
        return number

    def duration(self, what: str, *, least: int = 1) -> Duration:
        """Takes a number and a unit of time. `least`: the smallest number."""
        start = self.next
        amount = self.whole_number(f"{what} (as in `10 MINUTES`)", least=least)
        unit = self.next
        if not unit.says(*_UNITS):
            raise self.unexpected(
                "a unit of time: MILLISECONDS, SECONDS, MINUTES, HOURS or DAYS", [f"{one.name}S" for one in Unit]
            )
        self._at += 1
        found = Duration(amount, _UNITS[unit.text.upper()])
        if found.milliseconds > MAX_MILLISECONDS:
            raise self.error(f"{what} has at most {MAX_MILLISECONDS} milliseconds", at=start)
        return found

    def in_parentheses(self, read: Callable[[], Value]) -> tuple[Value, ...]:
        """Takes `(`, one or several of what `read` takes with commas between them, and `)`."""
        self.expect("(")
        found = [read()]
        while self.takes(","):
            found.append(read())
        if not self.takes(")"):
            raise self.unexpected("`,` or `)`")
        return tuple(found)

    def skip_to(self, is_end: Callable[[], bool], what: str, *, may_be_empty: bool = False) -> Fragment:
        """Takes everything up to a token outside of brackets that `is_end` accepts as the next one, or to a bracket
        that closes, or to the end. `what`: what an empty part lacks."""
        start = self._at
        depth = 0
        while self.next.kind is not Kind.END:
            token = self.next
            is_symbol = token.kind is Kind.SYMBOL
            closes = is_symbol and token.text in _CLOSING
            if depth == 0 and (closes or is_end()):
                break
            if closes:
                depth -= 1
            elif is_symbol and token.text in _OPENING:
                depth += 1
            self._at += 1
        if self._at == start and not may_be_empty:
            raise self.unexpected(what)
        return self.since(start)

    def skip_brackets(self) -> None:
        """Takes an opening bracket, what is within, and the closing one."""
        depth = 0
        while self.next.kind is not Kind.END:
            token = self.take()
            depth += token.says(*_OPENING) - token.says(*_CLOSING)
            if depth == 0:
                return

    @property
    def place(self) -> int:
        """How many tokens were taken."""
        return self._at

    def since(self, place: int) -> Fragment:
        """What was taken since then."""
        return Fragment(tuple(self._tokens[place : self._at]))

    @property
    def previous(self) -> Token | None:
        """The last taken token."""
        return self._tokens[self._at - 1] if self._at else None

    def unexpected(self, expected: str, known: Iterable[str] = (), *, at: Token | None = None) -> SqlError:
        """The error that `expected` does not stand next, or at the token `at`. `known`: the words from which the
        nearest is taken."""
        token = at or self.next
        return unexpected(self._text, token.place, expected, token.text, known)

    def error(
        self, problem: str, *, at: Token | Name | None = None, expected: str = "", near: str | None = None
    ) -> SqlError:
        """An error at the next token, or at another token or name."""
        where = at or self.next
        return error_at(self._text, where.place, problem, expected=expected, found=where.text, near=near)


def _in_message(word: str) -> str:
    """A keyword as it is, a symbol in backquotes."""
    return word if word.isalpha() else f"`{word}`"


def listed(words: Iterable[str]) -> str:
    """`A, B or C`."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last
