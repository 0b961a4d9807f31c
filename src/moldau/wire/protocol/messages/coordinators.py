"""FindCoordinator: the broker for a group or a transactional id (KIP-98, 699)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.wire.protocol.schema import Int8, Int16, Int32, Request, message, wire


@message(versions="0-6", flexible="3+")
class FindCoordinatorRequest(Request["FindCoordinatorResponse"], frozen=True):
    """`key_type`: 0 group, 1 (v1+) transactional id, 2 (v6+) share group partition. v4 asks for many keys at once
    (KIP-699).
    """

    key: Annotated[str, wire("0-3")] = ""
    key_type: Annotated[Int8, wire("1+")] = 0
    coordinator_keys: Annotated[tuple[str, ...], wire("4+")] = ()


class Coordinator(msgspec.Struct, frozen=True):
    key: Annotated[str, wire("4+")] = ""
    node_id: Annotated[Int32, wire("4+")] = 0
    host: Annotated[str, wire("4+")] = ""
    port: Annotated[Int32, wire("4+")] = 0
    error_code: Annotated[Int16, wire("4+")] = 0
    error_message: Annotated[str | None, wire("4+", nullable="4+", ignorable=True)] = ""


@message(versions="0-6", flexible="3+")
class FindCoordinatorResponse(msgspec.Struct, frozen=True):
    """v1 throttle time and error message; v4 one entry for each key (KIP-699) instead of one coordinator."""

    throttle_time_ms: Annotated[Int32, wire("1+", ignorable=True)] = 0
    error_code: Annotated[Int16, wire("0-3")] = 0
    error_message: Annotated[str | None, wire("1-3", nullable="1-3", ignorable=True)] = ""
    node_id: Annotated[Int32, wire("0-3")] = 0
    host: Annotated[str, wire("0-3")] = ""
    port: Annotated[Int32, wire("0-3")] = 0
    coordinators: Annotated[tuple[Coordinator, ...], wire("4+")] = ()
