"""Where Moldau answers otherwise than Apache Kafka 4.3.1 on purpose: at most 20 rows, each with its reason.

A row is (API, a pattern of the differing field's path, reason). The differences that bad input makes stand in the
bad-input tests instead: here every request is legal.
"""

from __future__ import annotations

import re
from typing import Any

EXEMPTIONS: tuple[tuple[str, str, str], ...] = (
    (
        "API_VERSIONS",
        r"\.(supported|finalized)_features",
        "features of what is not served yet (KIP-848, share and streams groups, transactions) are not advertised",
    ),
    (
        "INCREMENTAL_ALTER_CONFIGS",
        r"\.responses\.error_message",
        "of two settings that are both wrong, Apache Kafka names the one that its hash map gives first",
    ),
    (
        "ALTER_CONFIGS",
        r"\.responses\.error_message",
        "of two settings that are both wrong, Apache Kafka names the one that its hash map gives first",
    ),
    (
        "CREATE_TOPICS",
        r"\.topics\.error_message",
        "of two settings that are both wrong, Apache Kafka names the one that its hash map gives first",
    ),
)
MOST = 20


def exemption(api: str, path: str, ours: Any, theirs: Any) -> str | None:
    """The reason of the row that covers the difference, or None."""
    for name, pattern, reason in EXEMPTIONS:
        if name == api and re.fullmatch(pattern, path):
            return reason
    return None
