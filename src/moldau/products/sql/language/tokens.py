"""The tokens of a SQL text, with their places.

The lexical rules are Spark's, because expressions go to Spark as they stand: backslashes escape in strings, `''` in a
string is a quote, bracketed comments nest. Text in double quotes is a string, as in Spark (ksqlDB reads a name there;
here a name is quoted in backquotes only). From ksqlDB come `:=` and `${variable}`.

Each token keeps the blanks and comments before it. The source is therefore the concatenation of `before + text` of all
tokens, and a replaced token leaves the rest as it was written.
"""

from __future__ import annotations

import enum
import re
import sys
from collections.abc import Iterable, Iterator

import msgspec

from moldau.products.sql.language.errors import SqlError, error_at, place_of, unexpected

MAX_BYTES = 1 << 20
"""The most bytes of a text, as UTF-8."""
MAX_TOKENS = 250_000
"""The most tokens of a text: each needs about 150 bytes."""

_SKIPPED = re.compile(
    r"""
    (?: [ \t\n\r\f\v\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]++ | --(?:\\\n | [^\r\n])*+ )++
    """,
    re.VERBOSE,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_TOKEN = re.compile(
    r"""
      (?P<raw> [rR] (?: '[^']*+' | "[^"]*+" ) )
    | (?P<string> ' (?: [^'\\]++ | \\. | '' )*+ ' | " (?: [^"\\]++ | \\. | "" )*+ " )
    | (?P<name> ` (?: [^`]++ | `` )++ ` )
    | (?P<number>
        (?: [0-9]++ (?: \.[0-9]*+ )?+ | \.[0-9]++ ) (?: [eE][+-]?[0-9]++ )?+ (?: [bB][dD] | [lLsSyYdDfF] )? (?!\w)
      )
    | (?P<word> \w++ )
    | (?P<variable> \$\{[^\W\d]\w*+\} )
    | (?P<symbol> <=> | -> | => | := | :: | != | <> | <= | >= | == | \|\| | \|> | [-+*/%=<>!&|^~?@.,;:()\[\]] )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = {
    quote: re.compile(
        rf"\\u([0-9a-fA-F]{{4}})|\\U([0-9a-fA-F]{{8}})|\\([01][0-7]{{2}})|\\(.)|({quote}{quote})", re.DOTALL
    )
    for quote in "'\""
}
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
"""What a backslash and a character mean; any other character means itself."""
_FORBIDDEN = re.compile("[\0\ud800-\udfff]")
_OPEN = {
    "'": "a string that `'` closes",
    '"': 'a string that `"` closes',
    "`": "a name of at least one character that a backquote closes",
    "$": "a variable, as in ${name}",
}
"""For a character at which no token begins: what was expected."""


class Kind(enum.Enum):
    """`NAME` is a name in backquotes. `VARIABLE` is `${name}` outside of a string. `END` is after the last token; its
    text is empty."""

    WORD = "word"
    NAME = "name"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    VARIABLE = "variable"
    END = "end"


class Token(msgspec.Struct, frozen=True, gc=False):
    """One token.

    `text`: as written. `value`: a string or a quoted name without quotes and escapes, a variable's name, else `text`.
    `before`: the blanks and comments before it. `offset`: of its first character in the source, from 0. `line` and
    `column`: of that character, from 1; a column is a character.
    """

    kind: Kind
    text: str
    value: str
    before: str
    offset: int
    line: int
    column: int

    @property
    def place(self) -> tuple[int, int]:
        """Line and column."""
        return self.line, self.column

    @property
    def is_name(self) -> bool:
        """Whether it may name something: an unquoted word, or a name in backquotes."""
        return self.kind is Kind.WORD or self.kind is Kind.NAME

    def says(self, *words: str) -> bool:
        """Whether it is one of these keywords, given in upper case, or of these symbols."""
        if self.kind is Kind.SYMBOL:
            return self.text in words
        return self.kind is Kind.WORD and self.text.upper() in words


def tokenize(text: str) -> list[Token]:
    """The tokens, and one of kind `END` with what follows the last one. Raises SqlError."""
    _check(text)
    tokens: list[Token] = []
    for token in _read(text):
        if len(tokens) == MAX_TOKENS and token.kind is not Kind.END:
            problem = f"a text has at most {MAX_TOKENS} words, values and symbols: split it into several"
            raise error_at(text, token.place, problem, found=token.text)
        tokens.append(token)
    return tokens


def text_of(tokens: Iterable[Token]) -> str:
    """The source of these tokens: from the first to the last, with the blanks and comments between them."""
    return "".join(token.before + token.text if place else token.text for place, token in enumerate(tokens))


def source_of(tokens: Iterable[Token]) -> str:
    """The source of these tokens, and what is before the first."""
    return "".join(token.before + token.text for token in tokens)


def _check(text: str) -> None:
    """Rejects a text that is too long, or has characters that no text may have."""
    bad = _FORBIDDEN.search(text)
    if bad is not None:
        named = "a NUL character" if bad[0] == "\0" else "half a surrogate pair, which is no character"
        raise error_at(text, place_of(text, bad.start()), f"the text has {named}")
    size = len(text) if text.isascii() else len(text.encode())
    if size > MAX_BYTES:
        raise SqlError(f"the text has {size} bytes; {MAX_BYTES} are the most: split it into several", line=1, column=1)


def _read(text: str) -> Iterator[Token]:
    start, line, line_start = 0, 1, 0
    # only a text may begin with a byte order mark, not a line
    at = int(text.startswith("\ufeff"))
    while True:
        at = _after_blanks(text, at)
        before = text[start:at]
        if "\n" in before:
            line += before.count("\n")
            line_start = start + before.rfind("\n") + 1
        if at == len(text):
            yield Token(Kind.END, "", "", before, at, line, at - line_start + 1)
            return
        found = _TOKEN.match(text, at)
        if found is None:
            raise _no_token(text, at)
        written = found[0]
        kind, value = _meaning(text, at, str(found.lastgroup), written)
        yield Token(kind, written, value, before, at, line, at - line_start + 1)
        if "\n" in written:
            line += written.count("\n")
            line_start = at + written.rfind("\n") + 1
        start = at = found.end()


def _meaning(text: str, at: int, group: str, written: str) -> tuple[Kind, str]:
    """Kind and value of the token that is written at `at`."""
    if group == "raw":
        return Kind.STRING, written[2:-1]
    if group == "name":
        return Kind.NAME, written[1:-1].replace("``", "`")
    if group == "variable":
        return Kind.VARIABLE, written[2:-1]
    if group != "string":
        return Kind(group), written
    inner = written[1:-1]
    if "\\" in inner or inner.count(written[0]):
        inner = _ESCAPE[written[0]].sub(_unescape, inner)
    try:
        # a pair of \u escapes is one character; half a pair is none
        return Kind.STRING, inner.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except ValueError as error:
        raise error_at(
            text, place_of(text, at), "the string has half a surrogate pair, which is no character", found=written
        ) from error


def _unescape(found: re.Match[str]) -> str:
    short, long, octal, one, double = found.groups()
    if double is not None:
        return str(double[0])
    if one is not None:
        return _ESCAPED.get(one, one)
    code = int(octal, 8) if octal is not None else int(short or long, 16)
    return chr(code) if code <= sys.maxunicode else "\udfff"


def _after_blanks(text: str, at: int) -> int:
    """The place after blanks and comments."""
    while True:
        found = _SKIPPED.match(text, at)
        if found is not None:
            at = found.end()
        elif text.startswith("/*", at):
            at = _after_comment(text, at)
        else:
            return at


def _after_comment(text: str, at: int) -> int:
    """The place after the bracketed comment at `at`. Comments nest."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, at):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    raise error_at(text, place_of(text, at), "this comment is not closed: `*/` is missing", found="/*")


def _no_token(text: str, at: int) -> SqlError:
    one = text[at]
    if one in _OPEN:
        return unexpected(text, place_of(text, at), _OPEN[one], text[at : at + 20])
    if one in "\u2018\u2019\u201c\u201d\u00b4":
        return error_at(text, place_of(text, at), f"`{one}` is a typographic quote: write ' for a string", found=one)
    shown = f"`{one}`" if one.isprintable() else f"the character U+{ord(one):04X}"
    return error_at(text, place_of(text, at), f"{shown} has no meaning outside of strings and quoted names", found=one)
