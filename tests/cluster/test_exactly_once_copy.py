"""A transactional copy has every record once after kills of copier and broker (`make exactly-once` runs longer)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.exactly_once.campaign import Campaign, Plan
from tests.exactly_once.copiers import CopierKind, librdkafka


@pytest.mark.slow
@pytest.mark.parametrize("is_member", [False, True], ids=["assigned", "member of a group"])
def test_a_copy_through_kills_has_every_record_once(tmp_path: Path, is_member: bool) -> None:
    plan = Plan(
        10_000,
        copier_kills=4,
        broker_kills=2,
        seed=20_26,
        kind=librdkafka(is_member=is_member),
        after_commit_s=(0.05, 0.6),
        broker_arguments=("--set", "log.segment.bytes=1048576"),
    )
    campaign = Campaign(plan, str(tmp_path / "data"))
    assert campaign.run() == []
    assert (campaign.copiers_killed, campaign.broker_kills_due) == (4, set())


def test_a_copier_that_ended_by_itself_is_not_one_that_was_killed(tmp_path: Path) -> None:
    def command(*names: object) -> list[str]:
        return [sys.executable, "-c", "print('committed')"]

    kind = CopierKind(1, command, lambda line: line == "committed", lambda line: False)
    plan = Plan(10, copier_kills=1, broker_kills=0, seed=1, kind=kind, after_commit_s=(30.0, 30.0))
    campaign = Campaign(plan, str(tmp_path / "data"))
    try:
        campaign.one_life()
        assert (campaign.copiers_killed, campaign.copier_deaths) == (0, 1)
    finally:
        campaign.close()
