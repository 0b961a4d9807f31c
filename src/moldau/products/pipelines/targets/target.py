"""The base class of targets. Each kind is a module of this package."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec

from moldau.client.protocol.access import ClusterAccess
from moldau.errors import MoldauError
from moldau.products.pipelines.core.column_types import double_name
from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.keys import Choice, Key
from moldau.products.pipelines.core.plan import Facts
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.core.times import DEFAULT_TIMES, SourceTimes

if TYPE_CHECKING:
    from moldau.spark import DataFrame

MODE = Choice(
    "mode",
    ("append", "update"),
    "`append`: each row is another one; `update`: a row is written again when its aggregate changes.",
    default="append",
)


class TargetError(MoldauError):
    """The place cannot be this pipeline's target, or could not accept a batch; the message says why."""


def refuse_double_columns(names: Sequence[str], *, in_any_case: bool = True) -> None:
    """`names`: the columns of the SQL's result. `in_any_case`: whether names that differ only in case are the same.
    Raises FlowError."""
    double = double_name(names, in_any_case=in_any_case)
    if double is not None:
        raise FlowError(f"the SQL gives two columns {double[1]!r}: give each its own name (`as`)")


def refuse_empty_structs(columns: Sequence[tuple[str, str]], place: str) -> None:
    """`columns`: names and Spark types of the SQL's result. Parquet has no struct without fields, which a Protobuf
    message or an Avro record may be. Raises FlowError."""
    for name, kind in columns:
        if "struct<>" in kind:
            raise FlowError(
                f"the column {name!r} has the type {kind}, and {place} has no struct without fields: leave the column "
                f"out, or select whether it is there (`{name} is not null`)"
            )


NANOSECOND_TIME = r"time\([789]\)"
"""A time of day with more digits than tables store, for `refuse_types`."""


def refuse_types(result: DataFrame, lacks: Sequence[str], where: str) -> None:
    """`lacks`: regular expressions for the beginnings of Spark types. `where`: the target that lacks them. Raises
    FlowError for a column of such a type, or with one nested in it."""
    lacked = re.compile(rf"(^|[<,:])({'|'.join(lacks)})(?![\w:])")  # a field's type comes after its name and a colon
    for name, kind in result.dtypes:
        found = lacked.search(kind) if lacks else None
        if found is not None:
            raise FlowError(
                f"the column {name!r} has the type {kind}, and `{where}` has none for {found[2]}: cast it to another"
            )


class TargetQuery(msgspec.Struct, frozen=True):
    """The query whose rows a target gets. `spec`: the name of the whole pipeline; `pipeline`: the query's name, unique
    in the pipeline. `checkpoint_id`: batches count from 0 for each checkpoint. `group`: for the query's progress;
    `metadata`: committed with its offsets. `source_topics`: regular expressions for the whole names of the topics that
    the query reads on the cluster of `access`."""

    spec: str
    pipeline: str
    checkpoint: Path
    checkpoint_id: str
    group: str
    access: ClusterAccess
    transactional_id: str
    times: SourceTimes = DEFAULT_TIMES
    metadata: str = ""
    source_topics: tuple[str, ...] = ()


class Owner(msgspec.Struct, frozen=True):
    """The owner of a target's place. `release`: how a person can release the place, if the owner does not write there
    any more. `is_query`: `pipeline` is the name of one of its queries."""

    pipeline: str
    release: str
    is_query: bool = False

    def is_of(self, name: str) -> bool:
        """Whether the owner is the pipeline of that name. (Its query may have written under another target name.)"""
        return self.pipeline == name or (self.is_query and self.pipeline.startswith(f"{name}."))


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """`topic`: one that must exist before Spark starts. `access`: to its cluster; None: to the pipeline's."""

    NAMED_BY: ClassVar[Key]
    """The key of the pipeline file that selects this kind."""
    KEYS: ClassVar[tuple[Key, ...]] = (MODE,)
    """The other keys of such a target."""
    NEEDS_DRIVER: ClassVar[bool] = False
    """Whether the rows must reach the process that runs the pipeline, which excludes a Spark Connect server."""

    mode: str
    topic: str | None = None
    access: ClusterAccess | None = None

    @classmethod
    @abstractmethod
    def parse(cls, sink: Section, directory: Path) -> Target:
        """From the keys of the pipeline file; `directory` is the base of relative paths. Raises SpecError."""

    @staticmethod
    def parse_mode(sink: Section) -> str:
        return MODE.of(sink)

    @abstractmethod
    def describe(self) -> tuple[str, str]:
        """The destination of the rows, and how often each is delivered, for people."""

    def facts(self) -> Facts:
        """Besides the mode, the facts that decide which rows are written: if one changes, an old checkpoint is
        invalid."""
        return {}

    def newest(self, result: DataFrame) -> DataFrame:
        """If the pipeline asks for it, the newest row of each key among all rows that the query has read."""
        return result

    def check(self) -> None:
        """Called before anything else. Raises MoldauError if this cannot be the pipeline's target."""

    def check_rights(self) -> None:
        """Checks whether this machine may write rows there, without creating or changing anything. Raises
        TargetError."""

    def key_columns(self) -> tuple[str, ...]:
        """The columns of the SQL's result that are the pipeline's key."""
        return ()

    def places(self) -> tuple[str, ...]:
        """The places that only one pipeline may write to, in the same form in every pipeline file. () if several may
        write, as to a topic."""
        return ()

    def owner(self) -> Owner | None:
        """The owner from `claim`. Raises MoldauError."""
        return None

    def claim(self, pipeline: str) -> None:
        """Stores the pipeline's name at a place without an owner. A new checkpoint does not change the owner. Raises
        MoldauError."""

    def rows_of(self, result: DataFrame) -> DataFrame:
        """The rows to write, from the result of the pipeline's SQL, or from `newest`. Raises FlowError."""
        return result

    @property
    def commits_offsets(self) -> bool:
        """Whether the writer itself commits a batch's source offsets to the group."""
        return False

    @abstractmethod
    def writer(self, query: TargetQuery) -> Callable[[DataFrame, int], None]:
        """A function that writes a batch with its number; when it returns, the batch is safe. Raises MoldauError."""
