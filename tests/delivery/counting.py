"""How many records are lost or repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec


class Outcome(msgspec.Struct, frozen=True):
    """What kills did to the records of one program. `promised`: the records that a producer was told are written, or
    that a consumer should handle. `lost`: of those, the ones that are not there. `repeated`: copies beyond the first.
    `failed`: what a producer was told is not written; `failed_but_there`: of those, the ones that are."""

    program: str
    kills: int
    promised: int
    lost: int
    repeated: int
    failed: int = 0
    failed_but_there: int = 0

    def __str__(self) -> str:
        return (
            f"{self.program}: {self.kills} kills, {self.promised} records, {self.lost} lost, {self.repeated} repeated"
        )


def judge(
    program: str, kills: int, promised: Iterable[int], found: Iterable[int], failed: Iterable[int] = ()
) -> Outcome:
    """`found`: the number of each record or effect that is there, each time that it is."""
    wanted, there, not_written = set(promised), Counter(found), set(failed)
    return Outcome(
        program,
        kills,
        promised=len(wanted),
        lost=len(wanted - there.keys()),
        repeated=there.total() - len(there),
        failed=len(not_written),
        failed_but_there=len(not_written & there.keys()),
    )
