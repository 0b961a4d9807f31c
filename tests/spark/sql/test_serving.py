"""The leader of a SQL service is killed while its queries run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.sql.kills import Campaign, Plan

pytestmark = pytest.mark.slow


def test_no_statement_and_no_record_is_lost_or_doubled_when_the_leader_is_killed(tmp_path: Path) -> None:
    assert Campaign(Plan(records=2_000, kills=1, seed=1, victims=("leader",)), tmp_path).run() == []
