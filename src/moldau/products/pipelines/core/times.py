"""How long the tasks of a query try to reach a broker."""

from __future__ import annotations

import msgspec

from moldau.client.protocol.retries import FIRST_CONTACT_TIMEOUT_MS, RETRY_TIMEOUT_MS


class SourceTimes(msgspec.Struct, frozen=True):
    """`first_contact_timeout_ms`: while it has never answered; `retry_timeout_ms`: after it was lost."""

    first_contact_timeout_ms: int = FIRST_CONTACT_TIMEOUT_MS
    retry_timeout_ms: int = RETRY_TIMEOUT_MS

    def options(self) -> dict[str, str]:
        """As options of the format `moldau`."""
        return {
            "firstContactTimeoutMs": str(max(1, self.first_contact_timeout_ms)),
            "retryTimeoutMs": str(max(1, self.retry_timeout_ms)),
        }


DEFAULT_TIMES = SourceTimes()
