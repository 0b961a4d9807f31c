"""How long the tasks of a query try to reach a broker."""

from __future__ import annotations

import msgspec

from moldau.client.protocol.access import FIRST_CONTACT_TIMEOUT_MS, RETRY_TIMEOUT_MS, ClusterAccess


class SourceTimes(msgspec.Struct, frozen=True):
    """`first_contact_timeout_ms`: for a cluster that has never answered; `retry_timeout_ms`: after the connection was
    lost."""

    first_contact_timeout_ms: int = FIRST_CONTACT_TIMEOUT_MS
    retry_timeout_ms: int = RETRY_TIMEOUT_MS

    def of(self, access: ClusterAccess) -> ClusterAccess:
        """The access with these times."""
        return msgspec.structs.replace(
            access,
            first_contact_timeout_ms=max(1, self.first_contact_timeout_ms),
            retry_timeout_ms=max(1, self.retry_timeout_ms),
        )


DEFAULT_TIMES = SourceTimes()
