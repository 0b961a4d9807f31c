"""The text that a rewrite makes, piece by piece: where each piece comes from, and how lines stay where they were."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence

import msgspec

from moldau.products.sql.language.tokens import Token

_PART = re.compile(r"@(\*|\d+\*|\d+)(?:\.(\w+))?")


class Piece(msgspec.Struct, frozen=True, gc=False):
    """`text` comes from `offset` of the source. `is_blank`: blanks and comments between tokens. `is_copy`: the source
    has this very text there."""

    text: str
    offset: int
    is_blank: bool = False
    is_copy: bool = False


class Argument(msgspec.Struct, frozen=True):
    """An argument of a call, rewritten. Of a lambda, `pieces` is the body and `parameters` its names.

    `is_primary`: it needs no parentheses next to an operator.
    """

    pieces: tuple[Piece, ...]
    is_primary: bool = False
    parameters: tuple[str, ...] = ()


class Place(msgspec.Struct, frozen=True, gc=False):
    """Where `start` of the output comes from."""

    start: int
    offset: int
    is_copy: bool


def copied(token: Token) -> list[Piece]:
    """The token as it stands, and what is before it."""
    text = Piece(token.text, token.offset, is_copy=True)
    if not token.before:
        return [text]
    return [Piece(token.before, token.offset - len(token.before), is_blank=True, is_copy=True), text]


def replaced(token: Token, text: str) -> list[Piece]:
    """Another text in the token's place."""
    return [*copied(token)[:-1], Piece(text, token.offset)]


def text_of_pieces(pieces: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def stripped(pieces: Sequence[Piece]) -> list[Piece]:
    """Without the blanks before and after."""
    start, end = 0, len(pieces)
    while start < end and pieces[start].is_blank:
        start += 1
    while end > start and pieces[end - 1].is_blank:
        end -= 1
    return list(pieces[start:end])


def on_one_line(pieces: Sequence[Piece]) -> list[Piece]:
    """The same SQL on one line, without comments and outer blanks. Line ends in strings become `\\n`."""
    return [_flat(piece) for piece in stripped(pieces)]


def _flat(piece: Piece) -> Piece:
    if piece.is_blank:
        needless = "\n" in piece.text or "/*" in piece.text or "--" in piece.text
        return Piece(" ", piece.offset, is_blank=True) if needless else piece
    if "\n" in piece.text and piece.text[0] in "'\"":
        return Piece(piece.text.replace("\n", "\\n"), piece.offset)
    return piece


def filled(template: str, arguments: Sequence[Argument], offset: int) -> list[Piece]:
    """The template with its arguments. What is not of an argument comes from `offset`."""
    pieces: list[Piece] = []
    at = 0
    for part in _PART.finditer(template):
        pieces.append(Piece(template[at : part.start()], offset))
        at = part.end()
        among, field = part[1], part[2]
        if among.endswith("*"):
            listed = [_written(one, offset, bare=True) for one in arguments[int(among[:-1] or 0) :]]
            for place, one in enumerate(listed):
                pieces.extend([Piece(", ", offset), *one] if place else one)
            continue
        bare = template[: part.start()].rstrip()[-1:] in ("(", ",") and template[at:].lstrip()[:1] in (")", ",")
        argument = arguments[int(among)]
        if field is None:
            pieces.extend(_written(argument, offset, bare=bare))
        elif field == "body":
            pieces.extend(on_one_line(argument.pieces))
        else:
            names = argument.parameters[:1] if field == "first" else argument.parameters[1:]
            pieces.append(Piece(", ".join(names), offset))
    pieces.append(Piece(template[at:], offset))
    return [piece for piece in pieces if piece.text]


def _written(argument: Argument, offset: int, *, bare: bool) -> list[Piece]:
    pieces = on_one_line(argument.pieces)
    if argument.parameters:
        names = ", ".join(argument.parameters)
        return [Piece(f"({names}) -> " if len(argument.parameters) > 1 else f"{names} -> ", offset), *pieces]
    if bare or argument.is_primary:
        return pieces
    return [Piece("(", offset), *pieces, Piece(")", offset)]


def places_of(pieces: Iterable[Piece]) -> tuple[Place, ...]:
    """Where each piece starts in the output."""
    places, start = [], 0
    for piece in pieces:
        places.append(Place(start, piece.offset, piece.is_copy))
        start += len(piece.text)
    return tuple(places)


def source_offset(places: Sequence[Place], offset: int) -> int:
    """The offset in the source from which `offset` of the output comes."""
    if not places:
        return 0
    place = places[max(0, bisect_right(places, offset, key=lambda one: one.start) - 1)]
    return place.offset + (offset - place.start if place.is_copy else 0)


def offset_of(text: str, line: int, column: int) -> int:
    """The offset of a line and column, both from 1; of the last character if the text has no such place."""
    lines = text.split("\n")
    if line > len(lines):
        return len(text)
    return sum(len(one) + 1 for one in lines[: line - 1]) + min(column - 1, len(lines[line - 1]))
