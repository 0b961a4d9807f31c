"""Tokens of SQL: kinds, values, places, and the source between them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.tokens import MAX_BYTES, MAX_TOKENS, Kind, Token, source_of, text_of, tokenize

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)
PIECES = st.lists(
    st.sampled_from(
        ["'", '"', "`", "--", "/*", "*/", "\n", "\r\n", " ", "a", "1", "1.5e3L", "'it''s'", "`q`", "${v}", "$", "->",
         ":=", "=>", "::", "||", ";", "\\", "\\'", "é", "r'\\'", "(", ")", ".", "x'1f'", "\ufeff", "\0", "\ud800"]
    ),
    max_size=12,
).map("".join)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("select", Kind.WORD, "select"),
        ("größe_1", Kind.WORD, "größe_1"),
        ("1st", Kind.WORD, "1st"),
        ("`a``b c`", Kind.NAME, "a`b c"),
        ("'it''s'", Kind.STRING, "it's"),
        ("''", Kind.STRING, ""),
        ("''''", Kind.STRING, "'"),
        ("'a\"\"b'", Kind.STRING, 'a""b'),
        ('"a""b\'\'c"', Kind.STRING, "a\"b''c"),
        (r"'\n\t\'\\\d\%\_'", Kind.STRING, "\n\t'\\d\\%\\_"),
        (r"'\u00e9\U0001F600\101'", Kind.STRING, "é😀A"),
        (r"'\ud83d\ude00'", Kind.STRING, "😀"),
        (r"r'\d+\'", Kind.STRING, r"\d+" + "\\"),
        (r'R"\n"', Kind.STRING, r"\n"),
        ("'a;--b/*c'", Kind.STRING, "a;--b/*c"),
        ("'two\nlines'", Kind.STRING, "two\nlines"),
        ("12", Kind.NUMBER, "12"),
        ("1.5e-3", Kind.NUMBER, "1.5e-3"),
        (".5BD", Kind.NUMBER, ".5BD"),
        ("3L", Kind.NUMBER, "3L"),
        ("${my_var}", Kind.VARIABLE, "my_var"),
        *[(symbol, Kind.SYMBOL, symbol) for symbol in ("->", ":=", "=>", "!=", "<>", "::", "||", "<=>", "==", "|>")],
    ],
)
def test_a_token_has_a_kind_and_a_value(text, kind, value):
    token, end = tokenize(text)
    assert (token.kind, token.text, token.value) == (kind, text, value)
    assert (end.kind, end.text, end.offset) == (Kind.END, "", len(text))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("a->b", ["a", "->", "b"]),
        ("t.1st", ["t", ".", "1st"]),
        ("1.foo", ["1", ".", "foo"]),
        ("a<b>>c", ["a", "<", "b", ">", ">", "c"]),
        ("x::int", ["x", "::", "int"]),
        ("a-1", ["a", "-", "1"]),
        ("a--1\nb", ["a", "b"]),
        ("a/*x/*y*/z*/b", ["a", "b"]),
        ("a -- b \\\n still\nc", ["a", "c"]),
        ("\ufeffa\u00a0b", ["a", "b"]),
        ("'a' 'b'", ["'a'", "'b'"]),
        ("x'1F'", ["x", "'1F'"]),
    ],
)
def test_tokens_end_where_sparks_do(text, tokens):
    assert [token.text for token in tokenize(text)[:-1]] == tokens


def test_a_token_knows_its_place():
    text = "SELECT a, -- one\r\n  /* two\n */ 'x\ny' b\n;"
    places = [(token.text, token.offset, token.line, token.column) for token in tokenize(text)]
    assert places == [
        ("SELECT", 0, 1, 1),
        ("a", 7, 1, 8),
        (",", 8, 1, 9),
        ("'x\ny'", 31, 3, 5),
        ("b", 37, 4, 4),
        (";", 39, 5, 1),
        ("", 40, 5, 2),
    ]


def test_a_byte_order_mark_is_a_blank_before_the_first_token_only():
    assert source_of(tokenize("\ufeff a")) == "\ufeff a"
    with pytest.raises(SqlError, match=r"U\+FEFF has no meaning"):
        tokenize("a \ufeff")


def test_the_source_between_two_tokens_is_kept():
    tokens = tokenize(" /* a */ SELECT  x -- b\n + 1 FROM t ; ")
    assert text_of(tokens[1:4]) == "x -- b\n + 1"
    assert source_of(tokens[1:4]) == "  x -- b\n + 1"


def tokens_or_error(text: str) -> list[Token] | SqlError:
    try:
        return tokenize(text)
    except SqlError as error:
        return error


@given(st.one_of(ANY_TEXT, PIECES))
def test_any_text_is_its_tokens_or_an_error_at_a_place(text):
    found = tokens_or_error(text)
    if isinstance(found, SqlError):
        lines = text.split("\n")
        assert 1 <= found.line <= len(lines)
        assert 1 <= found.column <= len(lines[found.line - 1]) + 1
        str(found).encode()
        found.picture.encode()
    else:
        assert source_of(found) == text
        assert all(text[token.offset :].startswith(token.text) for token in found)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [("a\nb\0", 2, 2), ("'\ud800'", 1, 2), ("-- \udfff", 1, 4), ("x\n\n  'abc", 3, 3), ("/* a\n", 1, 1)],
)
def test_characters_that_no_text_has_are_rejected_at_their_place(text, line, column):
    with pytest.raises(SqlError) as caught:
        tokenize(text)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_a_text_has_at_most_one_mebibyte():
    assert len(tokenize("-" * MAX_BYTES)) == 1
    with pytest.raises(SqlError, match=f"{MAX_BYTES + 1} bytes"):
        tokenize("-" * (MAX_BYTES + 1))
    with pytest.raises(SqlError, match="split it"):
        tokenize("--" + "é" * (MAX_BYTES // 2))


def test_a_text_has_a_bounded_number_of_tokens():
    assert len(tokenize("a," * (MAX_TOKENS // 2))) == MAX_TOKENS + 1
    with pytest.raises(SqlError, match=f"line 2, column 1: a text has at most {MAX_TOKENS} words"):
        tokenize("a," * (MAX_TOKENS // 2) + "\nb")
