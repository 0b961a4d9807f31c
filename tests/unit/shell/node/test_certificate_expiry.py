"""A certificate that expires soon is logged once a day, and is always in the metrics."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moldau.shell.node.metrics.security import add_security
from moldau.shell.node.metrics.table import TABLE
from moldau.shell.node.status import NodeStatus
from moldau.shell.node.tls import CERTIFICATE_END
from moldau.transport.exposition import Samples
from tests.support.certificates import authority
from tests.support.tls_settings import settings_in

DAY_S = 86_400


def test_it_is_told_from_thirty_days_on(in_virtual_time: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def told() -> list[str]:
        return [text for record in caplog.records if "certificate of listener" in (text := record.getMessage())]

    async def story(start_node: Any) -> None:
        settings = settings_in(tmp_path)
        node = await start_node(settings)
        end_ms = node.node.telemetry.value(CERTIFICATE_END, "SSL")
        days = (end_ms - node.node.ports.clock.now_ms()) / (1_000 * DAY_S)
        authority().issue("CN=server", days=90 - days + 30.5).write(tmp_path, "server")
        await asyncio.sleep(10)
        assert told() == []
        await asyncio.sleep(DAY_S)
        assert told() == ["the certificate of listener SSL expires in 29 days"]
        assert 'moldau_certificate_expiry_days{listener="SSL"} 29.' in metrics(node.node)

    in_virtual_time(story)


def metrics(node: Any) -> str:
    status = NodeStatus(node.ports.clock, node.telemetry, None, node.connections)  # type: ignore[arg-type]
    out = Samples(TABLE)
    add_security(status, out)
    return out.render().decode()
