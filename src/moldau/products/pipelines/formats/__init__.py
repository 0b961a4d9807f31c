"""How the bytes of a record become the columns of a row: each module here is a format, and is found by being here."""

from __future__ import annotations

from pathlib import Path

from moldau.products.pipelines.core.kinds import kinds_in
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.formats.decoder import Decoder


def all_decoders() -> dict[str, type[Decoder]]:
    """By the names of their formats."""
    return {kind.NAMED_BY: kind for kind in kinds_in(__name__, __path__) if issubclass(kind, Decoder)}


def decoder_keys() -> tuple[str, ...]:
    """The keys of a page that belong to a format."""
    return tuple(dict.fromkeys(key for kind in all_decoders().values() for key in kind.KEYS))


def parse_decoder(section: Section, name: str, directory: Path) -> Decoder | None:
    """That of the format `name`, as the page describes it; None for a format whose records are rows as they are.
    `directory`: where relative paths begin. Raises PageError."""
    kind = all_decoders().get(name)
    known = kind.KEYS if kind is not None else ()
    for key in decoder_keys():
        if section.has(key) and key not in known:
            section.refuse(key, f"has no meaning for the format {name}")
    return kind.parse(section, directory) if kind is not None else None
