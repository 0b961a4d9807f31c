"""Finds mistakes in a pipeline file on this machine without Spark, within milliseconds."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.products.pipelines.core.section import SpecError
from moldau.products.pipelines.core.select import plain_select
from moldau.products.pipelines.spec.spec import PipelineSpec
from moldau.products.pipelines.targets.target import TargetError
from moldau.types import hint

NOT_LOOKED_AT = "the SQL but for misspelt columns, and whatever other machines hold: `moldau pipeline plan` does"


def check_offline(spec: PipelineSpec, *, on_server: bool = False) -> None:
    """Checks the declared columns, and the rights to write to the targets. Creates and opens nothing. `on_server`:
    another process writes, perhaps on another machine. Raises SpecError."""
    _check_columns(spec)
    for query in () if on_server else spec.queries:
        try:
            query.target.check_rights()
        except TargetError as error:
            step = query.step.target
            raise SpecError(f"{spec.file_name}:{step.line}: `{step.place}`: {error}") from error


def _check_columns(spec: PipelineSpec) -> None:
    """Raises SpecError. Leaves uncertain cases to Spark: see `core.select`."""
    views: dict[str, Sequence[str] | None] = {name: source.columns() for name, source in spec.sources().items()}
    for flow in spec.plan.flows:
        select = None if flow.name in spec.functions else plain_select(flow.text, views)
        for name, near in () if select is None else select.unknown():
            raise SpecError(
                f"{spec.file_name}:{flow.line}: `{flow.place}`: there is no column `{name}`; did you mean `{near}`?"
            )
        views[flow.name] = None if select is None else select.gives()
    for query in spec.queries:
        step = query.step.target
        given = views.get(step.reads)
        giver = f"`{step.reads}`" if step.reads in spec.sources() else "the SQL"
        for name in () if given is None else query.target.key_columns():
            if name.lower() not in {column.lower() for column in given or ()}:
                raise SpecError(
                    f"{spec.file_name}:{step.line}: `{step.place}`: `key` names the column {name!r}, but "
                    f"{giver} gives {', '.join(given or ())}{hint(name, given or ())}"
                )
