"""The base class of formats.

To add one, write a module beside this one with one subclass of `Format`: the word of the pipeline that asks for it
(`NAMED_BY`), the keys that describe it (`KEYS`, `parse`), and `decoded`.
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
"""The key of a source and of a topic that names the format; which ones it may name differs."""
CORRUPT_COLUMN = "_moldau_corrupt"
DOES_NOT_PARSE = f"_value is null or _value.{CORRUPT_COLUMN} is not null"
"""Of `decoded`: no value, or one that is not of the format or does not fit its schema."""


class Format(msgspec.Struct, frozen=True, kw_only=True):
    NAMED_BY: ClassVar[str]
    KEYS: ClassVar[tuple[Key, ...]]

    @classmethod
    @abstractmethod
    def parse(cls, section: Section, directory: Path) -> Format:
        """What the pipeline file says; relative paths count from `directory`. Raises SpecError."""

    def facts(self) -> Facts:
        """What decides which rows there are."""
        fields = msgspec.structs.asdict(self)
        return {name: None if fact is None else str(fact) for name, fact in fields.items()}

    def columns(self) -> Mapping[str, str] | None:
        """The fields and their Spark types, where the pipeline file itself declares them."""
        return None

    @abstractmethod
    def decoded(self, records: DataFrame) -> DataFrame:
        """Adds the column `_value` to records with a column `value` (bytes or text): a struct of the fields, and of
        CORRUPT_COLUMN, which is not null where the value could not be decoded."""

    @abstractmethod
    def reason(self) -> str:
        """As SQL over `decoded`: why DOES_NOT_PARSE."""
