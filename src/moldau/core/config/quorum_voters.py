"""`controller.quorum.voters`: the voters of a static quorum and their addresses."""

from __future__ import annotations

import re

import msgspec

from moldau.core.config.setting import invalid_value

_VOTER = re.compile(r"([0-9]+)@(\[[0-9a-fA-F:.%\w]*\]|[^:\[\]]+):([0-9]+)")


class QuorumVoter(msgspec.Struct, frozen=True):
    """One voter of `controller.quorum.voters`: `node_id@host:port`."""

    node_id: int
    host: str
    port: int


def parse_voters(items: tuple[str, ...]) -> tuple[QuorumVoter, ...]:
    """Raises error 40 for a malformed voter and for a repeated node id."""
    voters = tuple(_parse(item, items) for item in items)
    if len({voter.node_id for voter in voters}) != len(voters):
        raise invalid_value("controller.quorum.voters", ",".join(items), "a node id stands twice")
    return voters


def _parse(item: str, items: tuple[str, ...]) -> QuorumVoter:
    match = _VOTER.fullmatch(item.strip())
    if match is None or not 0 < int(match[3][:7]) <= 65_535 or int(match[1]) > 0x7FFFFFFF:
        raise invalid_value("controller.quorum.voters", ",".join(items), "a voter is written ID@HOST:PORT")
    return QuorumVoter(int(match[1]), match[2].strip("[]"), int(match[3]))
