"""A broken rule, as the simulator reports it."""

from __future__ import annotations


class ViolationError(Exception):
    """`rule` is the name of the invariant; `detail` is the place and the values."""

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule
        self.detail = detail
