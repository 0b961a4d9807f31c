"""Decisions in the metadata log are logged in sentences of bounded length."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.shell.broker.cluster.life_cycle import LifeCycle
from moldau.types import BrokerId

pytestmark = pytest.mark.asyncio


async def test_a_partition_that_nobody_leads_any_more_is_told_so(start_node: Any, caplog: Any) -> None:
    caplog.set_level("INFO")
    node = await start_node()
    await node.create_topic("t")
    assert "topic t is created with 1 partition" in caplog.text
    await LifeCycle(BrokerId(1), node.node._quorum).shut_down(node.node.broker.broker_epoch)
    assert "t-0: leader none, leader epoch 1, in sync none" in caplog.text


async def test_a_clean_stop_is_no_news_of_each_partition(start_node: Any, caplog: Any) -> None:
    caplog.set_level("INFO")
    node = await start_node()
    await node.create_topic("t", partitions=3)
    caplog.clear()
    await node.node.stop()
    assert [record.getMessage() for record in caplog.records] == ["node 1 stopped"]
