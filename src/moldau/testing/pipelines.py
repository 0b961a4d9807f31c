"""Runs the tests of a pipeline file under pytest:

@pytest.mark.parametrize("case", pipeline_tests("orders.yaml"), ids=str)
def test_orders(case):
    case.check()
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from moldau.extras import require_extra

require_extra("moldau.testing.pipelines", "spark")

from moldau.products.pipelines.core.case import Case
from moldau.products.pipelines.looking.testing import failures_of
from moldau.products.pipelines.spec.spec import PipelineSpec, load_spec


class PipelineTest(msgspec.Struct, frozen=True):
    """One test of a pipeline. `str` of it is its name."""

    spec: PipelineSpec
    case: Case

    def __str__(self) -> str:
        return self.case.name

    def check(self) -> None:
        """Raises AssertionError with the line in the pipeline file and a diff of rows. The first check of a process
        starts Spark."""
        failures = failures_of(self.spec, self.case)
        if failures:
            raise AssertionError("\n".join(failures))


def pipeline_tests(file: str | os.PathLike[str], parameters: Mapping[str, str] | None = None) -> list[PipelineTest]:
    """The tests of a pipeline, in file order. `parameters`: the values of `${NAME}`. Raises SpecError."""
    spec = load_spec(Path(file), parameters)
    return [PipelineTest(spec, case) for case in spec.cases]
