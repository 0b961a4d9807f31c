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
    """The place cannot be this pipeline's target, or could not take a batch; the message says why."""


def refuse_double_columns(names: Sequence[str], *, in_any_case: bool = True) -> None:
    """`names`: the columns of the SQL's result. `in_any_case`: whether two names that differ in upper and lower case
    alone are one. Raises FlowError."""
    double = double_name(names, in_any_case=in_any_case)
    if double is not None:
        raise FlowError(f"the SQL gives two columns {double[1]!r}: give each its own name (`as`)")


def refuse_empty_structs(columns: Sequence[tuple[str, str]], place: str) -> None:
    """`columns`: names and types of the SQL's result, as Spark has them. Parquet has no struct without fields: a
    Protobuf message or an Avro record may be one. Raises FlowError."""
    for name, kind in columns:
        if "struct<>" in kind:
            raise FlowError(
                f"the column {name!r} has the type {kind}, and {place} has no struct without fields: leave the column "
                f"out, or select whether it is there (`{name} is not null`)"
            )


NANOSECOND_TIME = r"time\([789]\)"
"""A time of day with more digits than tables keep, for `refuse_types`."""


def refuse_types(result: DataFrame, lacks: Sequence[str], where: str) -> None:
    """`lacks`: types of Spark, as regular expressions of how they begin. `where`: the place that has no columns for
    them. Raises FlowError for a column of such a type, or that has one inside."""
    lacked = re.compile(rf"(^|[<,:])({'|'.join(lacks)})(?![\w:])")  # a field has its name and a colon before it
    for name, kind in result.dtypes:
        found = lacked.search(kind) if lacks else None
        if found is not None:
            raise FlowError(
                f"the column {name!r} has the type {kind}, and `{where}` has none for {found[2]}: cast it to another"
            )


class TargetQuery(msgspec.Struct, frozen=True):
    """Whose rows a target takes. `spec`: the name of the whole pipeline; `pipeline`: the query's name, its own among
    those of the pipeline. `checkpoint_id`: another checkpoint counts its batches from 0 again. `group`: where the query
    shows how far it is; `metadata`: what stands there beside the offsets. `source_topics`: regular expressions of the
    whole names of the topics that the query reads on the cluster of `access`."""

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
    """Whose place it is where a target writes. `release`: what somebody does who knows that it is not, or no more.
    `is_query`: `pipeline` is the name of one of its queries."""

    pipeline: str
    release: str
    is_query: bool = False

    def is_of(self, name: str) -> bool:
        """Whether the pipeline of that name writes there. (A target may have had another name when its query wrote.)"""
        return self.pipeline == name or (self.is_query and self.pipeline.startswith(f"{name}."))


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """`topic`: the one that must be there before Spark starts. `access`: to its cluster; None: to the pipeline's."""

    NAMED_BY: ClassVar[Key]
    """The key of the pipeline's target that asks for this kind."""
    KEYS: ClassVar[tuple[Key, ...]] = (MODE,)
    """What else may stand in such a target."""
    NEEDS_DRIVER: ClassVar[bool] = False
    """Whether the rows go to the process that runs the pipeline, and so not to one of a Spark Connect server."""

    mode: str
    topic: str | None = None
    access: ClusterAccess | None = None

    @classmethod
    @abstractmethod
    def parse(cls, sink: Section, directory: Path) -> Target:
        """What the pipeline file says; relative paths count from `directory`. Raises SpecError."""

    @staticmethod
    def parse_mode(sink: Section) -> str:
        return MODE.of(sink)

    @abstractmethod
    def describe(self) -> tuple[str, str]:
        """Where the rows go, and how often each gets there, for people."""

    def facts(self) -> Facts:
        """What decides, beside the mode, which rows are written: with any of it changed, an old checkpoint has no
        meaning."""
        return {}

    def newest(self, result: DataFrame) -> DataFrame:
        """Where the pipeline asks for it, the newest row of each key of all that the query has read."""
        return result

    def check(self) -> None:
        """Called before anything else. Raises MoldauError where the target cannot be this pipeline's."""

    def check_rights(self) -> None:
        """Whether rows could be written there, on this machine, told without making or changing anything. Raises
        TargetError."""

    def key_columns(self) -> tuple[str, ...]:
        """The columns of the SQL's result that the pipeline names as the key."""
        return ()

    def places(self) -> tuple[str, ...]:
        """Where the rows of one pipeline alone may be, in words that are the same in every pipeline file; () where
        several may write, as to a topic."""
        return ()

    def owner(self) -> Owner | None:
        """Whose place it is, as `claim` left it there. Raises MoldauError."""
        return None

    def claim(self, pipeline: str) -> None:
        """Leaves the name of the pipeline at a place that is nobody's. A new checkpoint changes nothing about it.
        Raises MoldauError."""

    def rows_of(self, result: DataFrame) -> DataFrame:
        """What is written of the result of the pipeline's SQL, or of `newest` of it. Raises FlowError."""
        return result

    @property
    def commits_offsets(self) -> bool:
        """Whether the writer itself commits a batch's source offsets to the group."""
        return False

    @abstractmethod
    def writer(self, query: TargetQuery) -> Callable[[DataFrame, int], None]:
        """Writes the batch of a number: when it returns, the batch is safe. Raises MoldauError."""
