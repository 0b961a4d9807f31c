"""Declares the keys of a pipeline file once, for the parser and for the reference.

    MODE = Choice("mode", ("append", "update"), "Whether a row is added or replaces an older one.", default="append")
    ...
    mode = MODE.of(sink)

A key is a `str`, its name, so a section accepts it as a name. `spec.reference_page` writes the reference,
docs/reference/pipelines/keys.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

from moldau.products.pipelines.core.section import UNITS_MS, Section


class Key(str):
    """`meaning`: a sentence for the reference. `default`: the value if the key is absent; None: the key is required,
    unless `absent` says in words what applies then. `values`: its type, for the reference."""

    __slots__ = ("absent", "default", "meaning", "values")

    meaning: str
    default: str | None
    absent: str
    values: str

    def __new__(
        cls, name: str, meaning: str = "", *, default: str | None = None, absent: str = "", values: str = "text"
    ) -> Self:
        key = super().__new__(cls, name)
        key.meaning, key.default, key.absent, key.values = meaning, default, absent, values
        return key

    def default_in_words(self) -> str:
        """For the reference."""
        if self.absent:
            return self.absent
        return "required" if self.default is None else f"`{self.default}`"


class Text(Key):
    """A text."""

    __slots__ = ()

    def of(self, section: Section) -> str:
        """Raises SpecError."""
        return section.text(self, default=self.default)

    def if_given(self, section: Section) -> str | None:
        """None if the key is absent. Raises SpecError."""
        return section.text(self, default="") or None


class Choice(Key):
    """One of several words."""

    __slots__ = ("choices",)

    choices: tuple[str, ...]

    def __new__(
        cls,
        name: str,
        choices: tuple[str, ...] = (),
        meaning: str = "",
        *,
        default: str | None = None,
        absent: str = "",
    ) -> Self:
        values = ", ".join(f"`{choice}`" for choice in choices)
        key = super().__new__(cls, name, meaning, default=default, absent=absent, values=values)
        key.choices = choices
        return key

    def of(self, section: Section) -> str:
        """Raises SpecError."""
        return section.choice(self, self.choices, default=self.default)


class Number(Key):
    """A whole number. `number`: the default."""

    __slots__ = ("least", "most", "number")

    number: int
    least: int
    most: int

    def __new__(
        cls, name: str, meaning: str = "", *, number: int = 0, least: int = 0, most: int = 0, absent: str = ""
    ) -> Self:
        values = f"number from {least} to {most:,}"
        key = super().__new__(cls, name, meaning, default=f"{number}", absent=absent, values=values)
        key.number, key.least, key.most = number, least, most
        return key

    def of(self, section: Section) -> int:
        """Raises SpecError."""
        return section.number(self, self.number, least=self.least, most=self.most)


class Interval(Key):
    """A time such as `10 seconds`. `default_ms`: if the key is absent."""

    __slots__ = ("default_ms",)

    default_ms: int

    def __new__(cls, name: str, meaning: str = "", *, default_ms: int = 0, absent: str = "") -> Self:
        default = _in_units(default_ms)
        key = super().__new__(cls, name, meaning, default=default, absent=absent, values="time such as `10 seconds`")
        key.default_ms = default_ms
        return key

    def of(self, section: Section) -> int:
        """In milliseconds. Raises SpecError."""
        return section.interval_ms(self, self.default_ms)


class Names(Key):
    """A name, or a list of distinct names."""

    __slots__ = ()

    def __new__(cls, name: str, meaning: str = "", *, absent: str = "none") -> Self:
        return super().__new__(cls, name, meaning, absent=absent, values="name, or list of names")

    def of(self, section: Section) -> tuple[str, ...]:
        """() if the key is absent. Raises SpecError."""
        return section.names(self)


class TopicName(Key):
    """The name of a topic."""

    __slots__ = ()

    def __new__(cls, name: str, meaning: str = "", *, absent: str = "") -> Self:
        return super().__new__(cls, name, meaning, absent=absent, values="name of a topic")

    def of(self, section: Section) -> str:
        """Raises SpecError."""
        return section.topic(self)


class LocalPath(Key):
    """A path on this machine."""

    __slots__ = ()

    def __new__(cls, name: str, meaning: str = "", *, default: str | None = None, absent: str = "") -> Self:
        return super().__new__(cls, name, meaning, default=default, absent=absent, values="path")

    def of(self, section: Section, directory: Path) -> Path:
        """`directory`: the base of relative paths. Raises SpecError."""
        return section.local_path(self, directory, self.default)


class PathOrAddress(Key):
    """A path on this machine, or the address of a folder in an object store."""

    __slots__ = ()

    def __new__(cls, name: str, meaning: str = "", *, default: str | None = None, absent: str = "") -> Self:
        return super().__new__(cls, name, meaning, default=default, absent=absent, values="path or address")

    def of(self, section: Section, directory: Path) -> str:
        """`directory`: the base of relative paths. Raises SpecError."""
        return section.place(self, directory, self.default)


class WebAddress(Key):
    """An HTTP address. `example`: one for error messages."""

    __slots__ = ("example",)

    example: str

    def __new__(cls, name: str, example: str = "", meaning: str = "", *, absent: str = "") -> Self:
        key = super().__new__(cls, name, meaning, absent=absent, values="address")
        key.example = example
        return key

    def of(self, section: Section) -> str:
        """Raises SpecError."""
        return section.web_address(self, self.example)


class MappingKey(Key):
    """`key: value` lines."""

    __slots__ = ()

    def __new__(cls, name: str, meaning: str = "", *, absent: str = "", values: str = "mapping") -> Self:
        return super().__new__(cls, name, meaning, absent=absent, values=values)

    def of(self, section: Section) -> Section:
        """Raises SpecError."""
        return section.section(self)


def _in_units(duration_ms: int) -> str:
    """In the form of a pipeline file, such as `10 seconds`."""
    unit, of_unit = max(((name, ms) for name, ms in UNITS_MS.items() if duration_ms % ms == 0), key=lambda one: one[1])
    number = duration_ms // of_unit
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"
