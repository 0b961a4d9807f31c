"""Intended differences between the responses of Moldau and Apache Kafka 4.4.0: at most 20 rows, each with its reason.

A row is (API, a pattern of the differing field's path, the difference as "ours / theirs" or "" for any, reason).
Differences for bad input are in the bad-input tests: here every request is legal.
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
OF_USERS: tuple[tuple[str, str, str, str], ...] = (
    (
        r".*",
        r".*\.error_message",
        r"Cluster authorization failed\. / Request .*",
        "Apache Kafka shows objects of its own",
    ),
    (r".*", r".*\.error_message", r"Cluster authorization failed\. / None", "Apache Kafka gives no text"),
    (
        "LIST_PARTITION_REASSIGNMENTS",
        r"\.topics",
        r"\[\] / .*",
        "Apache Kafka repeats the topics that were asked for, with nothing in them",
    ),
    (
        "DESCRIBE_USER_SCRAM_CREDENTIALS",
        r"\.results",
        r"\[\] / .*'error_code': 31.*",
        "Apache Kafka gives the error once more for each user that was asked for, without the name",
    ),
    (
        "CONSUMER_GROUP_(HEARTBEAT|DESCRIBE)",
        r".*\.error_code",
        "30 / 35",
        "Moldau asks for the right before it says that the protocol is not served",
    ),
)
"""Like EXEMPTIONS, for users who lack a right; all four are patterns. No row covers an effect, or the data of a
resource."""

NOT_ADVERTISED = ("group.version", "share.version", "streams.version")
"""Features that are not served yet: the new group protocols (KIP-848), share and streams groups. A client that sees one
begins to rely on it. Otherwise the features of both brokers are the same."""


def exemption(api: str, path: str, ours: Any, theirs: Any, *, is_of_user: bool = False) -> str | None:
    """The reason of the row that covers the difference, or None. `is_of_user`: the client may lack rights."""
    for pattern_of_api, pattern, pattern_of_values, reason in OF_USERS if is_of_user else ():
        is_covered = re.fullmatch(pattern_of_api, api) and re.fullmatch(pattern, path)
        if is_covered and re.fullmatch(pattern_of_values, f"{ours} / {theirs}", re.DOTALL):
            return reason
    if api == "API_VERSIONS" and path in (".supported_features", ".finalized_features"):
        shown = [feature for feature in theirs if feature["name"] not in NOT_ADVERTISED]
        return "features of what is not served yet are not advertised" if ours == shown else None
    for name, pattern, values, reason in EXEMPTIONS:
        if name == api and re.fullmatch(pattern, path) and values in ("", f"{ours} / {theirs}"):
            return reason
    return None
