"""The id of a service, which is a part of the names of topics, groups and directories."""

from __future__ import annotations

import re

MOST_CHARACTERS = 100

_ID = re.compile(rf"[A-Za-z0-9_-][A-Za-z0-9._-]{{0,{MOST_CHARACTERS - 1}}}")


def check_service_id(service_id: str) -> str:
    """Raises ValueError for one that cannot be a part of such names."""
    if _ID.fullmatch(service_id) is None:
        raise ValueError(
            "a service id has letters, digits, `.`, `_` and `-`, does not begin with `.`, and has at most "
            f"{MOST_CHARACTERS} characters"
        )
    return service_id
