"""Where Moldau answers otherwise than Apache Kafka 4.4.0 on purpose: at most 20 rows, each with its reason.

A row is (API, a pattern of the differing field's path, what differs as "ours / theirs" or "" for whatever, reason). The
differences that bad input makes stand in the bad-input tests instead: here every request is legal.
"""

from __future__ import annotations

import re
from typing import Any

EXEMPTIONS: tuple[tuple[str, str, str, str], ...] = (
    (
        "INCREMENTAL_ALTER_CONFIGS",
        r"\.responses\.error_message",
        "",
        "of two settings that are both wrong, Apache Kafka names the one that its hash map gives first",
    ),
    (
        "ALTER_CONFIGS",
        r"\.responses\.error_message",
        "",
        "of two settings that are both wrong, Apache Kafka names the one that its hash map gives first",
    ),
    (
        "CREATE_TOPICS",
        r"\.topics\.error_message",
        "",
        "of two settings that are both wrong, Apache Kafka names the one that its hash map gives first",
    ),
    (
        "FETCH",
        r"\.responses\.partitions\.error_code",
        "100 / 3",
        "of a deleted topic Apache Kafka remembers the name in a session; its id is as unknown as outside of one",
    ),
)
MOST = 20

NOT_ADVERTISED = ("group.version", "share.version", "streams.version")
"""Features of what is not served yet: the new group protocols (KIP-848), share and streams groups. A client that sees
one begins to rely on it. Otherwise the features of both brokers are the same."""


def exemption(api: str, path: str, ours: Any, theirs: Any) -> str | None:
    """The reason of the row that covers the difference, or None."""
    if api == "API_VERSIONS" and path in (".supported_features", ".finalized_features"):
        shown = [feature for feature in theirs if feature["name"] not in NOT_ADVERTISED]
        return "features of what is not served yet are not advertised" if ours == shown else None
    for name, pattern, values, reason in EXEMPTIONS:
        if name == api and re.fullmatch(pattern, path) and values in ("", f"{ours} / {theirs}"):
            return reason
    return None
