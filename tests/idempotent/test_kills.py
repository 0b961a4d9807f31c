"""Five kills of each client and of each outbox in CI; `make kills-idempotent` and `make kills-outbox` have more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.idempotent.kills import CLIENTS, Campaign, Plan
from tests.idempotent.outbox_kills import OutboxCampaign
from tests.support.postgresql import PostgresqlServer

RECORDS, KILLS = 1000, 5


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
def test_each_payment_counts_once_through_kills(postgresql: PostgresqlServer, tmp_path: Path, client: str) -> None:
    assert Campaign(Plan(RECORDS, KILLS, 7, client), tmp_path, postgresql).run() == []


@pytest.mark.slow
def test_offsets_in_sqlite_count_each_payment_once_through_kills(tmp_path: Path) -> None:
    plan = Plan(RECORDS, KILLS, 8, database="sqlite", offsets="database")
    assert Campaign(plan, tmp_path, None).run() == []


@pytest.mark.slow
def test_the_loop_without_the_library_counts_payments_twice(postgresql: PostgresqlServer, tmp_path: Path) -> None:
    plan = Plan(RECORDS, 0, 7, is_naive=True)
    first, *_ = Campaign(plan, tmp_path, postgresql).run()
    assert first.endswith("payments count twice")


@pytest.mark.slow
def test_each_row_of_an_outbox_leaves_once_in_order_through_kills(postgresql: PostgresqlServer, tmp_path: Path) -> None:
    assert OutboxCampaign(Plan(RECORDS, KILLS, 9), tmp_path, postgresql).run() == []


@pytest.mark.slow
def test_each_row_of_an_outbox_in_sqlite_leaves_once_in_order_through_kills(tmp_path: Path) -> None:
    assert OutboxCampaign(Plan(RECORDS, KILLS, 9, database="sqlite"), tmp_path, None).run() == []
