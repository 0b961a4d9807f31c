"""The data source that a section of a pipeline file names: a class of Python, or a format of Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from moldau.client.protocol.secrets import may_be_secret
from moldau.products.pipelines.core.keys import MappingKey, Text
from moldau.products.pipelines.core.section import Section

if TYPE_CHECKING:
    from moldau.spark import DataSource

DATASOURCE = Text(
    "datasource",
    "A [data source](sources.md#data-sources): `module:Class`, the name of a connector, or a format of Spark.",
)
OPTIONS = MappingKey("options", "The options of the data source, as `name: value` lines.", absent="none")


class NamedDataSource(msgspec.Struct, frozen=True):
    """`directory`: of the pipeline file, where a module may be."""

    name: str
    options: tuple[tuple[str, str], ...]
    directory: Path

    @classmethod
    def parse(cls, section: Section, directory: Path) -> NamedDataSource:
        """Raises SpecError."""
        options: tuple[tuple[str, str], ...] = ()
        if section.has(OPTIONS):
            given = OPTIONS.of(section)
            options = tuple((name, given.text(name, may_be_blank=True)) for name in given.entries())
        return cls(DATASOURCE.of(section), options, directory)

    def find(self) -> type[DataSource] | None:
        """The class; None for a format that only Spark can know. Raises ConfigError."""
        from moldau.connect.contract.finding import find, installed, names_of

        if ":" not in self.name and not any(one in installed() for one in names_of(self.name)):
            return None
        with _importable(self.directory):
            return find(self.name)

    def facts(self) -> dict[str, str | None]:
        """Options with a secret's name are left out."""
        shown = [f"{name}={value}" for name, value in sorted(self.options) if not may_be_secret(name)]
        return {DATASOURCE: self.name, OPTIONS: ", ".join(shown) or None}


@contextmanager
def _importable(directory: Path) -> Iterator[None]:
    """Modules of the directory can be imported, before others of their names."""
    sys.path.insert(0, str(directory))
    try:
        yield
    finally:
        sys.path.remove(str(directory))
