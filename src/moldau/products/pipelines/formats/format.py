"""The base class of formats.

To add one, write a module in this package with one subclass of `Format`: its name in pipeline files (`NAMED_BY`), the
keys that describe it (`KEYS`, `parse`), and `decoded`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec

from moldau.products.pipelines.core.keys import Key
from moldau.products.pipelines.core.plan import Facts
from moldau.products.pipelines.core.section import Section

if TYPE_CHECKING:
    from moldau.spark import DataFrame

FORMAT = "format"
"""The key of a source or topic that names its format. The allowed formats differ."""
CORRUPT_COLUMN = "_moldau_corrupt"
DOES_NOT_PARSE = f"_value is null or _value.{CORRUPT_COLUMN} is not null"
"""SQL over `decoded`: the record has no value, or its value is not of the format or does not fit the schema."""


class Format(msgspec.Struct, frozen=True, kw_only=True):
    NAMED_BY: ClassVar[str]
    KEYS: ClassVar[tuple[Key, ...]]

    @classmethod
    @abstractmethod
    def parse(cls, section: Section, directory: Path) -> Format:
        """From the keys of the pipeline file; `directory` is the base of relative paths. Raises SpecError."""

    def facts(self) -> Facts:
        """The facts that decide which rows exist."""
        fields = msgspec.structs.asdict(self)
        return {name: None if fact is None else str(fact) for name, fact in fields.items()}

    def columns(self) -> Mapping[str, str] | None:
        """The fields and their Spark types, if the pipeline file declares them."""
        return None

    @abstractmethod
    def decoded(self, records: DataFrame) -> DataFrame:
        """Adds the column `_value` to records with a column `value` (bytes or text): a struct of the fields, and of
        CORRUPT_COLUMN, which is not null if the value could not be decoded."""

    @abstractmethod
    def reason(self) -> str:
        """SQL over `decoded`: the reason for DOES_NOT_PARSE."""
