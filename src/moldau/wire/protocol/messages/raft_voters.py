"""AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter (KIP-853)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.types import ZERO_UUID, Uuid
from moldau.wire.protocol.messages.raft_records import Endpoint, KRaftVersionFeature
from moldau.wire.protocol.schema import Int16, Int32, Request, message, wire


@message(versions="0-1", flexible="0+")
class AddRaftVoterRequest(Request["AddRaftVoterResponse"], frozen=True):
    """v1 allows a response before the commit (KIP-1186)."""

    cluster_id: Annotated[str | None, wire(nullable="0+")] = ""
    timeout_ms: Int32 = 0
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    listeners: tuple[Endpoint, ...] = ()
    ack_when_committed: Annotated[bool, wire("1+")] = True


@message(versions="0-1", flexible="0+")
class AddRaftVoterResponse(msgspec.Struct, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+", ignorable=True)] = ""


@message(versions="0", flexible="0+")
class RemoveRaftVoterRequest(Request["RemoveRaftVoterResponse"], frozen=True):
    cluster_id: Annotated[str | None, wire(nullable="0+")] = ""
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID


@message(versions="0", flexible="0+")
class RemoveRaftVoterResponse(msgspec.Struct, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire(nullable="0+", ignorable=True)] = ""


@message(versions="0", flexible="0+")
class UpdateRaftVoterRequest(Request["UpdateRaftVoterResponse"], frozen=True):
    """A voter tells the leader its new address. `current_leader_epoch` -1: unknown."""

    cluster_id: Annotated[str | None, wire(nullable="0+")] = ""
    current_leader_epoch: Int32 = 0
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    listeners: tuple[Endpoint, ...] = ()
    kraft_version_feature: KRaftVersionFeature = KRaftVersionFeature()


class CurrentLeader(msgspec.Struct, frozen=True):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    host: str = ""
    port: Int32 = 0


@message(versions="0", flexible="0+")
class UpdateRaftVoterResponse(msgspec.Struct, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    current_leader: Annotated[CurrentLeader, wire(tag=0)] = CurrentLeader()
