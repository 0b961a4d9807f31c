"""A transactional copy through kills of copier and broker has every record once (`make exactly-once` runs longer)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.exactly_once.campaign import Campaign, Plan
from tests.exactly_once.copiers import librdkafka


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
