"""Numbers and foreign text in readable form. Nothing here raises; the result is plain text, to be escaped."""

from __future__ import annotations

import unicodedata

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def visible(text: str) -> str:
    """Shows control, format and surrogate characters as \\x.. : an override of the writing direction could falsify the
    rest of the line."""
    return "".join(
        character if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )  # fmt: skip


def show_size(count: float | None) -> str:
    """Bytes: `1.5 MiB`; a dash for an unknown size."""
    if count is None or count < 0:
        return "–"
    size = float(count)
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    return ""


def show_count(count: float | None) -> str:
    """`12,345`; a dash for an unknown count."""
    return "–" if count is None else f"{count:,.0f}"


def show_duration(seconds: int | None) -> str:
    """`45 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`; a dash for an unknown duration."""
    if seconds is None:
        return "–"
    for size, unit, smaller, smaller_unit in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = seconds % size // smaller
            return f"{seconds // size} {unit} {rest} {smaller_unit}" if rest else f"{seconds // size} {unit}"
    return f"{seconds} s"


def show_rate(rate: float | None) -> str:
    """A rate per second: `12.3k`."""
    if rate is None:
        return "–"
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if rate >= factor:
            return f"{rate / factor:.1f}{unit}"
    return f"{rate:.1f}" if 0 < rate < 10 else f"{rate:.0f}"
